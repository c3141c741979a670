//! The log of a process as entries, once or as a stream of events.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream, StreamExt as _, stream};
use outlive_core::log::{Entry, EntryCursor, EntryItem, Log, Stream as LogStream, StreamFilter};
use outlive_core::process::Process;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::sse::{self, StreamEvent};
use crate::http::values::one_of;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LogsQuery {
    /// `stdout`, `stderr`, `combined` (pipes) or `pty` (terminals).
    stream: Option<String>,
    /// The last N entries.
    tail: Option<u64>,
    /// Only entries with a greater sequence number.
    since: Option<u64>,
    /// Begin with the entry that contains this offset.
    from: Option<u64>,
    follow: Option<bool>,
    /// `exit` ends a followed stream after the exit of the process and its last byte.
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

/// `None` if no stream is named.
pub(super) fn stream_filter(name: Option<String>) -> HandlerResult<Option<StreamFilter>> {
    let parse = |text: &str| match text {
        "stdout" => Some(StreamFilter::Only(LogStream::Stdout)),
        "stderr" => Some(StreamFilter::Only(LogStream::Stderr)),
        "pty" => Some(StreamFilter::Only(LogStream::Terminal)),
        "combined" => Some(StreamFilter::All),
        _ => None,
    };
    one_of(name, "stream", "stdout, stderr, combined, pty", parse)
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

pub(super) fn last_event_id(headers: &HeaderMap) -> HandlerResult<u64> {
    let Some(value) = headers.get("last-event-id") else { return Ok(0) };
    value.to_str().ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Problem::bad_request("invalid_last_event_id", "invalid request: Last-Event-ID must be a positive integer")
            .with_field("Last-Event-ID")
            .with_expected("a positive integer", String::from_utf8_lossy(value.as_bytes()))
    })
}

/// Read or follow the log of a process.
#[utoipa::path(get, path = "/v1/processes/{id}/logs", params(
    ("id" = String, Path), LogsQuery, ("Last-Event-ID" = Option<u64>, Header)), responses(
    (status = 200, content((LogList = "application/json"), (StreamEvent = "text/event-stream"))),
    (status = "4XX", body = Problem)))]
pub(super) async fn logs(
    State(app): State<AppState>,
    path: ProcessPath,
    headers: HeaderMap,
    Params(query): Params<LogsQuery>,
) -> HandlerResult<Response> {
    let name = query.stream.clone();
    let filter = stream_filter(query.stream)?;
    let end_at_exit = one_of(query.end, "end", "exit", |text| (text == "exit").then_some(()))?;
    let after = query.since.unwrap_or(0).max(last_event_id(&headers)?);
    let process = path.find_anywhere(&app).await?;
    let filter = match filter {
        // `combined` is stdout and stderr, and a terminal has neither.
        Some(StreamFilter::All) if process.is_terminal() => None,
        Some(filter) => Some(filter),
        None => Some(StreamFilter::All),
    };
    let stream_label = name.unwrap_or_else(|| if process.is_terminal() { "pty".into() } else { "combined".into() });
    if query.follow.unwrap_or(false) {
        let Some(filter) = filter else { return Ok(sse::response(stream::empty())) };
        let log = process.wait_for_log().await?;
        let after = after.max(sequence_before(&log, query.from).await?);
        let cursor = EntryCursor::new(log, after, query.tail, filter);
        return Ok(sse::response(follow(app, process, cursor, end_at_exit.is_some())));
    }
    let mut reader = None;
    if let (Some(filter), Some(log)) = (filter, process.log_if_started()?) {
        let after = after.max(sequence_before(&log, query.from).await?);
        reader = Some(EntryReader { until: log.head(), cursor: EntryCursor::live(log, after, query.tail, filter) });
    }
    Ok(LogDocument::new(process.id(), &stream_label, reader).into_response().await)
}

/// The sequence of the entry before the one that contains the offset `from`.
async fn sequence_before(log: &Log, from: Option<u64>) -> outlive_core::Result<u64> {
    let Some(from) = from else { return Ok(0) };
    log.check_offset(from)?;
    Ok(log.sequence_at(from).await.saturating_sub(1))
}

/// Events and entries are batched up to this size, so that tiny chunks do not cost a write to the socket each.
const PIECE_BYTES: usize = 64 * 1024;

/// The end of a [`LogList`].
const LIST_END: &str = "]}";

/// A [`LogList`] that is written while the client reads it: with a history, a log may be far larger than memory.
struct LogDocument {
    /// `None` after the last entry.
    reader: Option<EntryReader>,
    piece: String,
}

