//! The output of a process: all of it in one response, or as a stream from the oldest byte.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream as Events, StreamExt as _, stream};
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role};
use outlive_core::follow::{Ending, Follow, FollowEvent};
use outlive_core::log::{Cursor, Exit, Flow, Item, Log, Start, Stream, StreamFilter};
use serde_json::{Value, json};

use super::super::command::{Decoders, ExitStatus, MAX_EVENT_BYTES, stream_name};
use super::super::error::ContainerError;
use super::{error_event, event, processes};
use crate::access::Grant;
use crate::http::AppState;
use crate::http::extract::{Path, WithRejection};
use crate::http::peer::Peer;
use crate::http::sse;
use crate::rfc3339;
use crate::utf8_decoder::Utf8Decoder;

/// Size of one piece of the response body.
const PIECE_BYTES: usize = 32 * 1024;
/// Log items that are read for one piece. Items of the other stream add nothing to it, but take time too.
const MAX_PIECE_ITEMS: usize = 256;
/// The response has at most this much of the log, its end.
const MAX_LOG_BYTES: u64 = 32 << 20;

/// `/api/process/{id}/logs`
pub(in super::super) async fn read_all(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, ContainerError>,
) -> Result<Response, ContainerError> {
    let log = processes::find(&app, &id)?.wait_for_log().await?;
    let pieces = stream::unfold(LogDocument::new(&id, log), |mut document| async move {
        loop {
            // A client that reads everything at once must not starve other tasks.
            tokio::task::yield_now().await;
            let piece = document.next_piece().await?;
            if !piece.is_empty() {
                return Some((Ok::<_, Infallible>(Bytes::from(piece)), document));
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(pieces)).into_response())
}

/// The JSON document of [`read_all`], written as the client reads it: first all of stdout, then all of stderr, up to
/// the log's head at the time of the request.
struct LogDocument {
    log: Arc<Log>,
    start: u64,
    end: u64,
    /// `None` after the last piece.
    reader: Option<StreamReader>,
    /// The document lacks bytes before this offset.
    missing_until: u64,
    /// Text that comes before the next piece.
    prefix: String,
}

/// Reads one of the two streams.
struct StreamReader {
    is_stderr: bool,
    cursor: Cursor,
    decoder: Utf8Decoder,
}

impl StreamReader {
    fn new(is_stderr: bool, log: &Arc<Log>, start: Start) -> Self {
        let cursor = Cursor::new(Arc::clone(log), start, Flow::Live, StreamFilter::All);
        Self { is_stderr, cursor, decoder: Utf8Decoder::default() }
    }
}

impl LogDocument {
    fn new(id: &str, log: Arc<Log>) -> Self {
        let end = log.head();
        let reader = StreamReader::new(false, &log, Start::LastBytes(MAX_LOG_BYTES));
        let start = reader.cursor.offset();
        let mut prefix = r#"{"success":true,"processId":""#.to_owned();
        push_escaped(&mut prefix, id);
        prefix.push_str(r#"","stdout":""#);
        Self { log, start, end, reader: Some(reader), missing_until: start, prefix }
    }

    /// Does a bounded amount of work, which may yield no text. `None` after the last piece.
    async fn next_piece(&mut self) -> Option<String> {
        let reader = self.reader.as_mut()?;
        let mut text = std::mem::take(&mut self.prefix);
        for _ in 0..MAX_PIECE_ITEMS {
            if text.len() >= PIECE_BYTES {
                break;
            }
            let left = self.end.saturating_sub(reader.cursor.offset());
            let max_bytes = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let item = if max_bytes > 0 { reader.cursor.next_now(max_bytes).await } else { None };
            match item {
                Some(Item::Bytes { stream, bytes, .. }) if (stream == Stream::Stderr) == reader.is_stderr => {
                    push_escaped(&mut text, &reader.decoder.decode(&bytes));
                }
                // The client reads more slowly than the program writes, or the history lacks these bytes.
                Some(Item::Gap { to_offset, .. }) => {
                    self.missing_until = self.missing_until.max(to_offset.min(self.end));
                    text.extend(reader.decoder.finish());
                }
                Some(_) => {}
                None => {
                    text.extend(reader.decoder.finish());
                    self.finish_stream(&mut text);
                    break;
                }
            }
        }
        Some(text)
    }

    /// Switches from stdout to stderr, or ends the document.
    fn finish_stream(&mut self, text: &mut String) {
        if self.reader.as_ref().is_some_and(|reader| !reader.is_stderr) {
            text.push_str(r#"","stderr":""#);
            self.reader = Some(StreamReader::new(true, &self.log, Start::At(self.start)));
            return;
        }
        self.reader = None;
        text.push_str(r#"","timestamp":""#);
        text.push_str(&rfc3339::now());
        text.push('"');
        if self.missing_until > 0 {
            text.push_str(r#","missingBytes":"#);
            text.push_str(&self.missing_until.to_string());
        }
        text.push('}');
    }
}

/// Appends the contents of a JSON string, without its quotes.
fn push_escaped(text: &mut String, plain: &str) {
    let quoted = Value::from(plain).to_string();
    text.push_str(&quoted[1..quoted.len() - 1]);
}

/// `/api/process/{id}/stream`
pub(in super::super) async fn stream(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, ContainerError>,
    peer: Peer,
    grant: Grant,
) -> Result<Response, ContainerError> {
    let process = processes::find(&app, &id)?;
    let log = process.wait_for_log().await?;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
    app.metrics.count_attachment();
    let cursor = Cursor::open_or_oldest(&log, 0, flow);
    let mut info = json!({
        "type": "process_info",
        "processId": id,
        "command": processes::command_line(&process.spec()),
        "status": processes::status(&process),
    });
    if cursor.offset() > 0 {
        info["missingBytes"] = cursor.offset().into();
    }
    let follow = app.core.follow_process(process, cursor);
    let encoder = Encoder { app, id, follow: Some(follow), decoders: Decoders::default(), _attachment: attachment };
    Ok(sse::response(stream::iter([event(info)]).chain(encoder.into_events())))
}

/// Encodes the output of a process as server-sent events.
struct Encoder {
    app: AppState,
    id: String,
    /// `None` after the last event.
    follow: Option<Follow>,
    decoders: Decoders,
    _attachment: Attachment,
}

impl Encoder {
    fn into_events(self) -> impl Events<Item = Bytes> {
        stream::unfold(self, |mut encoder| async move { Some((encoder.next().await?, encoder)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        let message = loop {
            let follow = self.follow.as_mut()?;
            let event = tokio::select! {
                biased;
                event = follow.next(MAX_EVENT_BYTES) => event?,
                () = self.app.until_shutdown() => break "the server is being replaced; try again".to_owned(),
            };
            match event {
                FollowEvent::Started => {}
                FollowEvent::Output { stream, bytes, .. } => {
                    let text = self.decoders.get_mut(stream).decode(&bytes);
                    if !text.is_empty() {
                        return Some(self.output_event(stream_name(stream), &text));
                    }
                }
                // The protocol cannot express a gap, and a client must not take the output for complete.
                FollowEvent::Gap { from_offset: from, to_offset: to } => {
                    break format!(
                        "output was not read in time: bytes {from} to {to} are gone; try again for the rest"
                    );
                }
                FollowEvent::Exited(Ending::Process(exit)) => return Some(self.last_events(&exit)),
                // Only session execs end like this.
                FollowEvent::Exited(Ending::Exec(_)) => return None,
                FollowEvent::Failed(Error::NotFound { .. }) => break "the process was deleted".to_owned(),
                FollowEvent::Failed(error) => break error.to_string(),
            }
        };
        if let Some(follow) = self.follow.take() {
            follow.close();
        }
        Some(error_event(&message))
    }

    fn output_event(&self, name: &str, text: &str) -> Bytes {
        event(json!({ "type": name, "data": text, "processId": self.id }))
    }

    /// Incomplete characters at the end of the output, and the exit.
    fn last_events(&mut self, exit: &Exit) -> Bytes {
        let mut events = Vec::new();
        for (name, bytes) in self.decoders.finish() {
            events.extend(self.output_event(name, &String::from_utf8_lossy(&bytes)));
        }
        let code = ExitStatus::from_exit(exit).code;
        let data = format!("Process {} with exit code {code}", processes::exit_status_name(exit));
        events.extend(event(json!({ "type": "exit", "exitCode": code, "data": data, "processId": self.id })));
        events.into()
    }
}
