//! What `execd` answers besides commands and terminals.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::observe;
use serde_json::{Value, json};

use super::error::Failure;
use super::events::event;
use crate::api::App;

const WATCH_EVERY: Duration = Duration::from_secs(2);

/// 200 while commands can be started.
pub(super) async fn ping(State(app): State<App>) -> Result<(), Failure> {
    if app.core.holder_is_gone() {
        return Err(outlive_core::Error::holder_gone().into());
    }
    Ok(())
}

pub(super) async fn metrics() -> Json<Value> {
    Json(measured().await)
}

async fn measured() -> Value {
    const MIB: f64 = 1_048_576.0;
    let machine = observe::machine().await;
    json!({
        "cpu_count": f64::from(machine.cpus),
        "cpu_used_pct": machine.cpu_used_percent,
        "mem_total_mib": machine.memory_total_bytes as f64 / MIB,
        "mem_used_mib": machine.memory_used_bytes as f64 / MIB,
        "timestamp": machine.at_ms,
    })
}

/// The same again and again, an object a line, until the client has seen enough.
pub(super) async fn watch(State(app): State<App>) -> Response {
    let lines = stream::unfold((app, true), |(app, is_first)| async move {
        if !is_first {
            tokio::select! {
                () = tokio::time::sleep(WATCH_EVERY) => {}
                () = app.ended() => return None,
            }
        }
        let line = Bytes::from(format!("{}\n", measured().await));
        Some((io::Result::Ok(line), (app, false)))
    });
    event::answer(lines)
}

/// Sessions in namespaces of their own: asked for by the SDK before it uses any.
pub(super) async fn isolation() -> Json<Value> {
    Json(json!({ "available": false, "message": "outlive runs everything in the one sandbox that it is in" }))
}

pub(super) async fn not_supported() -> Failure {
    Failure::not_supported()
}
