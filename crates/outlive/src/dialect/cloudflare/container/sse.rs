//! Events of the container: JSON in `data:` lines, without names and ids.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::super::clock;

/// One event; the time is added.
pub(super) fn event(mut data: Value) -> Bytes {
    data["timestamp"] = clock::now().into();
    format!("data: {data}\n\n").into()
}

pub(super) fn error(message: &str) -> Bytes {
    event(json!({ "type": "error", "error": message, "data": message }))
}
