//! What `envd` answers besides the process service.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::observe;
use serde_json::{Value, json};

use crate::api::App;

/// 204 while processes can be started. Never 502, which to the SDKs means that the sandbox is gone.
pub(super) async fn health(State(app): State<App>) -> StatusCode {
    if app.core.holder_is_gone() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}

pub(super) async fn metrics() -> Json<Value> {
    let machine = observe::machine().await;
    Json(json!({
        "ts": machine.at_ms / 1000,
        "cpu_count": machine.cpus,
        "cpu_used_pct": machine.cpu_used_percent,
        "mem_total": machine.memory_total_bytes,
        "mem_used": machine.memory_used_bytes,
        "mem_cache": machine.memory_cache_bytes,
        "mem_total_mib": machine.memory_total_bytes >> 20,
        "mem_used_mib": machine.memory_used_bytes >> 20,
        "disk_used": machine.disk_used_bytes,
        "disk_total": machine.disk_total_bytes,
    }))
}
