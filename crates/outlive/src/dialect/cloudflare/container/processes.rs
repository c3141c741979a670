//! Background processes of the container: start, list, describe, kill. A list has every process of this machine,
//! whichever API started it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use outlive_core::log::{Cause, Exit};
use outlive_core::process::{Process, Spec, StdinMode};
use outlive_core::session::{Session, StartSpec};
use outlive_core::{Error, NewProcess};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::command::{BASH, ExitStatus, Variables, fall_back_to_sh, quote, shell_spec, without_nulls};
use super::super::error::ContainerError;
use super::super::{PROCESS, TERMINAL, directory};
use super::target::RequestSession;
use crate::http::AppState;
use crate::http::extract::{Body, Params, Path, WithRejection};
use crate::rfc3339;

/// Annotation in which the core keeps the command of a process that was started from a session.
const COMMAND: &str = "outlive.command";
/// Stays well below the size limit of an annotation.
const MAX_COMMAND_BYTES: usize = 4000;
/// Time between SIGTERM and SIGKILL to the tree.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How long a request waits for the exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(8);

/// The fields `encoding`, `autoCleanup` and `origin` are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct StartRequest {
    pub(super) command: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) process_id: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) env: Option<Variables>,
    pub(super) cwd: Option<String>,
}

pub(in super::super) async fn start(
    State(app): State<AppState>,
    session: RequestSession,
    WithRejection(Body(request), _): WithRejection<Body<StartRequest>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    start_process(&app, session, request).await
}

pub(super) async fn start_process(
    app: &AppState,
    session: RequestSession,
    request: StartRequest,
) -> Result<Json<Value>, ContainerError> {
    let command = request.command.filter(|command| !command.trim().is_empty());
    let command = command.ok_or_else(|| ContainerError::invalid_command("Invalid command: empty command provided"))?;
    let cwd = request.cwd.filter(|cwd| !cwd.is_empty());
    let mut annotations = BTreeMap::new();
    if let Some(id) = request.process_id {
        if id.trim().is_empty() || id.contains('/') {
            return Err(ContainerError::invalid("processId: must be neither blank nor contain '/'"));
        }
        annotations.insert(PROCESS.to_owned(), id);
    }
    let env = without_nulls(request.env);
    let timeout_ms = request.timeout_ms.filter(|ms| *ms > 0);
    let spec = Spec { env, annotations, timeout_ms, stdin_mode: StdinMode::Null, ..Spec::default() };
    let process = match session.target(request.session_id)?.session(app).await? {
        Some(session) => start_in_session(app, &session, spec, &command, cwd).await?,
        None => start_stateless(app, spec, &command, cwd).await?,
    };
    Ok(Json(json!({
        "success": true,
        "processId": client_id(&process),
        "pid": process.last_pid(),
        "command": command,
        "timestamp": rfc3339::now(),
    })))
}

async fn start_stateless(
    app: &AppState,
    spec: Spec,
    command: &str,
    cwd: Option<String>,
) -> Result<Arc<Process>, Error> {
    let cwd = match cwd {
        Some(cwd) => cwd,
        None => directory::default().await,
    };
    let mut shell = BASH;
    loop {
        let Spec { command, args, .. } = shell_spec(shell, command.to_owned());
        let spec = Spec { command, args, cwd: Some(cwd.clone()), ..spec.clone() };
        match app.core.create(NewProcess { spec, start: true, ..NewProcess::default() }).await {
            Err(error) if fall_back_to_sh(&error, &mut shell) => {}
            created => return created,
        }
    }
}

/// Starts the process with a copy of the session's state: directory, variables, functions.
async fn start_in_session(
    app: &AppState,
    session: &Arc<Session>,
    mut spec: Spec,
    command: &str,
    cwd: Option<String>,
) -> Result<Arc<Process>, Error> {
    spec.annotations.insert(COMMAND.to_owned(), truncate(command).to_owned());
    spec.command = match cwd {
        Some(cwd) => format!("cd -- {} || exit\n{command}", quote(&cwd)),
        None => command.to_owned(),
    };
    app.core.start_in_session(session, StartSpec { spec, ..StartSpec::default() }).await
}

fn truncate(command: &str) -> &str {
    let end = (0..=MAX_COMMAND_BYTES.min(command.len())).rev().find(|at| command.is_char_boundary(*at));
    &command[..end.unwrap_or(0)]
}

/// The id that the client chose, or the core's.
fn client_id(process: &Process) -> String {
    process.spec().annotations.remove(PROCESS).unwrap_or_else(|| process.id().to_owned())
}

/// The newest process with this id.
pub(super) fn find(app: &AppState, id: &str) -> Result<Arc<Process>, ContainerError> {
    let has_id = |process: &Arc<Process>| process.is_annotated(PROCESS, id);
    let newest = app.core.list(false).into_iter().rev().find(has_id);
    newest.or_else(|| app.core.find(id).ok()).ok_or_else(|| ContainerError::process_not_found(id))
}

/// All processes but this dialect's terminals. Of several with one id, the newest.
fn all(app: &AppState) -> Vec<(String, Arc<Process>)> {
    let mut by_id = BTreeMap::new();
    let mut order = Vec::new();
    for process in app.core.list(false) {
        if process.spec().annotations.contains_key(TERMINAL) {
            continue;
        }
        let id = client_id(&process);
        order.retain(|other| *other != id);
        order.push(id.clone());
        by_id.insert(id, process);
    }
    order.into_iter().filter_map(|id| by_id.remove_entry(&id)).collect()
}

