//! The commands that were run for a session id and their output, as context for an agent. The id may be one of
//! outlive's sessions, or any id that processes were started with.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlive_core::log::{Cursor, Flow, Item, Start, StreamFilter};
use outlive_core::process::{Process, Source, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::problem::{HandlerResult, Problem};

/// About as much as is useful to a model.
const DEFAULT_BYTES: usize = 64 * 1024;
const MAX_BYTES: usize = 8 << 20;
/// An entry gets at most this fraction of the bytes, so that one chatty program does not crowd out the rest.
const ENTRY_FRACTION: usize = 4;
/// Size of an entry without its texts, so that thousands of short entries are bounded too.
const ENTRY_OVERHEAD_BYTES: usize = 160;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContextQuery {
    /// The id of a session, or any id that processes were started with.
    session_id: String,
    /// Only commands that were started on behalf of this: `user`, `agent` or `system`.
    source: Option<String>,
    /// Only commands that were started at or after this time.
    since_ms: Option<u64>,
    /// Size of all entries together; default 65536.
    max_bytes: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Context {
    session_id: String,
    /// Ordered by start time.
    entries: Vec<Entry>,
    /// Older entries were left out to stay within `maxBytes`.
    truncated: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// An `execId` or a process id.
    id: String,
    /// `exec` or `process`
    kind: &'static str,
    command: String,
    /// The end of the command is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    command_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    started_at_ms: u64,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// The end of stdout and stderr, interleaved as they were written.
    output: String,
    /// The beginning of the output is left out.
    output_truncated: bool,
}

/// Read the commands that were run for a session and the end of their output, in order and bounded in size.
#[utoipa::path(get, path = "/v1/context", params(ContextQuery), responses(
    (status = 200, body = Context), (status = "4XX", body = Problem)))]
pub(super) async fn context(
    State(app): State<AppState>,
    Params(query): Params<ContextQuery>,
) -> HandlerResult<Json<Context>> {
    let source = super::processes::parse_source(query.source)?;
    let since = query.since_ms.unwrap_or(0);
    let wanted = |entry: &(Entry, Option<Arc<Process>>)| {
        source.is_none_or(|source| entry.0.source == Some(source)) && entry.0.started_at_ms >= since
    };
    let mut all: Vec<_> =
        session_execs(&app, &query.session_id).into_iter().chain(processes(&app, &query.session_id)).collect();
    all.retain(wanted);
    all.sort_by(|(one, _), (other, _)| (one.started_at_ms, &one.id).cmp(&(other.started_at_ms, &other.id)));
    let mut left = query.max_bytes.unwrap_or(DEFAULT_BYTES).min(MAX_BYTES);
    let per_entry = (left / ENTRY_FRACTION).max(1);
    let mut entries = Vec::new();
    let mut truncated = false;
    // The newest entries take precedence.
    for (mut entry, process) in all.into_iter().rev() {
        let end =
            (0..=per_entry.min(entry.command.len())).rev().find(|at| entry.command.is_char_boundary(*at)).unwrap_or(0);
        entry.command_truncated |= end < entry.command.len();
        entry.command.truncate(end);
        let size = ENTRY_OVERHEAD_BYTES + entry.command.len();
        if size > left {
            truncated = true;
            break;
        }
        left -= size;
        if let Some(process) = process {
            (entry.output, entry.output_truncated) = tail(&process, left.min(per_entry)).await;
            left = left.saturating_sub(entry.output.len());
        }
        entries.push(entry);
    }
    entries.reverse();
    Ok(Json(Context { session_id: query.session_id, entries, truncated }))
}

fn session_execs(app: &AppState, id: &str) -> Vec<(Entry, Option<Arc<Process>>)> {
    let Ok(session) = app.core.find_session(id) else { return Vec::new() };
    let entry = |exec: &Arc<outlive_core::session::Exec>| {
        let info = exec.info();
        let entry = Entry {
            id: info.exec_id,
            kind: "exec",
            command: info.command,
            command_truncated: info.command_truncated,
            source: info.source,
            started_at_ms: info.started_at_ms?,
            running: info.finished_at_ms.is_none(),
            exit_code: info.exit_code,
            signal: info.signal,
            output: String::new(),
            output_truncated: false,
        };
        Some((entry, exec.sink()))
    };
    session.execs().iter().filter_map(entry).collect()
}

fn processes(app: &AppState, id: &str) -> Vec<(Entry, Option<Arc<Process>>)> {
    let mut all = Vec::new();
    for process in app.core.list(true) {
        let info = process.info();
        if info.session_id.as_deref() != Some(id) {
            continue;
        }
        // The command line as the caller wrote it, for a process that was started from a session.
        let command = info.annotations.get("outlive.command").cloned();
        let line = || [vec![info.command.clone()], info.args.clone()].concat().join(" ");
        let entry = Entry {
            id: info.id.clone(),
            kind: "process",
            command: command.unwrap_or_else(line),
            command_truncated: false,
            source: info.source,
            started_at_ms: info.started_at_ms.unwrap_or(info.created_at_ms),
            running: info.status == Status::Running,
            exit_code: info.exit_code,
            signal: info.signal,
            output: String::new(),
            output_truncated: false,
        };
        all.push((entry, Some(process)));
    }
    all
}

/// The last bytes of the output as text, and whether there is more before them.
async fn tail(process: &Process, max_bytes: usize) -> (String, bool) {
    let Ok(log) = process.log() else { return (String::new(), true) };
    let mut cursor = Cursor::new(log, Start::LastBytes(max_bytes as u64), Flow::Live, StreamFilter::All);
    let cut = cursor.offset() > 0;
    let mut bytes = Vec::new();
    while let Some(item) = cursor.next_now(64 * 1024).await {
        if let Item::Bytes { bytes: piece, .. } = item {
            bytes.extend_from_slice(&piece);
        }
        if bytes.len() >= max_bytes {
            break;
        }
    }
    // The output may start in the middle of a character.
    let begin = if cut { bytes.iter().take(4).position(|byte| byte & 0xc0 != 0x80).unwrap_or(0) } else { 0 };
    (String::from_utf8_lossy(bytes.get(begin..).unwrap_or_default()).into_owned(), cut)
}
