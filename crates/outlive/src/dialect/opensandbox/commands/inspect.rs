//! Status, logs and interruption of a command.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::Status;
use serde::{Deserialize, Serialize};

use crate::access::Grant;
use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::events::event::CommandEnd;
use crate::dialect::opensandbox::launch::program;
use crate::dialect::opensandbox::{ids, sessions};
use crate::http::AppState;
use crate::http::extract::{Params, Path, WithRejection};
use crate::http::output_body::output_body;
use crate::rfc3339::format_millis;

/// Between SIGTERM and SIGKILL of an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_secs(3);
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The offset at which the next `logs` call continues.
const TAIL_CURSOR: HeaderName = HeaderName::from_static("execd-commands-tail-cursor");

/// The fields about the end are absent while the command runs.
#[derive(Serialize)]
pub(crate) struct CommandStatus {
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

/// `GET /command/status/{id}`
pub(crate) async fn status(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
) -> Result<Json<CommandStatus>, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::command_not_found(&id))?;
    let (info, spec) = (process.info(), process.spec());
    let end = process.exit().map(|exit| CommandEnd::from_exit(&exit));
    let start_error = spec.annotations.get(program::START_ERROR).cloned();
    Ok(Json(CommandStatus {
        id: ids::command_id(&process),
        content: program::original_command(&spec),
        running: info.status == Status::Running,
        exit_code: end.map(CommandEnd::code),
        error: end.and_then(|end| start_error.or_else(|| end.error_text())),
        signal: end.and_then(CommandEnd::signal),
        timed_out: end.is_some_and(|end| end.timed_out),
        started_at: info.started_at_ms.map(format_millis),
        finished_at: info.exited_at_ms.map(format_millis),
    }))
}

#[derive(Deserialize)]
pub(crate) struct LogsQuery {
    cursor: Option<String>,
}

/// `GET /command/{id}/logs`: the raw output from an offset to the current end.
pub(crate) async fn logs(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
    WithRejection(Params(query), _): WithRejection<Params<LogsQuery>, Failure>,
    grant: Grant,
) -> Result<Response, Failure> {
    let not_in_background = || Failure::invalid(format!("command {id} is not running in background"));
    let process = ids::find(&app, &id).ok_or_else(not_in_background)?;
    let kind = process.spec().annotations.get(program::KIND).cloned();
    if kind.as_deref() == Some(program::FOREGROUND) {
        return Err(not_in_background());
    }
    let requested = query.cursor.and_then(|text| text.parse().ok()).unwrap_or(0);
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let log = process.log()?;
    // The cursor's lease is taken before the offsets are read, so that nothing is trimmed in between.
    let cursor = Cursor::new(log.clone(), Start::At(requested), flow, StreamFilter::All);
    let (oldest, head) = (log.tail(), log.head());
    if requested < oldest {
        cursor.close();
        return Err(Error::OffsetGone { requested, oldest, head }.into());
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (TAIL_CURSOR, HeaderValue::from(head)),
    ];
    Ok((headers, output_body(app, process, cursor, head)).into_response())
}

#[derive(Deserialize)]
pub(crate) struct InterruptQuery {
    #[serde(default)]
    id: String,
}

/// `DELETE /command`: SIGTERM to the whole tree, then SIGKILL to the rest of it. Responds when the tree has ended. The
/// id of a session deletes the session.
pub(crate) async fn interrupt(
    State(app): State<AppState>,
    WithRejection(Params(InterruptQuery { id }), _): WithRejection<Params<InterruptQuery>, Failure>,
) -> Result<(), Failure> {
    if id.is_empty() {
        return Err(Failure::missing_query("missing query parameter 'id'"));
    }
    let Some(process) = ids::find(&app, &id) else {
        return sessions::delete_session(&app, &id).await.map_err(|_| Failure::command_not_found(&id));
    };
    if !process.is_running() {
        return Err(Failure::not_running(&id));
    }
    Ok(process.stop(INTERRUPT_GRACE, INTERRUPT_TIMEOUT).await?)
}
