//! The native HTTP API. Handlers parse, call the core, and format; one file per subject.
//!
//! A new route: write the handler with `#[utoipa::path]` in its subject's file, add it to its group below, run
//! `cargo xtask openapi`.

mod config;
mod connect;
mod context;
mod docs;
mod events;
mod execs;
mod extract;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod guard;
mod health;
mod input;
mod lifecycle;
mod linger;
mod logs;
mod metrics;
mod observe;
mod output;
mod problem;
mod processes;
mod run;
mod sessions;
mod sse;
mod state;
mod terminal;
mod tickets;
mod tokens;
mod wait;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::guard::Needs;
pub(crate) use self::metrics::Metrics;
use self::problem::{Kind, Problem};
pub(crate) use self::state::App;
pub(crate) use self::tokens::{
    issued as issued_tokens, keep_of_file as keep_tokens_of_file, of_file as tokens_of_file,
};
use crate::access::Scope;

#[derive(OpenApi)]
#[openapi(info(
    title = "outlive",
    description = "Processes and terminals that outlive their connections.",
    license(name = "Apache-2.0")
))]
struct Document;

/// Everything there is, by what it asks for. A route that is in none of these groups does not exist.
fn groups() -> [(Option<Needs>, OpenApiRouter<App>); 5] {
    let open = OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::docs))
        .routes(routes!(docs::root));
    let read = OpenApiRouter::new()
        .routes(routes!(processes::list))
        .routes(routes!(processes::get))
        .routes(routes!(wait::wait))
        .routes(routes!(logs::logs))
        .routes(routes!(output::output))
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
        (None, open),
        (Some(Needs::Scope(Scope::Read)), read),
        (Some(Needs::Attach), attach),
        (Some(Needs::Scope(Scope::Write)), write),
        (Some(Needs::Scope(Scope::Admin)), admin),
    ]
}

/// The OpenAPI document, as it is checked in.
pub(crate) fn openapi() -> String {
    let mut document = Document::openapi();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    for (needs, group) in groups() {
        let (_, mut part) = group.split_for_parts();
        for item in part.paths.paths.values_mut() {
            needed_by(needs, item);
            operations(item).for_each(refused_by);
        }
        document.merge(part);
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Writes into the document what a path asks for.
fn needed_by(needs: Option<Needs>, item: &mut PathItem) {
    let scope = match needs {
        None => return,
        // A viewer; a writer needs more.
        Some(Needs::Attach) => Scope::Read,
        Some(Needs::Scope(scope)) => scope,
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

pub(crate) fn router(app: App) -> Router {
    let mut router = Router::new();
    for (needs, group) in groups() {
        let (group, _) = group.split_for_parts();
        router = router.merge(match needs {
            None => group,
            Some(needs) => {
                let app = app.clone();
                let admit = move |request: Request, next: Next| guard::admit(needs, app.clone(), request, next);
                group.route_layer(middleware::from_fn(admit))
            }
        });
    }
    let most = usize::try_from(app.limits.max_body_bytes).unwrap_or(usize::MAX);
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(most))
        .layer(middleware::from_fn_with_state(app.clone(), around))
        .with_state(app)
}

async fn unknown_path(request: Request) -> Problem {
    let path = request.uri().path();
    Problem::new(Kind::InvalidRequest, StatusCode::NOT_FOUND, "unknown_path", "endpoint not found")
        .with_expected("a path of /v1/openapi.json", path.chars().take(200).collect::<String>())
}

async fn wrong_method(method: Method, request: Request) -> Problem {
    let detail = format!("{method} is not possible on {}", request.uri().path());
    Problem::new(Kind::InvalidRequest, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// What stands around every handler. One layer: each costs as much as what it does.
async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let behind_the_door = async |request: Request| next.run(request).await;
    let at_the_door = async |request: Request| guard::door(&app, request, behind_the_door).await;
    count(&app, request, async |request| linger::linger(request, at_the_door).await).await
}

/// Counts answers and keeps a line about each in the log.
async fn count(app: &App, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next(request).await;
    let code = response.extensions().get::<problem::Code>().map(|code| code.0);
    app.metrics.answered(response.status().as_u16());
    tracing::debug!(%method, path, status = response.status().as_u16(), code, "answered");
    response
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
