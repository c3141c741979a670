//! What was run for a session id, ours or a foreign one: for feeding an agent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlive_core::log::{Cursor, Flow, Item, Start, StreamFilter};
use outlive_core::process::{Process, Source, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::Params;
use super::problem::{Answer, Problem};
use super::state::App;

/// What a model can still make use of, unless more is asked for.
const DEFAULT_BYTES: usize = 64 * 1024;
const MAX_BYTES: usize = 8 << 20;
/// Of each entry, so that one chatty program does not crowd out the rest.
const ENTRY_PARTS: usize = 4;
/// What an entry weighs without its texts, so that thousands of short ones are bounded too.
const ENTRY_BYTES: usize = 160;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContextQuery {
    /// Any id: of one of our sessions, or one that processes were started with.
    session_id: String,
    /// Only what was started on behalf of `user`, `agent` or `system`.
    source: Option<String>,
    /// Only what was started at or after this moment.
    since_ms: Option<u64>,
    /// All entries together; 65536 unless given.
    max_bytes: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Context {
    session_id: String,
    /// In the order in which they were started.
    entries: Vec<Entry>,
    /// Older entries were left out to stay within the bound.
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
    /// stdout and stderr as they came, the last part of it.
    output: String,
    /// The beginning of the output is left out.
    output_truncated: bool,
}

/// What was run for a session, by whom, and what it printed, in order and bounded.
#[utoipa::path(get, path = "/v1/context", params(ContextQuery), responses(
    (status = 200, body = Context), (status = "4XX", body = Problem)))]
pub(super) async fn context(State(app): State<App>, Params(query): Params<ContextQuery>) -> Answer<Json<Context>> {
    let source = super::processes::source(query.source)?;
    let since = query.since_ms.unwrap_or(0);
    let wanted = |entry: &(Entry, Option<Arc<Process>>)| {
        source.is_none_or(|source| entry.0.source == Some(source)) && entry.0.started_at_ms >= since
    };
    let mut all: Vec<_> =
        of_session(&app, &query.session_id).into_iter().chain(of_processes(&app, &query.session_id)).collect();
    all.retain(wanted);
    all.sort_by(|(one, _), (other, _)| (one.started_at_ms, &one.id).cmp(&(other.started_at_ms, &other.id)));
    let mut left = query.max_bytes.unwrap_or(DEFAULT_BYTES).min(MAX_BYTES);
    let per_entry = (left / ENTRY_PARTS).max(1);
    let mut entries = Vec::new();
    let mut truncated = false;
    // The newest matter most.
    for (mut entry, process) in all.into_iter().rev() {
        let end =
            (0..=per_entry.min(entry.command.len())).rev().find(|at| entry.command.is_char_boundary(*at)).unwrap_or(0);
        entry.command_truncated |= end < entry.command.len();
        entry.command.truncate(end);
        let weight = ENTRY_BYTES + entry.command.len();
        if weight > left {
            truncated = true;
            break;
        }
        left -= weight;
        if let Some(process) = process {
            (entry.output, entry.output_truncated) = tail(&process, left.min(per_entry));
            left = left.saturating_sub(entry.output.len());
        }
        entries.push(entry);
    }
    entries.reverse();
    Ok(Json(Context { session_id: query.session_id, entries, truncated }))
}

fn of_session(app: &App, id: &str) -> Vec<(Entry, Option<Arc<Process>>)> {
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

fn of_processes(app: &App, id: &str) -> Vec<(Entry, Option<Arc<Process>>)> {
    let mut all = Vec::new();
    for process in app.core.list(true) {
        let info = process.info();
        if info.session_id.as_deref() != Some(id) {
            continue;
        }
        // Of a process that was started from a session: what its caller wrote.
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

/// The last bytes of what it printed, as text.
fn tail(process: &Process, most: usize) -> (String, bool) {
    let Ok(log) = process.log() else { return (String::new(), true) };
    let mut cursor = Cursor::new(log, Start::Tail(most as u64), Flow::Live, StreamFilter::All);
    let cut = cursor.offset() > 0;
    let mut bytes = Vec::new();
    while let Some(item) = cursor.try_next(64 * 1024) {
        if let Item::Bytes { bytes: piece, .. } = item {
            bytes.extend_from_slice(&piece);
        }
        if bytes.len() >= most {
            break;
        }
    }
    // A cut may have fallen into a character.
    let begin = if cut { bytes.iter().take(4).position(|byte| byte & 0xc0 != 0x80).unwrap_or(0) } else { 0 };
    (String::from_utf8_lossy(bytes.get(begin..).unwrap_or_default()).into_owned(), cut)
}