#[derive(Deserialize)]
pub(in super::super) struct ListQuery {
    status: Option<String>,
}

pub(in super::super) async fn list(
    State(app): State<AppState>,
    WithRejection(Params(ListQuery { status }), _): WithRejection<Params<ListQuery>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    let described = all(&app).into_iter().map(|(id, process)| describe(id, &process, false));
    let has_status = |process: &Value| status.as_ref().is_none_or(|status| process["status"] == **status);
    let processes: Vec<Value> = described.filter(has_status).collect();
    Ok(Json(json!({ "success": true, "processes": processes, "timestamp": rfc3339::now() })))
}

pub(in super::super) async fn get(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    let process = find(&app, &id)?;
    Ok(Json(json!({ "success": true, "process": describe(id, &process, true), "timestamp": rfc3339::now() })))
}

fn describe(id: String, process: &Process, with_end_time: bool) -> Value {
    let info = process.info();
    let exit = process.exit();
    let mut fields = Map::new();
    fields.insert("id".to_owned(), id.into());
    fields.extend(process.last_pid().map(|pid| ("pid".to_owned(), pid.into())));
    fields.insert("command".to_owned(), command_line(&process.spec()).into());
    fields.insert("status".to_owned(), status(process).into());
    let started_at_ms = info.started_at_ms.unwrap_or(info.created_at_ms);
    fields.insert("startTime".to_owned(), rfc3339::format_millis(started_at_ms).into());
    if let Some(exit) = exit {
        fields.insert("exitCode".to_owned(), ExitStatus::from_exit(&exit).code.into());
        if with_end_time {
            fields.insert("endTime".to_owned(), rfc3339::format_millis(exit.at_ms).into());
        }
    }
    Value::Object(fields)
}

/// The command line as the client sent it, as far as it can be reconstructed.
pub(super) fn command_line(spec: &Spec) -> String {
    match (spec.annotations.get(COMMAND), spec.args.as_slice()) {
        (Some(command), _) => command.clone(),
        (None, [dash_c, line]) if dash_c == "-c" => line.clone(),
        (None, args) => [std::slice::from_ref(&spec.command), args].concat().join(" "),
    }
}

pub(super) fn status(process: &Process) -> &'static str {
    match process.exit() {
        Some(exit) => exit_status_name(&exit),
        None if process.is_running() => "running",
        None => "starting",
    }
}

/// A process that handled the signal and exited on its own was killed too.
pub(super) fn exit_status_name(exit: &Exit) -> &'static str {
    match (exit.cause, ExitStatus::from_exit(exit).code) {
        (Cause::Stopped | Cause::Killed | Cause::Detached | Cause::Shutdown, _) | (_, 137 | 143) => "killed",
        (_, 0) => "completed",
        _ => "failed",
    }
}

/// Sends SIGTERM to the tree, and SIGKILL to what is left of it after [`KILL_GRACE`].
pub(in super::super) async fn kill(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    let process = find(&app, &id)?;
    if process.is_running() {
        stop(process).await?;
    } else if !process.tree().await.is_empty() {
        // The command has exited, and members of its tree are left.
        process.kill(KILL_TIMEOUT).await?;
    } else {
        return Err(ContainerError::already_exited(&id, &command_line(&process.spec())));
    }
    Ok(Json(json!({ "success": true, "processId": id, "timestamp": rfc3339::now() })))
}

/// Stops all processes at the same time, so that they share one grace period.
pub(in super::super) async fn kill_all(State(app): State<AppState>) -> Result<Json<Value>, ContainerError> {
    let running = all(&app).into_iter().map(|(_, process)| process).filter(|process| process.is_running());
    let stopped = join_all(running.map(stop)).await;
    let count = stopped.iter().filter(|stopped| stopped.is_ok()).count();
    Ok(Json(json!({ "success": true, "cleanedCount": count, "timestamp": rfc3339::now() })))
}

async fn stop(process: Arc<Process>) -> Result<(), Error> {
    match process.stop(KILL_GRACE, KILL_TIMEOUT).await {
        // It exited first.
        Err(error) if error.code() == "not_running" => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_have_the_status_names_of_the_client() {
        let name = |status, cause| exit_status_name(&Exit { generation: 1, status, cause, offset: 0, at_ms: 0 });
        assert_eq!(name(Ok(0), Cause::SelfExit), "completed");
        assert_eq!(name(Ok(2), Cause::SelfExit), "failed");
        assert_eq!(name(Err(15), Cause::SelfExit), "killed");
        assert_eq!(name(Ok(0), Cause::Stopped), "killed");
        assert_eq!(name(Err(9), Cause::TimedOut), "failed");
    }

    #[test]
    fn the_requested_command_line_is_shown() {
        let spec = |command: &str, args: &[&str]| Spec {
            command: command.into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..Spec::default()
        };
        assert_eq!(command_line(&spec("bash", &["-c", "a | b"])), "a | b");
        assert_eq!(command_line(&spec("node", &["x.js", "1"])), "node x.js 1");
    }

    #[test]
    fn a_long_command_is_truncated_between_characters() {
        assert_eq!(truncate("echo"), "echo");
        assert_eq!(truncate(&"é".repeat(MAX_COMMAND_BYTES)).len(), MAX_COMMAND_BYTES);
    }
}
