//! The OpenSandbox dialect: the API of `execd`, the daemon inside a sandbox, as the official Python and JavaScript SDKs
//! use it; the one-step terminals of OpenSandbox's feature request; and the two lifecycle calls that
//! `Sandbox.connect()` needs. docs/dialects/opensandbox.md lists what works and what differs.
//!
//! ```text
//! commands/    one-off commands: run, resume, status, logs, interrupt ┐
//! sessions.rs  shells with state                                      ├─▶ launch/: program, directory, env ─▶ core
//! terminals/   terminal sockets, and the terminals behind them        ┘
//! events/      the event stream of a command  ◀─ core::follow
//! sandbox.rs   health, metrics, the sandbox's address, unsupported calls
//! error.rs     every error · ids.rs: ids in OpenSandbox's forms
//! ```

mod commands;
mod error;
mod events;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod ids;
mod launch;
mod sandbox;
mod sessions;
mod terminals;

use axum::http::{Extensions, Method};

use super::Dialect;
use crate::access::Scope;
use crate::http::{RequiredScope, Routes, Surface};

pub(super) const DIALECT: Dialect = Dialect {
    surface: Surface {
        name: "opensandbox",
        render_error: error::render_error,
        cors_request_headers: "authorization, content-type, cache-control, x-execd-access-token, open-sandbox-api-key, \
                          open-sandbox-client-ip",
    },
    routes,
    start: |_| Extensions::new(),
};

fn routes() -> Routes {
    const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
    const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
    const ATTACH: RequiredScope = RequiredScope::Attach;
    use terminals::{attach, direct, handlers as pty};
    Routes::default()
        .add(READ, Method::GET, "/ping", sandbox::ping)
        .add(READ, Method::GET, "/metrics", sandbox::metrics)
        .add(READ, Method::GET, "/metrics/watch", sandbox::watch_metrics)
        .add(WRITE, Method::POST, "/command", commands::run::run)
        .add(ATTACH, Method::GET, "/command", direct::command)
        .add(WRITE, Method::DELETE, "/command", commands::inspect::interrupt)
        .add(READ, Method::GET, "/command/status/{id}", commands::inspect::status)
        .add(READ, Method::GET, "/command/{id}/logs", commands::inspect::logs)
        .add(READ, Method::GET, "/command/{id}/resume", commands::run::resume)
        .add(WRITE, Method::POST, "/session", sessions::create)
        .add(WRITE, Method::DELETE, "/session/{id}", sessions::delete)
        .add(WRITE, Method::POST, "/session/{id}/run", sessions::run)
        .add(WRITE, Method::POST, "/pty", pty::create)
        .add(READ, Method::GET, "/pty/{id}", pty::get)
        .add(WRITE, Method::DELETE, "/pty/{id}", pty::delete)
        .add(ATTACH, Method::GET, "/pty/{id}/ws", attach::attach)
        .add(ATTACH, Method::GET, "/terminal", direct::terminal)
        .add(ATTACH, Method::GET, "/v1/sandboxes/{sandbox}/proxy/{port}/terminal", direct::terminal)
        .add(READ, Method::GET, "/v1/sandboxes/{sandbox}/endpoints/{port}", sandbox::endpoint)
        .add(READ, Method::GET, "/v1/isolated/capabilities", sandbox::isolation)
        .add(WRITE, Method::POST, "/v1/isolated/session", sandbox::not_supported)
        .add(READ, Method::GET, "/v1/isolated/sessions", sandbox::not_supported)
        .add(WRITE, Method::POST, "/code", sandbox::not_supported)
        .add(WRITE, Method::DELETE, "/code", sandbox::not_supported)
        .add(WRITE, Method::POST, "/code/context", sandbox::not_supported)
        .add(READ, Method::GET, "/code/contexts", sandbox::not_supported)
}
