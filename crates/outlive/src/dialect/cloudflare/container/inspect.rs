//! What there is: the processes of this machine, wherever they were started.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlive_core::log::{Cause, Exit};
use outlive_core::process::{Process, Spec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::command::Ended;
use super::super::error::ContainerError;
use super::super::{PROCESS, TERMINAL, clock};
use super::start::COMMAND;
use crate::api::App;
use crate::api::extract::{Params, Path};
use crate::api::problem::Problem;

/// The id that its client has chosen, or ours.
pub(super) fn id_of(process: &Process) -> String {
    process.spec().annotations.remove(PROCESS).unwrap_or_else(|| process.id().to_owned())
}

/// The newest that was started under this id.
pub(super) fn find(app: &App, id: &str) -> Result<Arc<Process>, ContainerError> {
    let chosen = |process: &Arc<Process>| process.spec().annotations.get(PROCESS).is_some_and(|chosen| chosen == id);
    let newest = app.core.list(false).into_iter().rev().find(chosen);
    newest.or_else(|| app.core.find(id).ok()).ok_or_else(|| ContainerError::no_process(id))
}

/// All but the terminals that this dialect has made; of several with one id, the newest.
pub(super) fn all(app: &App) -> Vec<(String, Arc<Process>)> {
    let mut by_id = BTreeMap::new();
    let mut order = Vec::new();
    for process in app.core.list(false) {
        if process.spec().annotations.contains_key(TERMINAL) {
            continue;
        }
        let id = id_of(&process);
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
    State(app): State<App>,
    query: Result<Params<ListQuery>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Params(ListQuery { status }) = query?;
    let described = all(&app).into_iter().map(|(id, process)| describe(id, &process, false));
    let is_wanted = |process: &Value| status.as_ref().is_none_or(|wanted| process["status"] == **wanted);
    let processes: Vec<Value> = described.filter(is_wanted).collect();
    Ok(Json(json!({ "success": true, "processes": processes, "timestamp": clock::now() })))
}

pub(in super::super) async fn get(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Path(id) = id?;
    let process = find(&app, &id)?;
    Ok(Json(json!({ "success": true, "process": describe(id, &process, true), "timestamp": clock::now() })))
}

fn describe(id: String, process: &Process, with_end: bool) -> Value {
    let info = process.info();
    let exit = process.exit();
    let mut all = Map::new();
    all.insert("id".to_owned(), id.into());
    all.extend(process.last_pid().map(|pid| ("pid".to_owned(), pid.into())));
    all.insert("command".to_owned(), command_of(&process.spec()).into());
    all.insert("status".to_owned(), status(process).into());
    let began = info.started_at_ms.unwrap_or(info.created_at_ms);
    all.insert("startTime".to_owned(), clock::text(began).into());
    if let Some(exit) = exit {
        all.insert("exitCode".to_owned(), Ended::of(&exit).code.into());
        if with_end {
            all.insert("endTime".to_owned(), clock::text(exit.at_ms).into());
        }
    }
    Value::Object(all)
}

/// The line that was asked for, as far as it can be told.
pub(super) fn command_of(spec: &Spec) -> String {
    match (spec.annotations.get(COMMAND), spec.args.as_slice()) {
        (Some(command), _) => command.clone(),
        (None, [dash_c, line]) if dash_c == "-c" => line.clone(),
        (None, args) => [std::slice::from_ref(&spec.command), args].concat().join(" "),
    }
}

pub(super) fn status(process: &Process) -> &'static str {
    match process.exit() {
        Some(exit) => ended(&exit),
        None if process.is_running() => "running",
        None => "starting",
    }
}

/// Also of one that was killed and answered the signal by an orderly end.
pub(super) fn ended(exit: &Exit) -> &'static str {
    match (exit.cause, Ended::of(exit).code) {
        (Cause::Stopped | Cause::Killed | Cause::Detached | Cause::Shutdown, _) | (_, 137 | 143) => "killed",
        (_, 0) => "completed",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_as_the_client_knows_them() {
        let of = |status, cause| ended(&Exit { generation: 1, status, cause, offset: 0, at_ms: 0 });
        assert_eq!(of(Ok(0), Cause::Itself), "completed");
        assert_eq!(of(Ok(2), Cause::Itself), "failed");
        assert_eq!(of(Err(15), Cause::Itself), "killed");
        assert_eq!(of(Ok(0), Cause::Stopped), "killed");
        assert_eq!(of(Err(9), Cause::TimedOut), "failed");
    }

    #[test]
    fn the_line_that_was_asked_for_is_shown() {
        let spec = |command: &str, args: &[&str]| Spec {
            command: command.into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..Spec::default()
        };
        assert_eq!(command_of(&spec("bash", &["-c", "a | b"])), "a | b");
        assert_eq!(command_of(&spec("node", &["x.js", "1"])), "node x.js 1");
    }
}
