//! The native HTTP API. Handlers parse, call the core, and format; one file per subject.
//!
//! To add a route: write the handler with `#[utoipa::path]` in the file of its subject, and add it to the table below,
//! to that in `document.rs`, and with its scope to `tests/access/routes.rs`. Then run `cargo xtask openapi`, and
//! `npm run types` in `web/`.

mod connect;
mod console;
mod context;
mod dialects;
mod docs;
#[cfg(any(test, debug_assertions))]
mod document;
mod events;
mod execs;
mod follow_events;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod history;
mod input;
mod lifecycle;
mod logs;
mod observe;
mod output;
mod process_path;
mod processes;
mod recording;
mod run;
mod sandbox_terminal;
mod screen;
mod server;
mod sessions;
mod tickets;
mod tokens;
mod wait;

use axum::http::Method;
use axum::response::IntoResponse as _;

#[cfg(any(test, debug_assertions))]
pub(crate) use self::document::openapi;
use crate::access::{Scope, credentials};
use crate::http::problem::Problem;
use crate::http::{RequiredScope, Routes, Surface};

pub(crate) const SURFACE: Surface = Surface {
    name: credentials::NATIVE,
    render_error: |problem: Problem| problem.into_response(),
    cors_request_headers: "authorization, content-type, idempotency-key, last-event-id",
};

const OPEN: RequiredScope = RequiredScope::Nothing;
const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
const ATTACH: RequiredScope = RequiredScope::Attach;
const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
const ADMIN: RequiredScope = RequiredScope::Scope(Scope::Admin);

/// All routes of the native API.
pub(crate) fn routes() -> Routes {
    server_routes().merge(process_routes()).merge(session_routes()).merge(history_routes())
}

/// The server itself: documentation, console, health, limits, access and events.
fn server_routes() -> Routes {
    Routes::default()
        .add(OPEN, Method::GET, "/healthz", server::healthz)
        .add(OPEN, Method::GET, "/v1/openapi.json", docs::openapi)
        .add(OPEN, Method::GET, "/docs", docs::docs)
        .add(OPEN, Method::GET, "/", docs::root)
        .add(OPEN, Method::GET, "/ui", console::page)
        .add(OPEN, Method::GET, "/ui/", console::redirect)
        .add(OPEN, Method::GET, "/ui/app.js", console::script)
        .add(OPEN, Method::GET, "/ui/app.css", console::style)
        .add(READ, Method::GET, "/v1/health", server::health)
        .add(READ, Method::GET, "/v1/machine", observe::machine)
        .add(READ, Method::GET, "/v1/dialects", dialects::list)
        .add(READ, Method::GET, "/v1/events", events::events)
        .add(READ, Method::GET, "/metrics", server::metrics)
        .add(READ, Method::GET, "/v1/config", server::get_config)
        .add(ADMIN, Method::POST, "/v1/config", server::set_config)
        .add(READ, Method::GET, "/v1/tickets", tickets::list)
        .add(READ, Method::POST, "/v1/tickets", tickets::issue)
        .add(READ, Method::DELETE, "/v1/tickets/{id}", tickets::revoke)
        .add(ADMIN, Method::GET, "/v1/tokens", tokens::list)
        .add(ADMIN, Method::POST, "/v1/tokens", tokens::issue)
        .add(ADMIN, Method::DELETE, "/v1/tokens/{name}", tokens::revoke)
        .add(ADMIN, Method::POST, "/v1/upgrade", server::upgrade)
}

fn process_routes() -> Routes {
    Routes::default()
        .add(READ, Method::GET, "/v1/processes", processes::list)
        .add(WRITE, Method::POST, "/v1/processes", processes::create)
        .add(WRITE, Method::POST, "/v1/processes/run", run::run)
        .add(READ, Method::GET, "/v1/processes/{id}", processes::get)
        .add(WRITE, Method::PATCH, "/v1/processes/{id}", processes::patch)
        .add(WRITE, Method::DELETE, "/v1/processes/{id}", processes::delete)
        .add(READ, Method::GET, "/v1/processes/{id}/logs", logs::logs)
        .add(READ, Method::GET, "/v1/processes/{id}/output", output::output)
        .add(READ, Method::GET, "/v1/processes/{id}/recording", recording::recording)
        .add(READ, Method::GET, "/v1/processes/{id}/screen", screen::screen)
        .add(READ, Method::GET, "/v1/processes/{id}/attachments", observe::attachments)
        .add(READ, Method::GET, "/v1/processes/{id}/tree", observe::tree)
        .add(ATTACH, Method::GET, "/v1/processes/{id}/connect", connect::connect)
        .add(READ, Method::POST, "/v1/processes/{id}/wait", wait::wait)
        .add(WRITE, Method::POST, "/v1/processes/{id}/start", lifecycle::start)
        .add(WRITE, Method::POST, "/v1/processes/{id}/restart", lifecycle::restart)
        .add(WRITE, Method::POST, "/v1/processes/{id}/stop", lifecycle::stop)
        .add(WRITE, Method::POST, "/v1/processes/{id}/kill", lifecycle::kill)
        .add(WRITE, Method::POST, "/v1/processes/{id}/signal", lifecycle::signal)
        .add(WRITE, Method::POST, "/v1/processes/{id}/input", input::input)
        .add(WRITE, Method::POST, "/v1/processes/{id}/stdin/close", input::close_stdin)
        .add(WRITE, Method::POST, "/v1/processes/{id}/resize", input::resize)
        .add(WRITE, Method::POST, "/v1/wait", wait::wait_port)
        .add(ATTACH, Method::GET, "/v1/sandboxes/{id}/proxy/{port}/terminal", sandbox_terminal::terminal)
}

fn session_routes() -> Routes {
    Routes::default()
        .add(READ, Method::GET, "/v1/sessions", sessions::list)
        .add(WRITE, Method::POST, "/v1/sessions", sessions::create)
        .add(READ, Method::GET, "/v1/sessions/{id}", sessions::get)
        .add(WRITE, Method::DELETE, "/v1/sessions/{id}", sessions::delete)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/processes", sessions::start_process)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/exec", execs::exec)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs", execs::list)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs/{execId}", execs::get)
        .add(READ, Method::GET, "/v1/sessions/{id}/execs/{execId}/output", execs::output)
        .add(WRITE, Method::POST, "/v1/sessions/{id}/execs/{execId}/cancel", execs::cancel)
        .add(READ, Method::GET, "/v1/context", context::context)
}

/// What earlier boots have left. `GET /v1/processes` and the calls that read one process also find it.
fn history_routes() -> Routes {
    Routes::default()
        .add(ADMIN, Method::GET, "/v1/history", history::info)
        .add(ADMIN, Method::GET, "/v1/history/sessions", history::sessions)
        .add(ADMIN, Method::GET, "/v1/history/sessions/{id}/execs", history::execs)
        .add(ADMIN, Method::DELETE, "/v1/history/{id}", history::delete)
        .add(ADMIN, Method::POST, "/v1/history/gc", history::gc)
}
