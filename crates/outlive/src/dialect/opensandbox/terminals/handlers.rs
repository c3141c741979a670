//! Terminals that persist: reserved here, started by the first client that connects (`attach.rs`), and started again by
//! a client that connects after the exit. A terminal is a reserved process of the core, so it survives the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::process::{Patch, Process, Spec, Status};
use outlive_core::{Error, NewProcess};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::ids;
use crate::dialect::opensandbox::launch::{Variables, directory, program};
use crate::http::AppState;
use crate::http::extract::{OptionalBody, Path, WithRejection};
use crate::socket::direct_terminal::DEFAULT_SIZE;

/// How long a deletion waits for connected clients to receive the exit.
const DETACH_TIMEOUT: Duration = Duration::from_secs(1);
const KILL_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default, Deserialize)]
pub(crate) struct CreateRequest {
    cwd: Option<String>,
    command: Option<String>,
}

pub(crate) async fn create(
    State(app): State<AppState>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<CreateRequest>, Failure>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let max = app.core.process_config().max_concurrent_processes;
    let reserved = app.core.list(false).iter().filter(|process| process.status() == Status::Created).count();
    if reserved as u64 >= max {
        return Err(Failure::too_many_reserved(max));
    }
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => {
            let cwd = directory::expand(&cwd, &variables)?;
            directory::create(&cwd).await?;
            Some(cwd)
        }
    };
    let spec = Spec {
        cwd,
        pty: Some(DEFAULT_SIZE),
        annotations: BTreeMap::from([(program::KIND.to_owned(), program::PTY.to_owned())]),
        ..program::interactive(request.command.as_deref())
    };
    let process = app.core.create(NewProcess { spec, start: false, ..NewProcess::default() }).await?;
    Ok((StatusCode::CREATED, Json(json!({ "session_id": ids::terminal_id(&process) }))))
}

pub(crate) async fn get(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
) -> Result<Json<Value>, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::context_not_found(&id))?;
    let info = process.info();
    let start_failed = info.annotations.contains_key(program::START_ERROR);
    Ok(Json(json!({
        "session_id": ids::terminal_id(&process),
        "running": info.status == Status::Running,
        "output_offset": info.output_end,
        "launch_attempted": start_failed || info.started_at_ms.is_some(),
        "launch_failed": start_failed,
    })))
}

/// Kills the process tree and deletes the terminal. Connected clients receive the exit before that.
pub(crate) async fn delete(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
) -> Result<(), Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::context_not_found(&id))?;
    let failed = |error| match error {
        Error::NotFound { .. } => Failure::context_not_found(&id),
        other => Failure::from(other),
    };
    process.kill(KILL_TIMEOUT).await.map_err(failed)?;
    let detached = process.wait_for(|process| (process.info().attachments == 0).then_some(()));
    let _ = tokio::time::timeout(DETACH_TIMEOUT, detached).await;
    process.delete(true).await.map_err(failed)
}

/// Starts the shell of a terminal, unless it runs, on a terminal or on pipes. It gets the environment file's current
/// variables.
pub(super) async fn start(app: &AppState, process: &Arc<Process>, on_pipes: bool) -> Result<(), Error> {
    if process.is_running() {
        return Ok(());
    }
    let spec = process.spec();
    if spec.annotations.get(program::KIND).map(String::as_str) != Some(program::PTY) {
        return Err(Error::conflict(
            "not_running",
            "the process has exited, and only terminals of /pty are started again",
        ));
    }
    let size = spec.pty.unwrap_or(DEFAULT_SIZE);
    let pty = (!on_pipes).then_some(size);
    let env = Variables::read(app).await.with(BTreeMap::new());
    let started = match process.patch(Patch { pty: Some(pty), env, ..Patch::default() }) {
        Ok(()) => process.start().await,
        Err(error) => Err(error),
    };
    let failure = match started {
        Ok(()) => None,
        // Another client started it at the same time.
        Err(error) if ["already_running", "starting", "still_running"].contains(&error.code()) => {
            process.wait_for_log().await?;
            return Ok(());
        }
        Err(error) => Some(error),
    };
    if failure.is_some() || spec.annotations.contains_key(program::START_ERROR) {
        let reason = failure.as_ref().map(|error| program::truncate(&error.to_string()));
        let annotations = BTreeMap::from([(program::START_ERROR.to_owned(), reason)]);
        let _ = process.patch(Patch { annotations, ..Patch::default() });
    }
    failure.map_or(Ok(()), Err)
}
