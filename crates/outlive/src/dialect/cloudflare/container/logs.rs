//! What a process has printed: all of it at once, or from the beginning as it comes.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
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
use crate::peer::Peer;

/// Bytes of output in one event.
const PIECE_BYTES: usize = 32 * 1024;
/// What one answer may have; of more, it is the end.
const MOST_BYTES: u64 = 32 << 20;

pub(in super::super) async fn whole(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Path(id) = id?;
    let log = inspect::find(&app, &id)?.started_log().await?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut cursor = Cursor::new(Arc::clone(&log), Start::Tail(MOST_BYTES), Flow::Live, StreamFilter::All);
    let missing = cursor.offset();
    let end = log.head();
    while cursor.offset() < end {
        match cursor.try_next(PIECE_BYTES) {
            Some(Item::Bytes { stream: Stream::Stderr, bytes, .. }) => stderr.extend_from_slice(&bytes),
            Some(Item::Bytes { bytes, .. }) => stdout.extend_from_slice(&bytes),
            Some(_) => {}
            None => break,
        }
    }
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut answer = json!({
        "success": true,
        "processId": id,
        "stdout": lossy(&stdout),
        "stderr": lossy(&stderr),
        "timestamp": clock::now(),
    });
    if missing > 0 {
        answer["missingBytes"] = missing.into();
    }
    Ok(Json(answer))
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
