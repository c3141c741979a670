//! What is asked about a command while it runs and later: how it is, what it has printed; and its interruption.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::{ProcessInfo, Status};
use serde::{Deserialize, Serialize};

use super::asked::{Asked, Named};
use super::end::End;
use super::error::Failure;
use super::{ids, program, session};
use crate::access::Grant;
use crate::api::{App, output_until};
use crate::cli::utc;

const TAIL: HeaderName = HeaderName::from_static("execd-commands-tail-cursor");
/// Between TERM and KILL of an interrupt.
const GRACE: Duration = Duration::from_secs(3);
/// How long the answer waits for both.
const PATIENCE: Duration = Duration::from_secs(10);

/// Absent while it runs: how it ended.
#[derive(Serialize)]
pub(super) struct CommandStatus {
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

pub(super) async fn status(State(app): State<App>, Named(id): Named<String>) -> Result<Json<CommandStatus>, Failure> {
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

#[derive(Deserialize)]
pub(super) struct LogsQuery {
    cursor: Option<String>,
}

/// Raw bytes from an offset to what is there now; the header tells where to go on.
pub(super) async fn logs(
    State(app): State<App>,
    Named(id): Named<String>,
    Asked(query): Asked<LogsQuery>,
    grant: Grant,
) -> Result<Response, Failure> {
    let not_in_background = || Failure::invalid(format!("command {id} is not running in background"));
    let process = ids::find(&app, &id).ok_or_else(not_in_background)?;
    let kind = process.spec().annotations.get(program::KIND).cloned();
    if kind.as_deref() == Some(program::FOREGROUND) {
        return Err(not_in_background());
    }
    let asked = query.cursor.and_then(|text| text.parse().ok()).unwrap_or(0);
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let log = process.log()?;
    // The hold first, then the look: what is there now stays there.
    let cursor = Cursor::new(log.clone(), Start::At(asked), flow, StreamFilter::All);
    let (oldest, head) = (log.tail(), log.head());
    if asked < oldest {
        cursor.close();
        return Err(Error::Gone { asked, oldest, head }.into());
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (TAIL, HeaderValue::from(head)),
    ];
    Ok((headers, output_until(app, process, cursor, head)).into_response())
}

#[derive(Deserialize)]
pub(super) struct InterruptQuery {
    #[serde(default)]
    id: String,
}

/// TERM to the whole tree, and KILL to what is left of it. Answered when it is over.
pub(super) async fn interrupt(
    State(app): State<App>,
    Asked(InterruptQuery { id }): Asked<InterruptQuery>,
) -> Result<(), Failure> {
    if id.is_empty() {
        return Err(Failure::missing_query("missing query parameter 'id'"));
    }
    let Some(process) = ids::find(&app, &id) else {
        return session::end(&app, &id).await.map_err(|_| Failure::no_command(&id));
    };
    if !process.is_running() {
        return Err(Failure::not_running(&id));
    }
    Ok(process.stop(GRACE, PATIENCE).await?)
}
