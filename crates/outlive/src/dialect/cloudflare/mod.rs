//! The Cloudflare dialect. docs/dialects/cloudflare.md lists what works and what differs.
//!
//! ```text
//! container/  /api/…, and the same over /ws   `SandboxClient`        ┐
//! bridge/     /v1/…                           the agents extensions  ├─▶ command.rs, session.rs ─▶ core
//! terminal/   /ws/pty, /v1/…/pty              `SandboxAddon`         ┘
//! error.rs    the two error shapes
//! ```
//!
//! One outlive is one sandbox: every sandbox id of a bridge client means this machine. A process that was started under
//! an id has it as an annotation, and deleting that sandbox kills the process.
//!
//! `Authorization: Bearer` is the token, as in the bridge. The container's clients use the same header for the name of
//! a session. It is a name only if the client authenticated by other means (`X-Outlive-Token`) or no token is required,
//! so no value is ever ambiguous.

mod bridge;
mod command;
mod container;
mod directory;
mod error;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod session;
mod terminal;

use axum::http::{Extensions, Method};

use super::Dialect;
use crate::access::Scope;
use crate::http::{RequiredScope, Routes, Surface};

pub(super) const DIALECT: Dialect = Dialect {
    surface: Surface {
        name: "cloudflare",
        render_error: error::render_shared_error,
        cors_request_headers: "authorization, content-type, session-id, x-session-id, x-outlive-token",
    },
    routes,
    start: |_| Extensions::new(),
};

/// Annotation of a process: the id that the client chose for it.
const PROCESS: &str = "cloudflare.process";
/// Annotation of everything that was started under a sandbox id.
const SANDBOX: &str = "cloudflare.sandbox";
/// Annotation of a terminal: the id by which clients reconnect, or empty if they cannot.
const TERMINAL: &str = "cloudflare.terminal";

const OPEN: RequiredScope = RequiredScope::Nothing;
const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
const ATTACH: RequiredScope = RequiredScope::Attach;

fn routes() -> Routes {
    use bridge::{exec, files, openapi, sandbox, unsupported};
    use container::multiplex;
    container_routes()
        .add(ATTACH, Method::GET, "/ws", multiplex::open)
        .add(ATTACH, Method::GET, "/api/ws", multiplex::open)
        .add(ATTACH, Method::GET, "/ws/pty", terminal::open_for_session)
        // The bridge.
        .add(OPEN, Method::GET, "/health", sandbox::health)
        .add(OPEN, Method::GET, "/v1/openapi.json", openapi::document)
        .add(OPEN, Method::GET, "/v1/openapi", openapi::page)
        .add(OPEN, Method::GET, "/v1/openapi.html", openapi::page)
        .add(WRITE, Method::POST, "/v1/sandbox", sandbox::create)
        .add(WRITE, Method::DELETE, "/v1/sandbox/{id}", sandbox::delete)
        .add(READ, Method::GET, "/v1/sandbox/{id}/running", sandbox::running)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/exec", exec::exec)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/session", sandbox::create_session)
        .add(WRITE, Method::DELETE, "/v1/sandbox/{id}/session/{sid}", sandbox::delete_session)
        .add(ATTACH, Method::GET, "/v1/sandbox/{id}/pty", terminal::open_for_sandbox)
        .add(WRITE, Method::GET, "/v1/sandbox/{id}/file/{*path}", files::get)
        .add(WRITE, Method::PUT, "/v1/sandbox/{id}/file/{*path}", files::put)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/persist", files::persist)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/hydrate", files::hydrate)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/mount", unsupported)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/unmount", unsupported)
        .add(WRITE, Method::POST, "/v1/sandbox/{id}/tunnel/{port}", unsupported)
        .add(WRITE, Method::DELETE, "/v1/sandbox/{id}/tunnel/{port}", unsupported)
        .add(READ, Method::GET, "/v1/pool/{*rest}", unsupported)
        .add(WRITE, Method::POST, "/v1/pool/{*rest}", unsupported)
}

/// The routes that exist over HTTP and over the socket at `/ws`.
fn container_routes() -> Routes {
    use container::{execute, logs, port, processes, sessions};
    Routes::default()
        .add(OPEN, Method::GET, "/", container::root)
        .add(READ, Method::GET, "/api/ping", container::ping)
        .add(READ, Method::GET, "/api/version", container::version)
        .add(WRITE, Method::POST, "/api/session/create", sessions::create)
        .add(READ, Method::GET, "/api/session/list", sessions::list)
        .add(WRITE, Method::POST, "/api/session/delete", sessions::delete)
        .add(WRITE, Method::POST, "/api/execute", execute::execute)
        .add(WRITE, Method::POST, "/api/execute/stream", execute::stream)
        .add(WRITE, Method::POST, "/api/process/start", processes::start)
        .add(READ, Method::GET, "/api/process/list", processes::list)
        .add(WRITE, Method::DELETE, "/api/process/kill-all", processes::kill_all)
        .add(READ, Method::GET, "/api/process/{id}", processes::get)
        .add(WRITE, Method::DELETE, "/api/process/{id}", processes::kill)
        .add(READ, Method::GET, "/api/process/{id}/logs", logs::read_all)
        .add(READ, Method::GET, "/api/process/{id}/stream", logs::stream)
        .add(WRITE, Method::POST, "/api/port-watch", port::watch)
}
