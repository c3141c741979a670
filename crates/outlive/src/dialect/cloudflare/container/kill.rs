//! Ends of processes: TERM to the whole tree, and after five seconds KILL to what is left of it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::super::clock;
use super::super::error::ContainerError;
use super::inspect;
use crate::api::App;
use crate::api::extract::Path;
use crate::api::problem::Problem;

const GRACE: Duration = Duration::from_secs(5);
/// The answer comes with the exit, and then at the latest.
const WAIT: Duration = Duration::from_secs(8);

pub(in super::super) async fn kill(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Path(id) = id?;
    let process = inspect::find(&app, &id)?;
    if process.is_running() {
        stop(process).await?;
    } else if !process.tree().await.is_empty() {
        // What is left of a tree whose command has ended.
        process.kill(WAIT).await?;
    } else {
        return Err(ContainerError::already_ended(&id, &inspect::command_of(&process.spec())));
    }
    Ok(Json(json!({ "success": true, "processId": id, "timestamp": clock::now() })))
}

/// All at once: none waits for another's grace.
pub(in super::super) async fn kill_all(State(app): State<App>) -> Result<Json<Value>, ContainerError> {
    let running = inspect::all(&app).into_iter().map(|(_, process)| process).filter(|process| process.is_running());
    let stopped = join_all(running.map(stop)).await;
    let count = stopped.iter().filter(|stopped| stopped.is_ok()).count();
    Ok(Json(json!({ "success": true, "cleanedCount": count, "timestamp": clock::now() })))
}

async fn stop(process: Arc<Process>) -> outlive_core::Result<()> {
    match process.stop(GRACE, WAIT).await {
        // It was faster.
        Err(error) if error.code() == "not_running" => Ok(()),
        other => other,
    }
}
