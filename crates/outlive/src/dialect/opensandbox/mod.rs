//! OpenSandbox: what `execd` answers inside of a sandbox, as the official Python and JavaScript SDKs ask it, the terminals that its
//! feature request asked for, and the two answers of the lifecycle server that `Sandbox.connect()` needs. docs/dialects/opensandbox.md
//! says what works and what differs.
//!
//! ```text
//! asked.rs (bodies, queries) ─▶ commands/  one-off commands; their status, logs and interruption ┐
//!                            ─▶ sessions/  shells that remember                                  ├─▶ launch/, ids.rs ─▶ core
//!                            ─▶ terminals/ sockets, and the terminals that stay                  ┘
//! streams of commands/ and sessions/ ◀── events/ ◀── the core's log
//! rest.rs: signs of life, metrics, and what is not served · lifecycle.rs: where a port is found · error.rs: every refusal
//! ```

mod asked;
mod commands;
mod error;
mod events;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod ids;
mod launch;
mod lifecycle;
mod rest;
mod sessions;
mod terminals;

use axum::http::Method;

use super::Dialect;
use crate::access::Scope;
use crate::front::{Front, Needs, Routes};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "opensandbox",
        words: error::in_words,
        request_headers: "authorization, content-type, cache-control, x-execd-access-token, open-sandbox-api-key, \
                          open-sandbox-client-ip",
    },
    routes,
    take_over: |_| {},
};

fn routes() -> Routes {
    const READ: Needs = Needs::Scope(Scope::Read);
    const WRITE: Needs = Needs::Scope(Scope::Write);
    Routes::default()
        .add(READ, Method::GET, "/ping", rest::ping)
        .add(READ, Method::GET, "/metrics", rest::metrics)
        .add(READ, Method::GET, "/metrics/watch", rest::watch)
        .add(WRITE, Method::POST, "/command", commands::run::run)
        .add(Needs::Attach, Method::GET, "/command", terminals::one_step::command)
        .add(WRITE, Method::DELETE, "/command", commands::interrupt::interrupt)
        .add(READ, Method::GET, "/command/status/{id}", commands::status::status)
        .add(READ, Method::GET, "/command/{id}/logs", commands::logs::logs)
        .add(READ, Method::GET, "/command/{id}/resume", commands::run::resume)
        .add(WRITE, Method::POST, "/session", sessions::rest::create)
        .add(WRITE, Method::DELETE, "/session/{id}", sessions::rest::delete)
        .add(WRITE, Method::POST, "/session/{id}/run", sessions::rest::run)
        .add(WRITE, Method::POST, "/pty", terminals::rest::create)
        .add(READ, Method::GET, "/pty/{id}", terminals::rest::get)
        .add(WRITE, Method::DELETE, "/pty/{id}", terminals::rest::delete)
        .add(Needs::Attach, Method::GET, "/pty/{id}/ws", terminals::socket::attach)
        .add(Needs::Attach, Method::GET, "/terminal", terminals::one_step::terminal)
        .add(Needs::Attach, Method::GET, "/v1/sandboxes/{sandbox}/proxy/{port}/terminal", terminals::one_step::terminal)
        .add(READ, Method::GET, "/v1/sandboxes/{sandbox}/endpoints/{port}", lifecycle::endpoint)
        .add(READ, Method::GET, "/v1/isolated/capabilities", rest::isolation)
        .add(WRITE, Method::POST, "/v1/isolated/session", rest::not_supported)
        .add(READ, Method::GET, "/v1/isolated/sessions", rest::not_supported)
        .add(WRITE, Method::POST, "/code", rest::not_supported)
        .add(WRITE, Method::DELETE, "/code", rest::not_supported)
        .add(WRITE, Method::POST, "/code/context", rest::not_supported)
        .add(READ, Method::GET, "/code/contexts", rest::not_supported)
}
