//! How a command is, and how it ended.

use axum::Json;
use axum::extract::State;
use outlive_core::process::{ProcessInfo, Status};
use serde::Serialize;

use super::super::asked::Named;
use super::super::error::Failure;
use super::super::events::end::End;
use super::super::ids;
use super::super::launch::program;
use crate::api::App;
use crate::cli::utc;

/// Absent while it runs: how it ended.
#[derive(Serialize)]
pub(in super::super) struct CommandStatus {
    id: String,
    content: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
}

pub(in super::super) async fn status(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Json<CommandStatus>, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::no_command(&id))?;
    let (info, spec): (ProcessInfo, _) = (process.info(), process.spec());
    let end = process.exit().map(|exit| End::of(&exit));
    let start_error = spec.annotations.get(program::START_ERROR).cloned();
    Ok(Json(CommandStatus {
        id: ids::of_command(&process),
        content: program::content_of(&spec),
        running: info.status == Status::Running,
        exit_code: end.map(End::code),
        error: end.and_then(|end| start_error.or_else(|| end.text())),
        signal: end.and_then(End::signal),
        timed_out: end.is_some_and(|end| end.timed_out),
        started_at: info.started_at_ms.map(utc),
        finished_at: info.exited_at_ms.map(utc),
    }))
}
