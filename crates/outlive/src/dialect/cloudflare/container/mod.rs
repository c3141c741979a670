//! The API of Cloudflare's container, which `SandboxClient` calls over HTTP or over the socket in `multiplex.rs`.

pub(super) mod execute;
pub(super) mod logs;
pub(super) mod multiplex;
pub(super) mod port;
pub(super) mod processes;
pub(super) mod sessions;
mod sse_parser;
mod target;

use axum::Json;
use axum::body::Bytes;
use serde_json::{Value, json};

use crate::http::sse;
use crate::rfc3339;

/// The version of the `@cloudflare/sandbox` package whose container this dialect follows. The client compares it with
/// its own.
const VERSION: &str = "0.12.10";

pub(super) async fn root() -> &'static str {
    "Hello from outlive, which implements the API of a Cloudflare sandbox.\n"
}

pub(super) async fn ping() -> Json<Value> {
    Json(json!({ "success": true, "status": "healthy", "message": "pong", "timestamp": rfc3339::now() }))
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({ "success": true, "version": VERSION, "timestamp": rfc3339::now() }))
}

/// One server-sent event: JSON with a timestamp, without a name and an id.
fn event(mut data: Value) -> Bytes {
    data["timestamp"] = rfc3339::now().into();
    sse::event("", "", &data.to_string())
}

fn error_event(message: &str) -> Bytes {
    event(json!({ "type": "error", "error": message, "data": message }))
}

/// Feeds the input to every parser of the container's API.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::error::ContainerError;
    use super::fuzzing::{body, query};

    execute::fuzz(data);
    port::fuzz(data);
    target::fuzz(data);
    sse_parser::fuzz(data);
    multiplex::fuzz(data);
    body::<processes::StartRequest, ContainerError>(data);
    body::<sessions::CreateRequest, ContainerError>(data);
    body::<sessions::DeleteRequest, ContainerError>(data);
    query::<processes::ListQuery, ContainerError>(data);
}
