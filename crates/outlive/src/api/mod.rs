//! The native HTTP API. Handlers parse, call the core, and format; one file per subject.
//!
//! A new route: write the handler with `#[utoipa::path]` in its subject's file, add it to `routes` below, run
//! `cargo xtask openapi`.

mod config;
mod connect;
mod docs;
mod events;
mod extract;
mod health;
mod input;
mod lifecycle;
mod logs;
mod metrics;
mod observe;
mod output;
mod problem;
mod processes;
mod run;
mod sse;
mod state;
mod terminal;
mod wait;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::metrics::Metrics;
use self::problem::{Kind, Problem};
pub(crate) use self::state::App;

#[derive(OpenApi)]
#[openapi(info(
    title = "outlive",
    description = "Processes and terminals that outlive their connections.",
    license(name = "Apache-2.0")
))]
struct Document;

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(run::run))
        .routes(routes!(processes::create, processes::list))
        .routes(routes!(config::get_process_config, config::set_process_config))
        .routes(routes!(processes::get, processes::patch, processes::delete))
        .routes(routes!(lifecycle::start))
        .routes(routes!(lifecycle::restart))
        .routes(routes!(lifecycle::stop))
        .routes(routes!(lifecycle::kill))
        .routes(routes!(lifecycle::signal))
        .routes(routes!(wait::wait))
        .routes(routes!(input::input))
        .routes(routes!(input::close_stdin))
        .routes(routes!(input::resize))
        .routes(routes!(input::resize_terminal))
        .routes(routes!(logs::logs))
        .routes(routes!(output::output))
        .routes(routes!(connect::connect))
        .routes(routes!(terminal::terminal))
        .routes(routes!(observe::attachments))
        .routes(routes!(observe::tree))
        .routes(routes!(events::events))
        .routes(routes!(config::get_config, config::set_config))
        .routes(routes!(health::health))
        .routes(routes!(health::upgrade))
        .routes(routes!(metrics::metrics))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::docs))
        .routes(routes!(docs::root))
}

/// The OpenAPI document, as it is checked in.
pub(crate) fn openapi() -> String {
    let (_, document) = routes().split_for_parts();
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

pub(crate) fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(extract::MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), count))
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

/// Counts answers and keeps a line about each in the log.
async fn count(axum::extract::State(app): axum::extract::State<App>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await.into_response();
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
}
