//! What a process has printed: all of it at once, or from the beginning as it comes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream as Events, stream};
use outlive_core::attach::{Attachment, Role};
use outlive_core::log::{Cursor, Exit, Flow, Item, Log, Start, Stream, StreamFilter};
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::super::clock;
use super::super::command::Ended;
use super::super::error::ContainerError;
use super::super::text::{self, Decoders};
use super::inspect;
use super::sse::{error, event};
use crate::access::Grant;
use crate::api::App;
use crate::api::extract::Path;
use crate::api::problem::Problem;
use crate::api::sse;
use crate::decoder::Decoder;
use crate::peer::Peer;

/// Bytes of output in one event.
const PIECE_BYTES: usize = 32 * 1024;
/// Looks into the log for one piece: some find nothing that is wanted, and they take time as well.
const PIECE_ITEMS: usize = 256;
/// What one answer may have; of more, it is the end.
const MOST_BYTES: u64 = 32 << 20;

pub(in super::super) async fn whole(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<Response, ContainerError> {
    let Path(id) = id?;
    let log = inspect::find(&app, &id)?.started_log().await?;
    let pieces = stream::unfold(Telling::new(&id, log), |mut telling| async move {
        loop {
            // Somebody who takes all of it at once must not keep others from their turn.
            tokio::task::yield_now().await;
            let piece = telling.piece()?;
            if !piece.is_empty() {
                return Some((Ok::<_, Infallible>(Bytes::from(piece)), telling));
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(pieces)).into_response())
}

/// The answer of [`whole`], made as it is taken: first all of stdout, then all of stderr. What was printed after it began is not in it.
struct Telling {
    log: Arc<Log>,
    start: u64,
    end: u64,
    /// `None` when all is said.
    reading: Option<Reading>,
    /// Of the bytes before this offset not all are in the answer.
    missing: u64,
    /// Said before the next piece.
    opening: String,
}

struct Reading {
    of_stderr: bool,
    cursor: Cursor,
    decoder: Decoder,
}

impl Reading {
    fn new(of_stderr: bool, log: &Arc<Log>, start: Start) -> Self {
        let cursor = Cursor::new(Arc::clone(log), start, Flow::Live, StreamFilter::All);
        Self { of_stderr, cursor, decoder: Decoder::default() }
    }
}

impl Telling {
    fn new(id: &str, log: Arc<Log>) -> Self {
        let end = log.head();
        let reading = Reading::new(false, &log, Start::Tail(MOST_BYTES));
        let start = reading.cursor.offset();
        let mut opening = r#"{"success":true,"processId":""#.to_owned();
        push_escaped(&mut opening, id);
        opening.push_str(r#"","stdout":""#);
        Self { log, start, end, reading: Some(reading), missing: start, opening }
    }

    /// A bounded piece of work, and what came of it.
    fn piece(&mut self) -> Option<String> {
        let reading = self.reading.as_mut()?;
        let mut text = std::mem::take(&mut self.opening);
        for _ in 0..PIECE_ITEMS {
            if text.len() >= PIECE_BYTES {
                break;
            }
            let left = self.end.saturating_sub(reading.cursor.offset());
            let most = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            match (most > 0).then(|| reading.cursor.try_next(most)).flatten() {
                Some(Item::Bytes { stream, bytes, .. }) if (stream == Stream::Stderr) == reading.of_stderr => {
                    push_escaped(&mut text, &reading.decoder.decode(&bytes));
                }
                // A client that is slower than the program.
                Some(Item::Gap { to, .. }) => {
                    self.missing = self.missing.max(to.min(self.end));
                    text.extend(reading.decoder.finish());
                }
                Some(_) => {}
                None => {
                    text.extend(reading.decoder.finish());
                    self.turn(&mut text);
                    break;
                }
            }
        }
        Some(text)
    }

    /// From stdout to stderr, from stderr to the end.
    fn turn(&mut self, text: &mut String) {
        if self.reading.as_ref().is_some_and(|reading| !reading.of_stderr) {
            text.push_str(r#"","stderr":""#);
            self.reading = Some(Reading::new(true, &self.log, Start::At(self.start)));
            return;
        }
        self.reading = None;
        text.push_str(r#"","timestamp":""#);
        text.push_str(&clock::now());
        text.push('"');
        if self.missing > 0 {
            text.push_str(r#","missingBytes":"#);
            text.push_str(&self.missing.to_string());
        }
        text.push('}');
    }
}

/// As it stands within the quotes of a JSON string.
fn push_escaped(text: &mut String, plain: &str) {
    let quoted = Value::from(plain).to_string();
    text.push_str(&quoted[1..quoted.len() - 1]);
}

pub(in super::super) async fn stream(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    peer: Peer,
    grant: Grant,
) -> Result<Response, ContainerError> {
    let Path(id) = id?;
    let process = inspect::find(&app, &id)?;
    let log = process.started_log().await?;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
    app.metrics.attached();
    let cursor = from_the_beginning(&log, flow);
    let mut info = json!({
        "type": "process_info",
        "processId": id,
        "command": inspect::command_of(&process.spec()),
        "status": inspect::status(&process),
    });
    if cursor.offset() > 0 {
        info["missingBytes"] = cursor.offset().into();
    }
    let watching = Watching { app, id, process, cursor, decoders: Decoders::default(), _attachment: attachment };
    Ok(sse::answer(futures_util::StreamExt::chain(stream::iter([event(info)]), events(watching))))
}

/// Or from the oldest byte that is still there.
fn from_the_beginning(log: &Arc<Log>, flow: Flow) -> Cursor {
    let at = |start| Cursor::new(Arc::clone(log), start, flow, StreamFilter::All);
    if log.tail() > 0 {
        return at(Start::Oldest);
    }
    let cursor = at(Start::At(0));
    // The hold first, then the look: what is there now stays there.
    if log.tail() == 0 {
        return cursor;
    }
    cursor.close();
    at(Start::Oldest)
}

struct Watching {
    app: App,
    id: String,
    process: Arc<Process>,
    cursor: Cursor,
    decoders: Decoders,
    _attachment: Attachment,
}

/// What was said, and whether it was the last.
enum Said {
    Nothing,
    More(Bytes),
    Last(Bytes),
}

fn events(watching: Watching) -> impl Events<Item = Bytes> {
    stream::unfold(Some(watching), |watching| async move {
        let mut watching = watching?;
        loop {
            match watching.next().await {
                Said::Nothing => {}
                Said::More(bytes) => return Some((bytes, Some(watching))),
                Said::Last(bytes) => {
                    watching.cursor.close();
                    return Some((bytes, None));
                }
            }
        }
    })
}

impl Watching {
    async fn next(&mut self) -> Said {
        let item = tokio::select! {
            biased;
            item = self.cursor.next(PIECE_BYTES) => item,
            () = self.process.until_removed() => return Said::Last(error("the process was deleted")),
            () = self.app.ended() => return Said::Last(error("the server is being replaced: ask again")),
            () = self.app.core.until_holder_gone() => return Said::Last(error("the holder is gone")),
        };
        match item {
            Item::Bytes { stream, bytes, .. } => {
                let text = self.decoders.of(stream).decode(&bytes);
                if text.is_empty() { Said::Nothing } else { Said::More(self.piece(text::name(stream), &text)) }
            }
            // The protocol has no word for it, and to go on as if nothing had happened would be a lie.
            Item::Gap { from, to } => Said::Last(error(&format!(
                "output was not read in time: bytes {from} to {to} are gone; ask again to have what is kept"
            ))),
            Item::BecameLive => Said::Nothing,
            Item::Exit(exit) => {
                self.process.news();
                Said::Last(self.exit(&exit))
            }
        }
    }

    fn piece(&self, name: &str, text: &str) -> Bytes {
        event(json!({ "type": name, "data": text, "processId": self.id }))
    }

    fn exit(&mut self, exit: &Exit) -> Bytes {
        let mut all = Vec::new();
        let left: Vec<_> = self.decoders.end().collect();
        for (name, bytes) in left {
            all.extend(self.piece(name, &String::from_utf8_lossy(&bytes)));
        }
        let code = Ended::of(exit).code;
        let data = format!("Process {} with exit code {code}", inspect::ended(exit));
        all.extend(event(json!({ "type": "exit", "exitCode": code, "data": data, "processId": self.id })));
        all.into()
    }
}
