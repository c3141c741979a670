//! Terminals that stay: made here, started by the first who connects (`socket.rs`), and started again by whoever connects after
//! their end. A terminal is a process that is reserved, so all of this survives the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::process::{Patch, Process, Pty, Spec, Status};
use outlive_core::{Create, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::asked::{Named, SentOrNothing};
use super::super::error::Failure;
use super::super::ids;
use super::super::launch::{Variables, folder, program};
use crate::api::App;

/// How long a removal waits for those who are connected to hear of the end.
const FAREWELL: Duration = Duration::from_secs(1);
const KILL_WITHIN: Duration = Duration::from_secs(60);

#[derive(Default, Deserialize)]
pub(in super::super) struct CreateRequest {
    cwd: Option<String>,
    command: Option<String>,
}

pub(in super::super) async fn create(
    State(app): State<App>,
    SentOrNothing(request): SentOrNothing<CreateRequest>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let most = app.core.process_config().max_concurrent_processes;
    let waiting = app.core.list(false).iter().filter(|process| process.info().status == Status::Created).count();
    if waiting as u64 >= most {
        return Err(Failure::too_many_reserved(most));
    }
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => {
            let cwd = folder::expand_all(&cwd, &variables)?;
            folder::make(&cwd).await?;
            Some(cwd)
        }
    };
    let spec = Spec {
        cwd,
        pty: Some(program::USUAL),
        annotations: BTreeMap::from([(program::KIND.to_owned(), program::PTY.to_owned())]),
        ..program::interactive(request.command.as_deref())
    };
    let (process, _) = app.core.create(Create { spec, start: false, ..Create::default() }).await?;
    Ok((StatusCode::CREATED, Json(json!({ "session_id": ids::of_terminal(&process) }))))
}

pub(in super::super) async fn get(State(app): State<App>, Named(id): Named<String>) -> Result<Json<Value>, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::no_context(&id))?;
    let info = process.info();
    let failed = info.annotations.contains_key(program::START_ERROR);
    Ok(Json(json!({
        "session_id": ids::of_terminal(&process),
        "running": info.status == Status::Running,
        "output_offset": info.output_end,
        "launch_attempted": failed || info.started_at_ms.is_some(),
        "launch_failed": failed,
    })))
}

/// Ends everything that was started in it, and forgets it. Those who are connected hear of the end first.
pub(in super::super) async fn delete(State(app): State<App>, Named(id): Named<String>) -> Result<(), Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::no_context(&id))?;
    let gone = |error| match error {
        Error::NotFound { .. } => Failure::no_context(&id),
        other => Failure::from(other),
    };
    process.kill(KILL_WITHIN).await.map_err(gone)?;
    let alone = process.until(|process| (process.info().attachments == 0).then_some(()));
    let _ = tokio::time::timeout(FAREWELL, alone).await;
    process.delete(true).await.map_err(gone)
}

/// Starts its shell, unless it runs, on a terminal or on pipes. Whatever was set for all programs by now holds for it.
pub(super) async fn start(app: &App, process: &Arc<Process>, on_pipes: bool) -> Result<(), Error> {
    if process.is_running() {
        return Ok(());
    }
    let spec = process.spec();
    if spec.annotations.get(program::KIND).map(String::as_str) != Some(program::PTY) {
        // Not ours to run once more.
        return Err(Error::conflict("not_running", "this process has ended, and was not made to be started again"));
    }
    let size = spec.pty.unwrap_or(program::USUAL);
    let pty: Option<Pty> = (!on_pipes).then_some(size);
    let env = Variables::read(app).await.with(BTreeMap::new());
    let started = match process.patch(Patch { pty: Some(pty), env, ..Patch::default() }) {
        Ok(()) => process.start().await,
        Err(error) => Err(error),
    };
    let failure = match started {
        Ok(()) => None,
        // Somebody else was faster.
        Err(error) if ["already_running", "starting", "still_running"].contains(&error.code()) => {
            process.started_log().await?;
            return Ok(());
        }
        Err(error) => Some(error),
    };
    if failure.is_some() || spec.annotations.contains_key(program::START_ERROR) {
        let why = failure.as_ref().map(|error| program::shortened(&error.to_string()));
        let annotations = BTreeMap::from([(program::START_ERROR.to_owned(), why)]);
        let _ = process.patch(Patch { annotations, ..Patch::default() });
    }
    failure.map_or(Ok(()), Err)
}
