//! Generates the OpenAPI document from the handlers. The result is checked in as `openapi.json` (`cargo xtask
//! openapi`), and release builds embed that file: the generator is a megabyte of code.

use axum::http::Method;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};

use crate::access::Scope;
use crate::http::{RequiredScope, Routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "outlive",
        description = "Processes and terminals that outlive their connections.",
        license(name = "Apache-2.0")
    ),
    paths(
        super::server::healthz,
        super::docs::openapi,
        super::docs::docs,
        super::docs::root,
        super::console::page,
        super::console::redirect,
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
        super::server::get_config,
        super::server::health,
        super::dialects::list,
        super::observe::machine,
        super::server::metrics,
        super::tickets::list,
        super::tickets::issue,
        super::tickets::revoke,
        super::connect::connect,
        super::sandbox_terminal::terminal,
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
        super::server::set_config,
        super::tokens::list,
        super::tokens::issue,
        super::tokens::revoke,
        super::server::upgrade,
        super::history::info,
        super::history::sessions,
        super::history::execs,
        super::history::delete,
        super::history::gc,
    )
)]
pub(crate) struct Document;

/// The document of the native API and of `others`, which share its address. `routes` are the routes of both.
pub(crate) fn openapi(others: utoipa::openapi::OpenApi, routes: Routes) -> String {
    let mut document = Document::openapi();
    document.merge(others);
    let routes = routes.into_list();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            operation.operation_id = Some(operation_id(&method, path));
            // utoipa derives tags from module names.
            operation.tags = None;
            if let Some(route) = routes.iter().find(|route| (&route.method, route.path) == (&method, path.as_str())) {
                describe_scope(route.required, operation);
            }
            describe_errors(operation);
        }
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// A unique name, which client generators need: `GET /v1/processes/{id}/output` is `getProcessOutput`.
fn operation_id(method: &Method, path: &str) -> String {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty() && *word != "v1").collect();
    let method = method.as_str().to_ascii_lowercase();
    let mut name = method.clone();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| !word.starts_with('{')) {
        let is_one = words.get(at + 1).is_some_and(|next| next.starts_with('{'));
        let one = word.strip_suffix("es").filter(|one| one.ends_with("ss") || one.ends_with('x'));
        let one = one.or(word.strip_suffix('s'));
        let word = one.filter(|_| is_one).unwrap_or(word);
        for part in word.split(|letter: char| !letter.is_ascii_alphanumeric()) {
            name.extend(part.chars().take(1).flat_map(char::to_uppercase).chain(part.chars().skip(1)));
        }
    }
    if name == method {
        name += "Root";
    } else if path.ends_with('/') {
        name += "Slash";
    }
    name
}

fn describe_scope(required: RequiredScope, operation: &mut Operation) {
    let scope = match required {
        RequiredScope::Nothing => return,
        // Only writers may attach.
        RequiredScope::Attach if operation.security.is_some() => return,
        // The scope of a viewer; a writer needs `write`.
        RequiredScope::Attach => Scope::Read,
        RequiredScope::Scope(scope) => scope,
    };
    operation.security = Some(vec![SecurityRequirement::new("token", [scope.name()])]);
}

/// Gives errors their content type, and documents errors of the middleware for every operation.
fn describe_errors(operation: &mut Operation) {
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

    use serde_json::Value;

    fn generated() -> String {
        crate::dialect::main_openapi()
    }

    fn parsed() -> Value {
        serde_json::from_str(&generated()).unwrap()
    }

    #[test]
    fn the_checked_in_openapi_json_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == generated(), "openapi.json is out of date; run `cargo xtask openapi`");
    }

    #[test]
    fn exactly_the_routes_are_described() {
        let document = parsed();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert((path.clone(), method.to_ascii_uppercase()));
            }
        }
        let routes = crate::dialect::main_routes().into_list();
        let served = routes.into_iter().map(|route| (route.path.to_owned(), route.method.to_string()));
        assert_eq!(described, served.collect::<BTreeSet<_>>());
    }

    #[test]
    fn operation_ids_are_unique() {
        let document = parsed();
        let operations =
            document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
        let mut names: Vec<&str> = operations.filter_map(|operation| operation["operationId"].as_str()).collect();
        names.sort_unstable();
        assert!(names.contains(&"getProcessOutput") && names.contains(&"postSessionExec"), "{names:?}");
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn query_parameters_are_not_described_as_path_parameters() {
        let document = parsed();
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
