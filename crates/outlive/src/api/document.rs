//! The API's description, worked out from the handlers. It is checked in as `openapi.json`, and what is shipped has only that: to work it
//! out takes a megabyte of code. `cargo xtask openapi` writes it anew.

use axum::http::Method;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};

use crate::access::Scope;
use crate::front::Needs;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "outlive",
        description = "Processes and terminals that outlive their connections.",
        license(name = "Apache-2.0")
    ),
    paths(
        super::health::healthz,
        super::docs::openapi,
        super::docs::docs,
        super::docs::root,
        super::console::page,
        super::console::script,
        super::console::style,
        super::processes::list,
        super::processes::get,
        super::wait::wait,
        super::wait::wait_port,
        super::logs::logs,
        super::output::output,
        super::recording::recording,
        super::screen::screen,
        super::observe::attachments,
        super::observe::tree,
        super::events::events,
        super::sessions::list,
        super::sessions::get,
        super::execs::list,
        super::execs::get,
        super::execs::output,
        super::context::context,
        super::config::get_process_config,
        super::config::get_config,
        super::health::health,
        super::dialects::list,
        super::observe::machine,
        super::metrics::metrics,
        super::tickets::issue,
        super::connect::connect,
        super::terminal::terminal,
        super::run::run,
        super::processes::create,
        super::processes::patch,
        super::processes::delete,
        super::lifecycle::start,
        super::lifecycle::restart,
        super::lifecycle::stop,
        super::lifecycle::kill,
        super::lifecycle::signal,
        super::sessions::create,
        super::sessions::delete,
        super::sessions::start_process,
        super::execs::exec,
        super::execs::cancel,
        super::input::input,
        super::input::close_stdin,
        super::input::resize,
        super::input::resize_terminal,
        super::config::set_process_config,
        super::config::set_config,
        super::tokens::list,
        super::tokens::issue,
        super::tokens::revoke,
        super::health::upgrade,
    )
)]
struct Document;

/// The OpenAPI document, as it is checked in.
pub(crate) fn openapi() -> String {
    let mut document = Document::openapi();
    let needs: Vec<_> =
        super::routes().into_list().into_iter().map(|route| (route.method, route.path, route.needs)).collect();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            operation.operation_id = Some(name_of(&method, path));
            // Not by the file in which it is handled.
            operation.tags = None;
            if let Some((_, _, needs)) = needs.iter().find(|(of, at, _)| (of, *at) == (&method, path.as_str())) {
                needed_by(*needs, operation);
            }
            refused_by(operation);
        }
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Names that are unique, as generators of clients need them: `GET /v1/processes/{id}/output` is `getProcessOutput`.
fn name_of(method: &Method, path: &str) -> String {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty() && *word != "v1").collect();
    let method = method.as_str().to_ascii_lowercase();
    let mut name = method.clone();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| !word.starts_with('{')) {
        let is_one = words.get(at + 1).is_some_and(|next| next.starts_with('{'));
        let one = word.strip_suffix("es").filter(|one| one.ends_with("ss")).or(word.strip_suffix('s'));
        let word = one.filter(|_| is_one).unwrap_or(word);
        for part in word.split(|letter: char| !letter.is_ascii_alphanumeric()) {
            name.extend(part.chars().take(1).flat_map(char::to_uppercase).chain(part.chars().skip(1)));
        }
    }
    if name == method {
        name += "Root";
    }
    name
}

/// Writes into the document what an operation asks for.
fn needed_by(needs: Needs, operation: &mut Operation) {
    let scope = match needs {
        Needs::Nothing => return,
        // A viewer; a writer needs more.
        Needs::Attach => Scope::Read,
        Needs::Scope(scope) => scope,
    };
    operation.security = Some(vec![SecurityRequirement::new("token", [scope.name()])]);
}

/// Writes into the document how an operation refuses: in a content type of its own; and whatever it does itself, what
/// stands before it refuses too (the door, the guard, the limits of a body).
fn refused_by(operation: &mut Operation) {
    const PROBLEM: &str = "application/problem+json";
    let schema = || RefOr::Ref(Ref::from_schema_name("Problem"));
    let all = &mut operation.responses.responses;
    for response in all.values_mut() {
        let RefOr::T(response) = response else { continue };
        let is_problem =
            |content: &RefOr<Content>| matches!(content, RefOr::T(content) if content.schema == Some(schema()));
        if response.content.get("application/json").is_some_and(is_problem)
            && let Some(content) = response.content.swap_remove("application/json")
        {
            response.content.insert(PROBLEM.to_owned(), content);
        }
    }
    all.entry("4XX".to_owned())
        .or_insert_with(|| ResponseBuilder::new().content(PROBLEM, Content::new(Some(schema()))).build().into());
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::routes;
    use super::*;

    #[test]
    fn openapi_is_checked_in_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == super::openapi(), "openapi.json is out of date: run `cargo xtask openapi`");
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut document = Document::openapi();
        let paths = document.paths.paths.iter_mut();
        let described =
            paths.flat_map(|(path, item)| operations(item).map(|(method, _)| (path.clone(), method.to_string())));
        let served = routes().into_list().into_iter().map(|route| (route.path.to_owned(), route.method.to_string()));
        assert_eq!(described.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
    }

    #[test]
    fn several_operations_had_the_same_name() {
        let document: serde_json::Value = serde_json::from_str(&super::openapi()).unwrap();
        let operations =
            document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
        let mut names: Vec<&str> = operations.filter_map(|operation| operation["operationId"].as_str()).collect();
        names.sort_unstable();
        assert!(names.contains(&"getProcessOutput") && names.contains(&"postSessionExec"), "{names:?}");
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn queries_were_documented_as_parts_of_the_path() {
        let document: serde_json::Value = serde_json::from_str(&super::openapi()).unwrap();
        let (mut in_path, mut in_query) = (0, 0);
        for (path, item) in document["paths"].as_object().unwrap() {
            let operations = item.as_object().unwrap().values();
            for parameter in operations.filter_map(|operation| operation["parameters"].as_array()).flatten() {
                let name = parameter["name"].as_str().unwrap();
                let is_in_path = parameter["in"] == "path";
                assert_eq!(is_in_path, path.contains(&format!("{{{name}}}")), "{name} of {path}");
                in_path += u32::from(is_in_path);
                in_query += u32::from(parameter["in"] == "query");
            }
        }
        assert!(in_path > 0 && in_query > 0);
    }
}
