//! Cloudflare's sandboxes: the API of the container, which `SandboxClient` speaks over HTTP or a socket; the terminal socket of
//! `SandboxAddon`; and the bridge, which the agents extensions speak. docs/dialects/cloudflare.md says what works and what differs.
//!
//! ```text
//! container/  /api/…, and the same over /ws ┐
//! bridge/     /v1/…                         ├─▶ command.rs: a run, or a command of a session ─▶ core
//! terminal/   /ws/pty, /v1/…/pty            ┘
//! ```
//!
//! One outlive is one sandbox: whatever id a bridge client has for its sandbox, it is this machine. What was started under an id
//! carries it as an annotation, and goes when that sandbox is deleted.
//!
//! `Authorization: Bearer` is the token, as the bridge has it. The container takes the same header for the name of a
//! session: so it is one only where the client has shown who it is by other means (`X-Outlive-Token`), or where no token is asked
//! for. There is no value that could be either.

mod bridge;
mod clock;
mod command;
mod container;
mod error;
mod folder;
mod names;
mod terminal;
mod text;

use axum::http::Method;

use super::Dialect;
use crate::access::Scope;
use crate::front::{Front, Needs, Routes};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "cloudflare",
        words: error::in_both_words,
        request_headers: "authorization, content-type, session-id, x-session-id, x-outlive-token",
    },
    routes,
    take_over: |_| {},
};

/// On processes.
const PROCESS: &str = "cloudflare.process";
/// On everything that was started under a sandbox's id.
const SANDBOX: &str = "cloudflare.sandbox";
/// On terminals: the id by which clients come back to it, empty for those that nobody can come back to.
const TERMINAL: &str = "cloudflare.terminal";

const OPEN: Needs = Needs::Nothing;
const READ: Needs = Needs::Scope(Scope::Read);
const WRITE: Needs = Needs::Scope(Scope::Write);

fn routes() -> Routes {
    use bridge::{exec, files, openapi, sandbox, unsupported};
    use container::multiplex;
    const ATTACH: Needs = Needs::Attach;
    container_routes()
        .add(ATTACH, Method::GET, "/ws", multiplex::open)
        .add(ATTACH, Method::GET, "/api/ws", multiplex::open)
        .add(ATTACH, Method::GET, "/ws/pty", terminal::of_session)
        // ---- the bridge
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
        .add(ATTACH, Method::GET, "/v1/sandbox/{id}/pty", terminal::of_sandbox)
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

/// What can be asked for over a request of its own, and over the socket at `/ws` as well.
fn container_routes() -> Routes {
    use container::{execute, inspect, kill, logs, port, sessions, start, status};
    Routes::default()
        .add(OPEN, Method::GET, "/", status::root)
        .add(READ, Method::GET, "/api/ping", status::ping)
        .add(READ, Method::GET, "/api/version", status::version)
        .add(WRITE, Method::POST, "/api/session/create", sessions::create)
        .add(READ, Method::GET, "/api/session/list", sessions::list)
        .add(WRITE, Method::POST, "/api/session/delete", sessions::delete)
        .add(WRITE, Method::POST, "/api/execute", execute::execute)
        .add(WRITE, Method::POST, "/api/execute/stream", execute::stream)
        .add(WRITE, Method::POST, "/api/process/start", start::start)
        .add(READ, Method::GET, "/api/process/list", inspect::list)
        .add(WRITE, Method::DELETE, "/api/process/kill-all", kill::kill_all)
        .add(READ, Method::GET, "/api/process/{id}", inspect::get)
        .add(WRITE, Method::DELETE, "/api/process/{id}", kill::kill)
        .add(READ, Method::GET, "/api/process/{id}/logs", logs::whole)
        .add(READ, Method::GET, "/api/process/{id}/stream", logs::stream)
        .add(WRITE, Method::POST, "/api/port-watch", port::watch)
}
