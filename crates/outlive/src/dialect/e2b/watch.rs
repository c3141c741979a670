//! The stream of a process's events, for whoever started it and for whoever connects later.
//!
//! A client of E2B cannot say where it stopped. So the log remembers how far such clients have been served (the *resume
//! offset*, raised when bytes have left us), and who connects goes on there: after a broken connection that is exactly what was
//! missed, and beside another client it is what comes from now on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::{Stream, stream};
use outlive_core::attach::{Attachment, Role};
use outlive_core::log::{Cause, Cursor, Exit, Flow, Item, Log, Start, Stream as LogStream, StreamFilter};
use outlive_core::process::Process;
use tokio::time::Instant;

use super::connect::{Codec, Failure, FailureCode, ServerStream, answer, append_end, append_message};
use super::end;
use super::message::{DataEvent, Empty, EventResponse, ProcessEvent, SelectRequest, StartEvent};
use super::select;
use crate::access::Grant;
use crate::api::App;
use crate::peer::Peer;
use crate::server::Sent;

/// Bytes of output in one event.
const EVENT_BYTES: usize = 32 * 1024;
/// As many events as are there go out in one piece, up to this.
const PIECE_BYTES: usize = 64 * 1024;

/// A cursor at `asked`, or at the oldest byte that is still there. A lossless one holds what it will read, also of a
/// program that prints without end.
fn open(log: &Arc<Log>, asked: u64, flow: Flow) -> Cursor {
    let at = |start| Cursor::new(Arc::clone(log), start, flow, StreamFilter::All);
    let cursor = at(Start::At(asked));
    // The hold first, then the look: what is there now stays there.
    if log.tail() <= asked {
        return cursor;
    }
    cursor.close();
    at(Start::Oldest)
}

/// By which a client that can say so asks for output from an offset on.
const FROM: &str = "outlive-from";
/// What the answer to it tells: the offset of its first byte, and what was asked for but is gone.
const OFFSET: HeaderName = HeaderName::from_static("x-outlive-offset");
const GAP: HeaderName = HeaderName::from_static("x-outlive-gap");

pub(super) async fn connect(
    State(app): State<App>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    call: ServerStream<SelectRequest>,
) -> Response {
    let codec = call.codec;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let begun = begin(&app, &headers, &call, flow).await;
    let mut told = HeaderMap::new();
    let events = begun.and_then(|(process, asked, cursor)| {
        let from = cursor.offset();
        told.insert(OFFSET, HeaderValue::from(from));
        // Nobody was there for so long that the oldest of it is gone.
        if asked < from
            && let Ok(gap) = HeaderValue::from_str(&format!("{asked}-{from}"))
        {
            told.insert(GAP, gap);
        }
        // Who may only look takes nothing away from those who own it.
        let takes = flow == Flow::Lossless;
        watch(app, Watched { process, cursor, life: None, takes }, &peer, &call)
    });
    let mut response = answer(codec, events);
    response.headers_mut().extend(told);
    response
}

async fn begin(
    app: &App,
    headers: &HeaderMap,
    call: &ServerStream<SelectRequest>,
    flow: Flow,
) -> Result<(Arc<Process>, u64, Cursor), Failure> {
    let (process, _) = select::find(app, call.message.process.clone())?;
    let log = process.started_log().await?;
    let asked = match headers.get(FROM) {
        None => log.resume_offset(),
        Some(value) => {
            let offset = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|offset| *offset <= log.head());
            offset.ok_or_else(|| Failure::invalid(format!("{FROM}: expected an offset up to {}", log.head())))?
        }
    };
    let cursor = open(&log, asked, flow);
    Ok((process, asked, cursor))
}

/// What is to be watched.
pub(super) struct Watched {
    pub(super) process: Arc<Process>,
    pub(super) cursor: Cursor,
    /// The time limit of the process, for the one who set it: at its end the call ends with that as the reason.
    pub(super) life: Option<Duration>,
    /// What it is given counts as received: the next one goes on behind it.
    pub(super) takes: bool,
}

pub(super) fn watch<M>(
    app: App,
    watched: Watched,
    peer: &Peer,
    call: &ServerStream<M>,
) -> Result<impl Stream<Item = Bytes> + use<M>, Failure> {
    let Watched { process, cursor, life, takes } = watched;
    let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
    app.metrics.attached();
    let pid = process.last_pid().unwrap_or_default();
    let watching = Watching {
        cursor: Some(cursor),
        app,
        process,
        _attachment: attachment,
        codec: call.codec,
        keepalive: call.keepalive,
        deadline: call.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        started_it: life.is_some(),
        takes,
        sent: call.sent.clone(),
    };
    let start = ProcessEvent { start: Some(StartEvent { pid }), ..ProcessEvent::default() };
    let mut first = Vec::new();
    watching.append(start, &mut first);
    let rest = stream::unfold(watching, |mut watching| async move {
        let piece = watching.next_piece().await?;
        Some((piece.into(), watching))
    });
    Ok(futures_util::StreamExt::chain(stream::iter([Bytes::from(first)]), rest))
}