/// Reads the entries before an offset.
struct EntryReader {
    cursor: EntryCursor,
    until: u64,
}

impl EntryReader {
    async fn next(&mut self) -> Option<Entry> {
        loop {
            match self.cursor.next_now().await? {
                EntryItem::Entry(entry) => return Some(entry).filter(|entry| entry.offset < self.until),
                EntryItem::Gap { .. } | EntryItem::BecameLive | EntryItem::Exit(_) | EntryItem::End => {}
            }
        }
    }
}

impl LogDocument {
    fn new(process_id: &str, stream: &str, reader: Option<EntryReader>) -> Self {
        let empty = LogList { process_id: process_id.to_owned(), stream: stream.to_owned(), entries: Vec::new() };
        let mut piece = serde_json::to_string(&empty).unwrap_or_default();
        if reader.is_some() {
            // The entries and the end follow.
            piece.truncate(piece.len().saturating_sub(LIST_END.len()));
        }
        Self { reader, piece }
    }

    /// A short document is sent in one piece, with its length.
    async fn into_response(mut self) -> Response {
        let first = self.next_piece().await.unwrap_or_default();
        let body = if self.reader.is_none() {
            Body::from(first)
        } else {
            let rest = stream::unfold(self, |mut document| async move {
                // A client that reads everything at once must not starve other tasks.
                tokio::task::yield_now().await;
                Some((document.next_piece().await?, document))
            });
            Body::from_stream(stream::iter([first]).chain(rest).map(Ok::<_, Infallible>))
        };
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }

    /// `None` after the last piece.
    async fn next_piece(&mut self) -> Option<Bytes> {
        while self.piece.len() < PIECE_BYTES
            && let Some(reader) = &mut self.reader
        {
            let Some(entry) = reader.next().await else {
                self.reader = None;
                self.piece.push_str(LIST_END);
                break;
            };
            if !self.piece.ends_with('[') {
                self.piece.push(',');
            }
            self.piece.push_str(&serde_json::to_string(&to_wire(&entry)).unwrap_or_default());
        }
        (!self.piece.is_empty()).then(|| std::mem::take(&mut self.piece).into())
    }
}

struct LogFollower {
    app: AppState,
    process: Arc<Process>,
    cursor: EntryCursor,
    end_at_exit: bool,
    ended: bool,
}

fn follow(app: AppState, process: Arc<Process>, cursor: EntryCursor, end_at_exit: bool) -> impl Stream<Item = Bytes> {
    let start = LogFollower { app, process, cursor, end_at_exit, ended: false };
    stream::unfold(start, |mut follower| async move {
        if follower.ended {
            return None;
        }
        let LogFollower { app, process, cursor, .. } = &mut follower;
        let first = tokio::select! {
            biased;
            item = cursor.next() => item,
            () = process.wait_removed() => return None,
            () = app.until_shutdown() => return None,
        };
        let mut piece = String::new();
        let mut next = Some(first);
        while let Some(item) = next {
            follower.push(&mut piece, &item);
            let more = !follower.ended && piece.len() < PIECE_BYTES;
            next = if more { follower.cursor.try_next() } else { None };
        }
        Some((piece.into(), follower))
    })
}

impl LogFollower {
    fn push(&mut self, piece: &mut String, item: &EntryItem) {
        match item {
            EntryItem::Entry(entry) => push_entry(piece, entry),
            EntryItem::Gap { from_sequence, to_sequence } => {
                let range = format!("{{\"fromSequence\":{from_sequence},\"toSequence\":{to_sequence}}}");
                sse::push_event(piece, "gap", "", &range);
            }
            EntryItem::BecameLive => sse::push_event(piece, "flow", "", "{\"flow\":\"live\"}"),
            EntryItem::Exit(exit) => {
                self.process.sync_exit_from_log();
                sse::push_event(piece, "exit", "", &super::connect::exit_frame(exit));
                self.ended = self.end_at_exit;
            }
            EntryItem::End => self.ended = true,
        }
    }
}

/// A [`LogEntry`] as an event, written in place so that its bytes are encoded without a copy.
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
    fn an_event_has_the_json_of_a_list_entry() {
        for (stream, bytes) in [(LogStream::Stdout, &b""[..]), (LogStream::Terminal, b"\xff\x00\r\n")] {
            let entry = Entry { sequence: 7, stream, at_ms: 1_700_000_000_123, offset: 42, bytes: bytes.into() };
            let mut piece = String::new();
            push_entry(&mut piece, &entry);
            let data = piece.strip_prefix("event: log\nid: 7\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
            assert_eq!(data, serde_json::to_string(&to_wire(&entry)).ok().as_deref());
        }
    }
}
