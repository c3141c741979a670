//! E2B: the process service of `envd`, as the official JavaScript and Python SDKs speak it. docs/dialects/e2b.md says what works and
//! what differs.
//!
//! ```text
//! connect/ (the protocol) ─▶ message.rs ─▶ select.rs: which process ─▶ start, watch, input, control ─▶ core
//! ```

mod connect;
mod control;
mod end;
mod error;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod init;
mod input;
mod json;
mod message;
mod rest;
mod select;
mod start;
mod timestamp;
mod watch;

use axum::http::Method;

use super::Dialect;
use crate::access::Scope;
use crate::front::{Front, Needs, Routes};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "e2b",
        words: error::in_rest_words,
        request_headers: "authorization, content-type, x-access-token, connect-protocol-version, connect-timeout-ms, \
                          keepalive-ping-interval, e2b-sandbox-id, e2b-sandbox-port",
    },
    routes,
    take_over: |_| {},
};

fn routes() -> Routes {
    const OPEN: Needs = Needs::Nothing;
    const READ: Needs = Needs::Scope(Scope::Read);
    const WRITE: Needs = Needs::Scope(Scope::Write);
    const ADMIN: Needs = Needs::Scope(Scope::Admin);
    Routes::default()
        .add(WRITE, Method::POST, "/process.Process/Start", start::start)
        .add(READ, Method::POST, "/process.Process/Connect", watch::connect)
        .add(READ, Method::POST, "/process.Process/List", select::list)
        .add(WRITE, Method::POST, "/process.Process/Update", control::update)
        .add(WRITE, Method::POST, "/process.Process/SendInput", input::send)
        .add(WRITE, Method::POST, "/process.Process/StreamInput", input::stream)
        .add(WRITE, Method::POST, "/process.Process/CloseStdin", input::close)
        .add(WRITE, Method::POST, "/process.Process/SendSignal", control::signal)
        .add(OPEN, Method::GET, "/health", rest::health)
        .add(READ, Method::GET, "/metrics", rest::metrics)
        .add(READ, Method::GET, "/envs", init::envs)
        .add(ADMIN, Method::POST, "/init", init::init)
}