struct Watching {
    app: App,
    process: Arc<Process>,
    _attachment: Attachment,
    /// Gone when there is nothing more to say.
    cursor: Option<Cursor>,
    codec: Codec,
    keepalive: Duration,
    deadline: Option<Instant>,
    /// The deadline is also that of the process.
    started_it: bool,
    takes: bool,
    sent: Option<Arc<Sent>>,
}

/// What comes next.
enum Next {
    Item(Item),
    Silence,
    Over(Failure),
}

impl Watching {
    fn append(&self, event: ProcessEvent, piece: &mut Vec<u8>) {
        append_message(self.codec, &EventResponse { event: Some(event) }, piece);
    }

    /// Waits for something to say, and says with it what else is there by then.
    async fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        match self.next().await? {
            Next::Item(item) => self.tell(item, &mut piece),
            Next::Silence => {
                let sign = ProcessEvent { keepalive: Some(Empty {}), ..ProcessEvent::default() };
                self.append(sign, &mut piece);
            }
            Next::Over(failure) => self.end(Some(&failure), &mut piece),
        }
        while piece.len() < PIECE_BYTES
            && let Some(item) = self.cursor.as_mut().and_then(|cursor| cursor.try_next(EVENT_BYTES))
        {
            self.tell(item, &mut piece);
        }
        if let Some(cursor) = &self.cursor {
            self.given_out(cursor.log(), cursor.offset());
        }
        Some(piece)
    }

    async fn next(&mut self) -> Option<Next> {
        let cursor = self.cursor.as_mut()?;
        let over = |code, message: &str| Next::Over(Failure::new(code, message));
        let deadline = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            () = deadline => over(FailureCode::DeadlineExceeded, "the time of this call is over"),
            item = cursor.next(EVENT_BYTES) => Next::Item(item),
            () = self.process.until_removed() => over(FailureCode::Aborted, "the process was deleted"),
            () = self.app.ended() => over(FailureCode::Unavailable, "the server is being replaced: connect again"),
            () = tokio::time::sleep(self.keepalive) => Next::Silence,
        };
        Some(next)
    }

    fn tell(&mut self, item: Item, piece: &mut Vec<u8>) {
        match item {
            Item::Bytes { stream, bytes, .. } => {
                if let Some(data) = data_event(stream, bytes) {
                    self.append(ProcessEvent { data: Some(data), ..ProcessEvent::default() }, piece);
                }
            }
            // The protocol has no word for it, and to go on as if nothing had happened would be a lie.
            Item::Gap { from, to } => {
                let message = format!(
                    "output was not read in time: bytes {from} to {to} are gone; connect again to go on after them"
                );
                if let Some(cursor) = &self.cursor {
                    self.given_out(cursor.log(), to);
                }
                self.end(Some(&Failure::new(FailureCode::DataLoss, message)), piece);
            }
            Item::BecameLive => {}
            Item::Exit(exit) => self.tell_exit(&exit, piece),
        }
    }

    fn tell_exit(&mut self, exit: &Exit, piece: &mut Vec<u8>) {
        // Who has heard of the end does not find it in the list any more.
        self.process.news();
        if let Some(cursor) = &self.cursor {
            self.given_out(cursor.log(), cursor.offset());
        }
        if self.started_it && exit.cause == Cause::TimedOut {
            let failure = Failure::new(FailureCode::DeadlineExceeded, "the time limit of the process was reached");
            return self.end(Some(&failure), piece);
        }
        self.append(ProcessEvent { end: Some(end::event(exit)), ..ProcessEvent::default() }, piece);
        self.end(None, piece);
    }

    fn end(&mut self, failure: Option<&Failure>, piece: &mut Vec<u8>) {
        append_end(failure, piece);
        if let Some(cursor) = self.cursor.take() {
            cursor.close();
        }
    }

    fn given_out(&self, log: &Arc<Log>, offset: u64) {
        match &self.sent {
            _ if !self.takes => {}
            Some(sent) => sent.raises(log, offset),
            None => log.raise_resume_offset(offset),
        }
    }
}

fn data_event(stream: LogStream, bytes: Bytes) -> Option<DataEvent> {
    let none = DataEvent::default();
    match stream {
        LogStream::Stdout => Some(DataEvent { stdout: Some(bytes), ..none }),
        LogStream::Stderr => Some(DataEvent { stderr: Some(bytes), ..none }),
        LogStream::Terminal => Some(DataEvent { pty: Some(bytes), ..none }),
        LogStream::Extra => None,
    }
}
