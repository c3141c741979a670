//! The native HTTP API. Handlers parse, call the core, and format; one file per subject.
//!
//! A new route: write the handler with `#[utoipa::path]` in its subject's file, add it to its group below, run
//! `cargo xtask openapi`.

mod config;
mod connect;
mod console;
mod context;
mod dialects;
mod docs;
mod events;
mod execs;
pub(crate) mod extract;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod health;
mod input;
mod lifecycle;
mod logs;
mod metrics;
mod observe;
mod output;
pub(crate) mod problem;
mod processes;
mod recording;
mod run;
mod run_stream;
mod screen;
mod sessions;
pub(crate) mod sse;
mod state;
mod terminal;
mod tickets;
mod tokens;
mod wait;

use axum::Router;
use axum::response::IntoResponse as _;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::metrics::Metrics;
pub(crate) use self::output::until as output_until;
use self::problem::Problem;
pub(crate) use self::state::App;
pub(crate) use self::tokens::{
    issued as issued_tokens, keep as keep_token, keep_of_file as keep_tokens_of_file, of_file as tokens_of_file,
};
use crate::access::{Scope, credentials};
use crate::front::{Front, Needs};

#[derive(OpenApi)]
#[openapi(info(
    title = "outlive",
    description = "Processes and terminals that outlive their connections.",
    license(name = "Apache-2.0")
))]
struct Document;

/// Everything there is, by what it asks for. A route that is in none of these groups does not exist.
fn groups() -> [(Needs, OpenApiRouter<App>); 5] {
    let open = OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::docs))
        .routes(routes!(docs::root))
        .routes(routes!(console::page))
        .routes(routes!(console::script))
        .routes(routes!(console::style));
    let read = OpenApiRouter::new()
        .routes(routes!(processes::list))
        .routes(routes!(processes::get))
        .routes(routes!(wait::wait))
        .routes(routes!(wait::wait_port))
        .routes(routes!(logs::logs))
        .routes(routes!(output::output))
        .routes(routes!(recording::recording))
        .routes(routes!(screen::screen))
        .routes(routes!(observe::attachments))
        .routes(routes!(observe::tree))
        .routes(routes!(events::events))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::get))
        .routes(routes!(execs::list))
        .routes(routes!(execs::get))
        .routes(routes!(execs::output))
        .routes(routes!(context::context))
        .routes(routes!(config::get_process_config))
        .routes(routes!(config::get_config))
        .routes(routes!(health::health))
        .routes(routes!(dialects::list))
        .routes(routes!(observe::machine))
        .routes(routes!(metrics::metrics))
        .routes(routes!(tickets::issue));
    let attach = OpenApiRouter::new().routes(routes!(connect::connect)).routes(routes!(terminal::terminal));
    let write = OpenApiRouter::new()
        .routes(routes!(run::run))
        .routes(routes!(processes::create))
        .routes(routes!(processes::patch, processes::delete))
        .routes(routes!(lifecycle::start))
        .routes(routes!(lifecycle::restart))
        .routes(routes!(lifecycle::stop))
        .routes(routes!(lifecycle::kill))
        .routes(routes!(lifecycle::signal))
        .routes(routes!(sessions::create))
        .routes(routes!(sessions::delete))
        .routes(routes!(sessions::start_process))
        .routes(routes!(execs::exec))
        .routes(routes!(execs::cancel))
        .routes(routes!(input::input))
        .routes(routes!(input::close_stdin))
        .routes(routes!(input::resize))
        .routes(routes!(input::resize_terminal));
    let admin = OpenApiRouter::new()
        .routes(routes!(config::set_process_config))
        .routes(routes!(config::set_config))
        .routes(routes!(tokens::list, tokens::issue))
        .routes(routes!(tokens::revoke))
        .routes(routes!(health::upgrade));
    [
        (Needs::Nothing, open),
        (Needs::Scope(Scope::Read), read),
        (Needs::Attach, attach),
        (Needs::Scope(Scope::Write), write),
        (Needs::Scope(Scope::Admin), admin),
    ]
}

/// The OpenAPI document, as it is checked in.
pub(crate) fn openapi() -> String {
    let mut document = Document::openapi();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    for (needs, group) in groups() {
        let (_, mut part) = group.split_for_parts();
        for (path, item) in &mut part.paths.paths {
            name_operations(path, item);
            needed_by(needs, item);
            operations(item).for_each(refused_by);
        }
        document.merge(part);
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Names that are unique, as generators of clients need them: `GET /v1/processes/{id}/output` is `getProcessOutput`.
fn name_operations(path: &str, item: &mut PathItem) {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty() && *word != "v1").collect();
    let mut name = String::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| !word.starts_with('{')) {
        let is_one = words.get(at + 1).is_some_and(|next| next.starts_with('{'));
        let one = word.strip_suffix("es").filter(|one| one.ends_with("ss")).or(word.strip_suffix('s'));
        let word = one.filter(|_| is_one).unwrap_or(word);
        for part in word.split(|letter: char| !letter.is_ascii_alphanumeric()) {
            name.extend(part.chars().take(1).flat_map(char::to_uppercase).chain(part.chars().skip(1)));
        }
    }
    let name = if name.is_empty() { "Root" } else { &name };
    let methods = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("delete", &mut item.delete),
        ("patch", &mut item.patch),
    ];
    for (method, operation) in methods {
        if let Some(operation) = operation {
            operation.operation_id = Some(format!("{method}{name}"));
        }
    }
}

/// Writes into the document what a path asks for.
fn needed_by(needs: Needs, item: &mut PathItem) {
    let scope = match needs {
        Needs::Nothing => return,
        // A viewer; a writer needs more.
        Needs::Attach => Scope::Read,
        Needs::Scope(scope) => scope,
    };
    let security = SecurityRequirement::new("token", [scope.name()]);
    for operation in operations(item) {
        operation.security = Some(vec![security.clone()]);
    }
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

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.options,
        &mut item.head,
        &mut item.patch,
    ];
    all.into_iter().flatten()
}

pub(crate) const FRONT: Front = Front {
    name: credentials::NATIVE,
    words: |problem: Problem| problem.into_response(),
    request_headers: "authorization, content-type, idempotency-key, last-event-id",
};

pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    for (needs, group) in groups() {
        let (group, _) = group.split_for_parts();
        router = router.merge(FRONT.guarded(needs, app, group));
    }
    FRONT.framed(app, router)
}

#[cfg(test)]
mod tests {
    #[test]
    fn openapi_is_checked_in_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == super::openapi(), "openapi.json is out of date: run `cargo xtask openapi`");
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
