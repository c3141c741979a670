//! OpenSandbox: what `execd` answers inside of a sandbox, as the official Python and JavaScript SDKs ask it, the terminals that its
//! feature request asked for, and the two answers of the lifecycle server that `Sandbox.connect()` needs. docs/dialects/opensandbox.md
//! says what works and what differs.
//!
//! ```text
//! asked.rs ─▶ command, session: a stream of events (event ◀ output ◀ lines ◀ core's log)
//!          ─▶ pty, terminal: a socket (lease: who types; control: what is typed) ─▶ the engine of all sockets
//! ```

mod asked;
mod channels;
mod command;
mod control;
mod end;
mod env_file;
mod error;
mod event;
mod folder;
mod follow;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod ids;
mod lease;
mod lifecycle;
mod lines;
mod output;
mod program;
mod pty;
mod pty_socket;
mod record;
mod rest;
mod session;
mod session_run;
mod terminal;

use axum::http::Method;

use super::{Dialect, Routes};
use crate::access::Scope;
use crate::front::{Front, Needs};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "opensandbox",
        words: error::in_words,
        request_headers: "authorization, content-type, cache-control, x-execd-access-token, open-sandbox-api-key, \
                          open-sandbox-client-ip",
    },
    routes,
};

fn routes() -> Routes {
    const READ: Needs = Needs::Scope(Scope::Read);
    const WRITE: Needs = Needs::Scope(Scope::Write);
    Routes::default()
        .add(READ, Method::GET, "/ping", rest::ping)
        .add(READ, Method::GET, "/metrics", rest::metrics)
        .add(READ, Method::GET, "/metrics/watch", rest::watch)
        .add(WRITE, Method::POST, "/command", command::run)
        .add(Needs::Attach, Method::GET, "/command", terminal::command)
        .add(WRITE, Method::DELETE, "/command", record::interrupt)
        .add(READ, Method::GET, "/command/status/{id}", record::status)
        .add(READ, Method::GET, "/command/{id}/logs", record::logs)
        .add(READ, Method::GET, "/command/{id}/resume", command::resume)
        .add(WRITE, Method::POST, "/session", session::create)
        .add(WRITE, Method::DELETE, "/session/{id}", session::delete)
        .add(WRITE, Method::POST, "/session/{id}/run", session::run)
        .add(WRITE, Method::POST, "/pty", pty::create)
        .add(READ, Method::GET, "/pty/{id}", pty::get)
        .add(WRITE, Method::DELETE, "/pty/{id}", pty::delete)
        .add(Needs::Attach, Method::GET, "/pty/{id}/ws", pty_socket::attach)
        .add(Needs::Attach, Method::GET, "/terminal", terminal::terminal)
        .add(Needs::Attach, Method::GET, "/v1/sandboxes/{sandbox}/proxy/{port}/terminal", terminal::terminal)
        .add(READ, Method::GET, "/v1/sandboxes/{sandbox}/endpoints/{port}", lifecycle::endpoint)
        .add(READ, Method::GET, "/v1/isolated/capabilities", rest::isolation)
        .add(WRITE, Method::POST, "/v1/isolated/session", rest::not_supported)
        .add(READ, Method::GET, "/v1/isolated/sessions", rest::not_supported)
        .add(WRITE, Method::POST, "/code", rest::not_supported)
        .add(WRITE, Method::DELETE, "/code", rest::not_supported)
        .add(WRITE, Method::POST, "/code/context", rest::not_supported)
        .add(READ, Method::GET, "/code/contexts", rest::not_supported)
}
