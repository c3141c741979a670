//! The native HTTP API. Handlers parse, call the core, and format; one file per subject.
//!
//! A new route: write the handler with `#[utoipa::path]` in its subject's file, add it to the list below and to that in `document.rs`,
//! run `cargo xtask openapi`.

mod config;
mod connect;
mod console;
mod context;
mod dialects;
mod docs;
#[cfg(any(test, debug_assertions))]
mod document;
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
use axum::http::Method;
use axum::response::IntoResponse as _;

#[cfg(debug_assertions)]
pub(crate) use self::document::openapi;
pub(crate) use self::metrics::Metrics;
pub(crate) use self::output::until as output_until;
use self::problem::Problem;
pub(crate) use self::state::App;
pub(crate) use self::tokens::{
    issued as issued_tokens, keep as keep_token, keep_of_file as keep_tokens_of_file, of_file as tokens_of_file,
};
use crate::access::{Scope, credentials};
use crate::front::{Front, Needs, Routes};

pub(crate) const FRONT: Front = Front {
    name: credentials::NATIVE,
    words: |problem: Problem| problem.into_response(),
    request_headers: "authorization, content-type, idempotency-key, last-event-id",
};

/// Everything there is, with what it asks for. A route that is not here does not exist.
pub(crate) fn routes() -> Routes {
    const OPEN: Needs = Needs::Nothing;
    const READ: Needs = Needs::Scope(Scope::Read);
    const ATTACH: Needs = Needs::Attach;
    const WRITE: Needs = Needs::Scope(Scope::Write);
    const ADMIN: Needs = Needs::Scope(Scope::Admin);
    Routes::default()
        .add(OPEN, Method::GET, "/healthz", health::healthz)
        .add(OPEN, Method::GET, "/v1/openapi.json", docs::openapi)
        .add(OPEN, Method::GET, "/docs", docs::docs)
        .add(OPEN, Method::GET, "/", docs::root)
        .add(OPEN, Method::GET, "/ui", console::page)
        .add(OPEN, Method::GET, "/ui/app.js", console::script)
        .add(OPEN, Method::GET, "/ui/app.css", console::style)
        .add(READ, Method::GET, "/v1/processes", processes::list)
        .add(READ, Method::GET, "/v1/processes/{id}", processes::get)
        .add(READ, Method::POST, "/v1/processes/{id}/wait", wait::wait)
        .add(READ, Method::GET, "/v1/processes/{id}/logs", logs::logs)
        .add(READ, Method::GET, "/v1/processes/{id}/output", output::output)
        .add(READ, Method::GET, "/v1/processes/{id}/recording", recording::recording)
        .add(READ, Method::GET, "/v1/processes/{id}/screen", screen::screen)
        .add(READ, Method::GET, "/v1/processes/{id}/attachments", observe::attachments)
        .add(READ, Method::GET, "/v1/processes/{id}/tree", observe::tree)
        .add(READ, Method::GET, "/v1/events", events::events)
        .add(READ, Method::GET, "/v1/sessions", sessions::list)
        .add(READ, Method::GET, "/v1/sessions/{id}", sessions::get)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs", execs::list)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs/{execId}", execs::get)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs/{execId}/output", execs::output)
        .add(READ, Method::GET, "/v1/context", context::context)
        .add(READ, Method::GET, "/v1/processes/config", config::get_process_config)
        .add(READ, Method::GET, "/v1/config", config::get_config)
        .add(READ, Method::GET, "/v1/health", health::health)
        .add(READ, Method::GET, "/v1/dialects", dialects::list)
        .add(READ, Method::GET, "/v1/machine", observe::machine)
        .add(READ, Method::GET, "/metrics", metrics::metrics)
        .add(READ, Method::POST, "/v1/tickets", tickets::issue)
        .add(ATTACH, Method::GET, "/v1/processes/{id}/connect", connect::connect)
        .add(ATTACH, Method::GET, "/v1/processes/{id}/terminal/ws", terminal::terminal)
        .add(WRITE, Method::POST, "/v1/processes/run", run::run)
        .add(WRITE, Method::POST, "/v1/wait", wait::wait_port)
        .add(WRITE, Method::POST, "/v1/processes", processes::create)
        .add(WRITE, Method::PATCH, "/v1/processes/{id}", processes::patch)
        .add(WRITE, Method::DELETE, "/v1/processes/{id}", processes::delete)
        .add(WRITE, Method::POST, "/v1/processes/{id}/start", lifecycle::start)
        .add(WRITE, Method::POST, "/v1/processes/{id}/restart", lifecycle::restart)
        .add(WRITE, Method::POST, "/v1/processes/{id}/stop", lifecycle::stop)
        .add(WRITE, Method::POST, "/v1/processes/{id}/kill", lifecycle::kill)
        .add(WRITE, Method::POST, "/v1/processes/{id}/signal", lifecycle::signal)
        .add(WRITE, Method::POST, "/v1/sessions", sessions::create)
        .add(WRITE, Method::DELETE, "/v1/sessions/{id}", sessions::delete)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/processes", sessions::start_process)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/exec", execs::exec)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/execs/{execId}/cancel", execs::cancel)
        .add(WRITE, Method::POST, "/v1/processes/{id}/input", input::input)
        .add(WRITE, Method::POST, "/v1/processes/{id}/stdin/close", input::close_stdin)
        .add(WRITE, Method::POST, "/v1/processes/{id}/resize", input::resize)
        .add(WRITE, Method::POST, "/v1/processes/{id}/terminal/resize", input::resize_terminal)
        .add(ADMIN, Method::POST, "/v1/processes/config", config::set_process_config)
        .add(ADMIN, Method::POST, "/v1/config", config::set_config)
        .add(ADMIN, Method::GET, "/v1/tokens", tokens::list)
        .add(ADMIN, Method::POST, "/v1/tokens", tokens::issue)
        .add(ADMIN, Method::DELETE, "/v1/tokens/{name}", tokens::revoke)
        .add(ADMIN, Method::POST, "/v1/upgrade", health::upgrade)
}

pub(crate) fn router(app: &App) -> Router {
    FRONT.router(app, routes())
}
