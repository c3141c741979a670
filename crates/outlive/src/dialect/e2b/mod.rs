//! The E2B dialect: `envd`'s process service as the official JavaScript and Python SDKs call it, and envd's plain HTTP
//! endpoints. docs/dialects/e2b.md lists what works and what differs.
//!
//! ```text
//! request ─▶ connect_rpc.rs: the Connect protocol ─▶ message.rs: JSON or protobuf
//!              ├─▶ start.rs: Start ───────────┐
//!              ├─▶ events.rs: Connect ────────┴─▶ events.rs: the event stream of one process
//!              └─▶ process.rs: list, input, resize, signal
//! request ─▶ rest.rs: /health, /metrics, /envs, /init
//! error.rs: every error in the shape that the SDKs expect
//! ```

mod connect_rpc;
mod error;
mod events;
#[cfg(any(fuzzing, test))]
pub(super) mod fuzzing;
mod json;
mod message;
mod process;
mod rest;
mod start;

use axum::http::{Extensions, Method};

use super::Dialect;
use crate::access::Scope;
use crate::http::{RequiredScope, Routes, Surface};

pub(super) const DIALECT: Dialect = Dialect {
    surface: Surface {
        name: "e2b",
        render_error: error::render_rest_error,
        cors_request_headers: "authorization, content-type, x-access-token, connect-protocol-version, connect-timeout-ms, \
                          keepalive-ping-interval, e2b-sandbox-id, e2b-sandbox-port",
    },
    routes,
    start: |_| Extensions::new(),
};

fn routes() -> Routes {
    const OPEN: RequiredScope = RequiredScope::Nothing;
    const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
    const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
    const ADMIN: RequiredScope = RequiredScope::Scope(Scope::Admin);
    Routes::default()
        .add(WRITE, Method::POST, "/process.Process/Start", start::start)
        .add(READ, Method::POST, "/process.Process/Connect", events::connect)
        .add(READ, Method::POST, "/process.Process/List", process::list)
        .add(WRITE, Method::POST, "/process.Process/Update", process::update)
        .add(WRITE, Method::POST, "/process.Process/SendInput", process::send_input)
        .add(WRITE, Method::POST, "/process.Process/StreamInput", process::stream_input)
        .add(WRITE, Method::POST, "/process.Process/CloseStdin", process::close_stdin)
        .add(WRITE, Method::POST, "/process.Process/SendSignal", process::send_signal)
        .add(OPEN, Method::GET, "/health", rest::health)
        .add(READ, Method::GET, "/metrics", rest::metrics)
        .add(READ, Method::GET, "/envs", rest::envs)
        .add(ADMIN, Method::POST, "/init", rest::init)
}
