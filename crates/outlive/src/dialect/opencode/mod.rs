//! The OpenCode dialect: terminals, events, and commands whose output becomes part of a session's messages, as
//! `@opencode-ai/sdk` (both of its entry points) and OpenCode's web client expect them. docs/dialects/opencode.md lists
//! what works and what differs.
//!
//! ```text
//! ptys/: REST calls about terminals      ─▶ core: processes on terminals
//! socket.rs: a terminal's WebSocket      ─▶ core: processes on terminals; utf16/: its cursor
//! sessions/: shell, command, messages    ─▶ core: processes on pipes; Core::store
//! events/: server-sent events            ◀─ core events, and the event bus that sessions/ publishes to
//! static_routes.rs: fixed responses that the web client requests at start-up
//! ```
//!
//! OpenCode has two APIs with different envelopes and errors: V1 at the root, V2 below `/api`.

mod error;
mod events;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod ids;
mod location;
mod ptys;
mod sessions;
mod shells;
mod socket;
mod static_routes;
mod utf16;

use std::sync::Arc;

use axum::http::{Extensions, Method};

use super::Dialect;
use crate::access::Scope;
use crate::http::AppState;
use crate::http::{RequiredScope, Routes, Surface};

pub(super) const DIALECT: Dialect = Dialect {
    surface: Surface {
        name: "opencode",
        render_error: error::render_error,
        cors_request_headers: "authorization, content-type, last-event-id, x-opencode-directory, x-opencode-workspace, \
                          x-opencode-ticket",
    },
    routes,
    start,
};

/// In-memory state of this dialect. All of it can be rebuilt after the server dies.
#[derive(Default)]
pub(super) struct OpenCode {
    trackers: utf16::Trackers,
    bus: events::Bus,
    sessions: sessions::Sessions,
}

/// Resumes the work of the previous server: unit tracking, pending terminal removals and running commands.
fn start(app: &AppState) -> Extensions {
    let opencode = Arc::new(OpenCode::default());
    utf16::take_over(&app.core, &opencode.trackers);
    tokio::spawn(utf16::watch_removals(app.core.clone(), opencode.trackers.clone()));
    ptys::resume_removals(&app.core);
    sessions::take_over(&app.core, &opencode);
    let mut extensions = Extensions::new();
    extensions.insert(opencode);
    extensions
}

const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
const ATTACH: RequiredScope = RequiredScope::Attach;

fn routes() -> Routes {
    pty_routes().merge(session_routes()).merge(start_up_routes())
}

/// Terminals, and the events about terminals and sessions.
fn pty_routes() -> Routes {
    use ptys::handlers as pty;
    Routes::default()
        .add(READ, Method::GET, "/pty/shells", pty::shells)
        .add(READ, Method::GET, "/pty", pty::list)
        .add(WRITE, Method::POST, "/pty", pty::create)
        .add(READ, Method::GET, "/pty/{id}", pty::get)
        .add(WRITE, Method::PUT, "/pty/{id}", pty::update)
        .add(WRITE, Method::DELETE, "/pty/{id}", pty::remove)
        .add(WRITE, Method::POST, "/pty/{id}/connect-token", pty::connect_token)
        .add(ATTACH, Method::GET, "/pty/{id}/connect", socket::connect)
        .add(READ, Method::GET, "/api/pty", pty::api_list)
        .add(WRITE, Method::POST, "/api/pty", pty::api_create)
        .add(READ, Method::GET, "/api/pty/{id}", pty::api_get)
        .add(WRITE, Method::PUT, "/api/pty/{id}", pty::api_update)
        .add(WRITE, Method::DELETE, "/api/pty/{id}", pty::api_remove)
        .add(WRITE, Method::POST, "/api/pty/{id}/connect-token", pty::api_connect_token)
        .add(ATTACH, Method::GET, "/api/pty/{id}/connect", socket::api_connect)
        .add(READ, Method::GET, "/event", events::directory_events)
        .add(READ, Method::GET, "/global/event", events::global_events)
        .add(READ, Method::GET, "/api/event", events::api_events)
}

fn session_routes() -> Routes {
    use sessions::handlers as session;
    Routes::default()
        .add(READ, Method::GET, "/session", session::list)
        .add(WRITE, Method::POST, "/session", session::create)
        .add(READ, Method::GET, "/session/status", session::status)
        .add(READ, Method::GET, "/session/{id}", session::get)
        .add(WRITE, Method::PATCH, "/session/{id}", session::update)
        .add(WRITE, Method::DELETE, "/session/{id}", session::remove)
        .add(READ, Method::GET, "/session/{id}/children", session::children)
        .add(READ, Method::GET, "/session/{id}/todo", session::empty_list)
        .add(READ, Method::GET, "/session/{id}/diff", session::empty_list)
        .add(READ, Method::GET, "/session/{id}/message", session::list_messages)
        .add(READ, Method::GET, "/session/{id}/message/{messageID}", session::get_message)
        .add(WRITE, Method::POST, "/session/{id}/shell", session::shell)
        .add(WRITE, Method::POST, "/session/{id}/command", session::command)
        .add(WRITE, Method::POST, "/session/{id}/abort", session::abort)
}

/// Requests of the web client at start-up.
fn start_up_routes() -> Routes {
    use static_routes as fixed;
    Routes::default()
        .add(READ, Method::GET, "/global/health", fixed::health)
        .add(READ, Method::GET, "/api/health", fixed::api_health)
        .add(READ, Method::GET, "/api/location", fixed::location)
        .add(READ, Method::GET, "/doc", fixed::openapi_document)
        .add(READ, Method::GET, "/path", fixed::path)
        .add(READ, Method::GET, "/project", fixed::projects)
        .add(READ, Method::GET, "/project/current", fixed::project)
        .add(READ, Method::GET, "/config", fixed::config)
        .add(READ, Method::GET, "/global/config", fixed::config)
        .add(READ, Method::GET, "/config/providers", fixed::config_providers)
        .add(READ, Method::GET, "/provider", fixed::providers)
        .add(READ, Method::GET, "/provider/auth", fixed::empty_object)
        .add(READ, Method::GET, "/agent", fixed::agents)
        .add(READ, Method::GET, "/command", fixed::empty_list)
        .add(READ, Method::GET, "/mcp", fixed::empty_object)
        .add(READ, Method::GET, "/vcs", fixed::empty_object)
        .add(READ, Method::GET, "/lsp", fixed::empty_list)
        .add(READ, Method::GET, "/formatter", fixed::empty_list)
        .add(READ, Method::GET, "/skill", fixed::empty_list)
        .add(READ, Method::GET, "/permission", fixed::empty_list)
        .add(READ, Method::GET, "/question", fixed::empty_list)
}
