//! The log as entries, once or as a stream of events.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream, stream};
use outlive_core::log::{Entry, EntryCursor, EntryItem, Stream as LogStream, StreamFilter};
use outlive_core::process::Process;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Params, Path};
use super::problem::{Answer, Problem};
use super::sse::{self, StreamEvent};
use super::state::App;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LogsQuery {
    /// `stdout`, `stderr`, `combined` (pipes) or `pty` (terminals).
    stream: Option<String>,
    /// The last N entries.
    tail: Option<u64>,
    /// Entries with a greater sequence.
    since: Option<u64>,
    follow: Option<bool>,
    /// `exit` ends a followed stream after the exit and the last byte.
    end: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogEntry {
    sequence: u64,
    stream: &'static str,
    timestamp_ms: u64,
    /// Offset of the first byte in the log of the process.
    offset: u64,
    data: String,
    encoding: &'static str,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogList {
    process_id: String,
    stream: String,
    entries: Vec<LogEntry>,
}

pub(super) fn stream_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
        LogStream::Terminal => "pty",
        LogStream::Extra => "extra",
    }
}

/// `None` for "all there is".
pub(super) fn stream_filter(name: Option<String>) -> Answer<Option<StreamFilter>> {
    let parse = |text: &str| match text {
        "stdout" => Some(StreamFilter::Only(LogStream::Stdout)),
        "stderr" => Some(StreamFilter::Only(LogStream::Stderr)),
        "pty" => Some(StreamFilter::Only(LogStream::Terminal)),
        "combined" => Some(StreamFilter::All),
        _ => None,
    };
    super::processes::one_of(name, "stream", "stdout, stderr, combined, pty", parse)
}

fn to_wire(entry: &Entry) -> LogEntry {
    LogEntry {
        sequence: entry.sequence,
        stream: stream_name(entry.stream),
        timestamp_ms: entry.at_ms,
        offset: entry.offset,
        data: BASE64.encode(&entry.bytes),
        encoding: "base64",
    }
}

pub(super) fn last_event_id(headers: &HeaderMap) -> Answer<u64> {
    let Some(value) = headers.get("last-event-id") else { return Ok(0) };
    value.to_str().ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Problem::bad_request("invalid_last_event_id", "invalid request: Last-Event-ID must be a positive integer")
            .with_field("Last-Event-ID")
            .with_expected("a positive integer", String::from_utf8_lossy(value.as_bytes()))
    })
}

/// Read or follow the log of a process.
#[utoipa::path(get, path = "/v1/processes/{id}/logs", params(("id" = String, Path), LogsQuery, ("Last-Event-ID" = Option<u64>, Header)), responses(
    (status = 200, content((LogList = "application/json"), (StreamEvent = "text/event-stream"))), (status = "4XX", body = Problem)))]
pub(super) async fn logs(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(query): Params<LogsQuery>,
) -> Answer<Response> {
    let name = query.stream.clone();
    let filter = stream_filter(query.stream)?;
    let end_at_exit = super::processes::one_of(query.end, "end", "exit", |text| (text == "exit").then_some(()))?;
    let after = query.since.unwrap_or(0).max(last_event_id(&headers)?);
    let process = app.core.find(&id)?;
    let filter = match (filter, process.is_terminal(), name.as_deref()) {
        // What sandbox-agent calls combined never includes a terminal.
        (Some(StreamFilter::All), true, _) => None,
        (Some(filter), _, _) => Some(filter),
        (None, _, _) => Some(StreamFilter::All),
    };
    let shown = name.unwrap_or_else(|| if process.is_terminal() { "pty".into() } else { "combined".into() });
    if query.follow.unwrap_or(false) {
        let Some(filter) = filter else { return Ok(sse::answer(stream::empty())) };
        let cursor = EntryCursor::new(process.started_log().await?, after, query.tail, filter);
        return Ok(sse::answer(follow(app, process, cursor, end_at_exit.is_some())));
    }
    let _turn = app.unsent.turn_to_make().await;
    let mut entries = Vec::new();
    if let (Some(filter), Some(log)) = (filter, process.log_if_started()?) {
        let mut cursor = EntryCursor::live(log, after, query.tail, filter);
        while let Some(entry) = cursor.next_entry() {
            entries.push(to_wire(&entry));
        }
    }
    Ok(Json(LogList { process_id: process.id().to_owned(), stream: shown, entries }).into_response())
}

/// As many events as are there go out in one piece, so that tiny chunks do not cost a write to the socket each.
const PIECE_BYTES: usize = 64 * 1024;

struct Following {
    app: App,
    process: Arc<Process>,
    cursor: EntryCursor,
    end_at_exit: bool,
    over: bool,
}

fn follow(app: App, process: Arc<Process>, cursor: EntryCursor, end_at_exit: bool) -> impl Stream<Item = Bytes> {
    let start = Following { app, process, cursor, end_at_exit, over: false };
    stream::unfold(start, |mut following| async move {
        if following.over {
            return None;
        }
        let Following { app, process, cursor, .. } = &mut following;
        let first = tokio::select! {
            biased;
            item = cursor.next() => item,
            () = process.until_removed() => return None,
            () = app.ended() => return None,
        };
        let mut piece = String::new();
        let mut next = Some(first);
        while let Some(item) = next {
            following.tell(&mut piece, &item);
            let more = !following.over && piece.len() < PIECE_BYTES;
            next = if more { following.cursor.try_next() } else { None };
        }
        Some((piece.into(), following))
    })
}

impl Following {
    fn tell(&mut self, piece: &mut String, item: &EntryItem) {
        match item {
            EntryItem::Entry(entry) => push_entry(piece, entry),
            EntryItem::Gap { from, to } => {
                let range = format!("{{\"fromSequence\":{from},\"toSequence\":{to}}}");
                sse::push_event(piece, "gap", "", &range);
            }
            EntryItem::BecameLive => sse::push_event(piece, "flow", "", "{\"flow\":\"live\"}"),
            EntryItem::Exit(exit) => {
                self.process.news();
                sse::push_event(piece, "exit", "", &super::connect::exit_frame(exit));
                self.over = self.end_at_exit;
            }
        }
    }
}

/// A [`LogEntry`] as an event, written in place: its bytes are encoded where they are sent from.
fn push_entry(piece: &mut String, entry: &Entry) {
    piece.reserve(192 + entry.bytes.len() / 3 * 4);
    let _ = write!(
        piece,
        "event: log\nid: {sequence}\ndata: {{\"sequence\":{sequence},\"stream\":\"{stream}\",\
         \"timestampMs\":{at},\"offset\":{offset},\"data\":\"",
        sequence = entry.sequence,
        stream = stream_name(entry.stream),
        at = entry.at_ms,
        offset = entry.offset,
    );
    BASE64.encode_string(&entry.bytes, piece);
    piece.push_str("\",\"encoding\":\"base64\"}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_what_the_list_says() {
        for (stream, bytes) in [(LogStream::Stdout, &b""[..]), (LogStream::Terminal, b"\xff\x00\r\n")] {
            let entry = Entry { sequence: 7, stream, at_ms: 1_700_000_000_123, offset: 42, bytes: bytes.into() };
            let mut piece = String::new();
            push_entry(&mut piece, &entry);
            let data = piece.strip_prefix("event: log\nid: 7\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
            assert_eq!(data, serde_json::to_string(&to_wire(&entry)).ok().as_deref());
        }
    }
}
