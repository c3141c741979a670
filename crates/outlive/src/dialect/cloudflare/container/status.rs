//! That somebody is there, and who.

use axum::Json;
use serde_json::{Value, json};

use super::super::clock;

/// Of the package whose container this stands in for; its client compares it with its own.
const VERSION: &str = "0.12.10";

pub(in super::super) async fn root() -> &'static str {
    "Hello from outlive, which speaks the API of a Cloudflare sandbox.\n"
}

pub(in super::super) async fn ping() -> Json<Value> {
    Json(json!({ "success": true, "status": "healthy", "message": "pong", "timestamp": clock::now() }))
}

pub(in super::super) async fn version() -> Json<Value> {
    Json(json!({ "success": true, "version": VERSION, "timestamp": clock::now() }))
}
