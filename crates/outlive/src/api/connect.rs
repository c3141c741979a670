//! The WebSocket of a process: bytes in both directions, control in JSON. The frames are in docs/wire.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use outlive_core::attach::{Attachment, Role, Size};
use outlive_core::log::{Cursor, Exit, Flow, Log, Start, Stream, StreamFilter};
use outlive_core::process::{ExitReason, Process};
use outlive_core::screen::Repaint;
use outlive_core::signal;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::extract::{Params, Path};
use super::input::{Encoding, check_size, decode};
use super::lifecycle::SignalName;
use super::output::{check_offset, parse_flow};
use super::problem::{Answer, Problem};
use super::state::App;
use crate::access::Grant;
use crate::front::too_much_unsent;
use crate::peer::Peer;
use crate::socket::{self, AfterGap, Frames, Reply, Speech, close};

/// Who goes on after this many errors does not read them.
const MOST_ERRORS: u32 = 100;

/// How often a client was told that what it sent makes no sense, or is not for it.
#[derive(Default)]
pub(super) struct Told(AtomicU32);

impl Told {
    /// The error, or when it was too many, the end.
    pub(super) fn once_more(&self, error: Message) -> Reply {
        if self.0.fetch_add(1, Relaxed) < MOST_ERRORS {
            return Reply::Send(error);
        }
        Reply::Close(close(1008, "too many frames that make no sense or are not allowed"))
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ConnectQuery {
    /// Offset to begin at.
    from: Option<String>,
    /// Begin this many bytes before the head.
    tail: Option<u64>,
    /// `writer` (default) or `viewer`.
    role: Option<String>,
    /// `lossless` (default of writers, needs the scope write) or `live` (default of viewers).
    flow: Option<String>,
    /// `raw` leaves out the stream byte of a process on pipes.
    framing: Option<String>,
    cols: Option<u16>,
    rows: Option<u16>,
    /// `true`: begin with what the terminal shows (not together with `from` or `tail`); `false`: never send a screen. Absent: only
    /// after a gap.
    screen: Option<bool>,
    /// So many lines above the screen are part of it, at most 1000.
    scrollback: Option<usize>,
    /// Send at most this many bytes beyond the last `ack`; absent: as many as the connection takes.
    window: Option<u64>,
}

/// Less would be a frame per keystroke.
const SMALLEST_WINDOW: u64 = 4096;

pub(super) fn upgrade(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    headers: &HeaderMap,
) -> Answer<WebSocketUpgrade> {
    upgrade.map_err(|_| {
        let got = match headers.get("upgrade").and_then(|value| value.to_str().ok()) {
            Some(other) => format!("upgrade: {other}"),
            None => "no upgrade header".to_owned(),
        };
        Problem::bad_request("expected_websocket", format!("expected upgrade: websocket, got {got}"))
            .with_expected("upgrade: websocket", got)
    })
}

/// Attach to a process.
#[utoipa::path(get, path = "/v1/processes/{id}/connect", params(("id" = String, Path), ConnectQuery), responses(
    (status = 101), (status = "4XX", body = Problem)))]
pub(super) async fn connect(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<ConnectQuery>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let process = app.core.find(&id)?;
    let socket = upgrade(socket, &headers)?;
    let role = super::processes::one_of(query.role, "role", "writer, viewer", |text| match text {
        "writer" => Some(Role::Writer),
        "viewer" => Some(Role::Viewer),
        _ => None,
    })?;
    let role = grant.role_at(process.id(), role)?;
    let usual = if role == Role::Writer { Flow::Lossless } else { Flow::Live };
    let flow = grant.flow(parse_flow(query.flow)?, usual)?;
    let raw =
        super::processes::one_of(query.framing, "framing", "raw", |text| (text == "raw").then_some(()))?.is_some();
    let start = parse_start(query.from.as_deref(), query.tail)?;
    let begins_with_screen = query.screen == Some(true);
    if begins_with_screen && start != Start::Head {
        let problem =
            Problem::bad_request("invalid_query", "a screen stands for everything before it: leave out from and tail");
        return Err(problem.with_field("screen"));
    }
    let log = process.started_log().await?;
    let size = query.cols.zip(query.rows).map(|(cols, rows)| Size { cols, rows });
    let attachment = process.attach(role, Some(peer.to_string()), size)?;
    let scrollback = query.scrollback.unwrap_or(0);
    // After the size of this client has been applied: it is shown the screen that it will go on with.
    let (screen, cursor) = if begins_with_screen {
        let (screen, cursor) = begin_with_screen(&process, &log, scrollback, flow).await?;
        let Some(share) = app.unsent.share(screen.bytes.len()) else {
            cursor.close();
            return Err(too_much_unsent());
        };
        (Some((screen, share)), cursor)
    } else {
        (None, begin(&log, start, flow)?)
    };
    app.metrics.attached();
    let tagged = !process.is_terminal() && !raw;
    let socket = socket::limited(socket, &app.limits);
    let window = query.window.map(|bytes| bytes.max(SMALLEST_WINDOW));
    let scrollback = (query.screen != Some(false)).then_some(scrollback);
    let speech = Native { app: app.clone(), attachment, tagged, window, scrollback, told: Told::default() };
    Ok(socket.on_upgrade(move |socket| socket::serve_from(app, process, speech, cursor, screen, socket)))
}

/// In a flood, what a screen goes on with may be gone before anybody has it; the next one is newer.
async fn begin_with_screen(
    process: &Arc<Process>,
    log: &Arc<Log>,
    scrollback: usize,
    flow: Flow,
) -> Answer<(Repaint, Cursor)> {
    const TRIES: usize = 3;
    let mut tries = 0;
    loop {
        let screen = process.repaint_or_nearly(scrollback).await?;
        tries += 1;
        match begin(log, Start::At(screen.offset), flow) {
            Ok(cursor) => return Ok((screen, cursor)),
            Err(_) if tries < TRIES => {}
            Err(problem) => return Err(problem),
        }
    }
}

/// A cursor at an offset that is there. One that is refused leaves no hold behind.
pub(super) fn begin(log: &Arc<Log>, start: Start, flow: Flow) -> Answer<Cursor> {
    let cursor = Cursor::new(Arc::clone(log), start, flow, StreamFilter::All);
    if let Start::At(offset) = start
        && let Err(error) = check_offset(log, offset)
    {
        cursor.close();
        return Err(error.into());
    }
    Ok(cursor)
}

pub(super) fn parse_start(from: Option<&str>, tail: Option<u64>) -> Answer<Start> {
    match (from, tail) {
        (Some(text), _) => text.parse().map(Start::At).map_err(|_| {
            Problem::bad_request("invalid_query", "invalid query: from must be an offset")
                .with_field("from")
                .with_expected("a byte offset", text)
        }),
        (None, Some(bytes)) => Ok(Start::Tail(bytes)),
        (None, None) => Ok(Start::Head),
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum ClientFrame {
    Input { data: String, encoding: Option<String> },
    Resize { cols: u16, rows: u16 },
    Signal { signal: SignalName },
    Ack { offset: u64 },
    Close,
}

/// outlive's own language.
struct Native {
    app: App,
    attachment: Attachment,
    /// Frames begin with the stream's number.
    tagged: bool,
    window: Option<u64>,
    /// It can be shown screens, with so many lines above them.
    scrollback: Option<usize>,
    told: Told,
}

impl Speech for Native {
    fn ready(&self, cursor: &Cursor) -> Option<Message> {
        let info = self.process().info();
        let mut frame = json!({
            "type": "ready",
            "processId": info.id,
            "offset": cursor.offset(),
            // What comes before this was printed before anybody was here to answer it.
            "head": cursor.log().head(),
            "inputOffset": cursor.log().input_offset(),
            "role": self.attachment.role(),
            "flow": if cursor.is_lossless() { "lossless" } else { "live" },
            "generation": info.generation,
        });
        if let (Some(cols), Some(rows)) = (info.cols, info.rows) {
            frame["cols"] = cols.into();
            frame["rows"] = rows.into();
        }
        Some(text(frame.to_string()))
    }

    fn bytes(&self, stream: Stream, bytes: Bytes) -> Frames {
        if !self.tagged {
            return Message::Binary(bytes).into();
        }
        let mut tagged = BytesMut::with_capacity(bytes.len() + 1);
        tagged.put_u8(stream as u8);
        tagged.extend_from_slice(&bytes);
        Message::Binary(tagged.freeze()).into()
    }

    fn gap(&self, from: u64, to: u64) -> AfterGap {
        AfterGap::Say(text(json!({ "type": "gap", "from": from, "to": to }).to_string()))
    }

    fn repaint(&self, repaint: Repaint) -> Vec<Message> {
        let Repaint { offset, size, bytes, approximate } = repaint;
        let announced = json!({
            "type": "repaint",
            "offset": offset,
            "cols": size.cols,
            "rows": size.rows,
            "bytes": bytes.len(),
            "approximate": approximate,
        });
        let mut bytes = Bytes::from(bytes);
        let mut frames = vec![text(announced.to_string())];
        while !bytes.is_empty() {
            frames.push(Message::Binary(bytes.split_to(bytes.len().min(socket::FRAME_BYTES))));
        }
        frames
    }

    fn repaints_after_gap(&self) -> Option<usize> {
        self.scrollback
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn became_live(&self) -> Option<Message> {
        let message = "you read too slowly for too long: from here on the program does not wait for you";
        Some(text(error_frame("became_live", message)))
    }

    fn resized(&self, size: Option<Size>) -> Option<Message> {
        let Size { cols, rows } = size?;
        let policy = self.process().ruling_size().1;
        Some(text(json!({ "type": "resized", "cols": cols, "rows": rows, "sizePolicy": policy }).to_string()))
    }

    fn exit(&self, exit: &Exit) -> Vec<Message> {
        let frame = exit_frame(exit);
        vec![text(frame), close(1000, "the process has exited")]
    }

    fn deleted(&self) -> Message {
        close(1001, "the process was deleted")
    }

    async fn understand(&self, message: Message) -> Reply {
        match message {
            Message::Binary(bytes) => self.input(&bytes).await,
            Message::Text(frame) => self.control(&frame).await,
            Message::Close(_) => Reply::Close(close(1000, "")),
            Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
        }
    }
}

impl Native {
    fn process(&self) -> &Arc<Process> {
        self.attachment.process()
    }

    fn refuse(&self, message: &str) -> Reply {
        self.told.once_more(text(error_frame("read_only", message)))
    }

    async fn input(&self, bytes: &[u8]) -> Reply {
        if self.attachment.role() == Role::Viewer {
            return self.refuse("a viewer cannot send input");
        }
        let result = match check_size(&self.app, bytes.len()) {
            Ok(()) => self.attachment.input(bytes).await,
            Err(error) => Err(error),
        };
        // One that takes only so much at a time shows it to somebody.
        match told(result) {
            Reply::Nothing if self.scrollback.is_some() && self.window.is_some() => Reply::Typed,
            reply => reply,
        }
    }

    async fn control(&self, frame: &str) -> Reply {
        let frame: ClientFrame = match super::extract::parse(frame.as_bytes()) {
            Ok(frame) => frame,
            Err(problem) => {
                malformed(&self.app, self.process(), &problem, frame);
                let message = format!("invalid frame: {}", problem.detail());
                return self.told.once_more(text(error_frame("invalid_frame", &message)));
            }
        };
        match frame {
            ClientFrame::Input { data, encoding } => {
                let decoded =
                    Encoding::parse(encoding.as_deref(), Encoding::Utf8).and_then(|encoding| decode(&data, encoding));
                match decoded {
                    Ok(bytes) => self.input(&bytes).await,
                    Err(problem) => self.told.once_more(text(error_frame(problem.code(), problem.detail()))),
                }
            }
            ClientFrame::Resize { cols, rows } => {
                self.attachment.resize(Size { cols, rows });
                Reply::Nothing
            }
            ClientFrame::Signal { signal } => self.signal(&signal).await,
            ClientFrame::Ack { offset } => Reply::Acknowledge(offset),
            ClientFrame::Close => Reply::Close(close(1000, "")),
        }
    }

    async fn signal(&self, signal: &SignalName) -> Reply {
        if self.attachment.role() == Role::Viewer {
            return self.refuse("a viewer cannot send signals");
        }
        told(match signal.number() {
            Ok(number) => self.process().signal(number).await.map(drop),
            Err(error) => Err(error),
        })
    }
}

/// Counts and logs a frame that made no sense.
pub(super) fn malformed(app: &App, process: &Process, problem: &Problem, frame: &str) {
    app.metrics.malformed_frame();
    if !may_log() {
        return;
    }
    let start: String = frame.chars().take(64).flat_map(char::escape_default).collect();
    tracing::warn!(process = process.id(), kind = problem.code(), start, "malformed control frame");
}

/// A few lines a second say what is wrong; a flood of them would push the audit log out of its queue.
fn may_log() -> bool {
    const MOST_PER_SECOND: u64 = 20;
    /// The second in the high part, how many lines it has had in the low one.
    static LOGGED: AtomicU64 = AtomicU64::new(0);
    let second = outlive_holder::clock::boot_ms() / 1000;
    let next = |seen: u64| if seen >> 16 == second { seen + 1 } else { second << 16 | 1 };
    let full = |seen: u64| seen >> 16 == second && seen & 0xffff >= MOST_PER_SECOND;
    LOGGED.fetch_update(Relaxed, Relaxed, |seen| (!full(seen)).then(|| next(seen))).is_ok()
}

fn told(result: outlive_core::Result<()>) -> Reply {
    match result {
        Ok(()) => Reply::Nothing,
        Err(error) => Reply::Send(text(error_frame(error.code(), &error.to_string()))),
    }
}

fn text(frame: String) -> Message {
    Message::Text(frame.into())
}

fn error_frame(code: &str, message: &str) -> String {
    json!({ "type": "error", "code": code, "message": message }).to_string()
}

pub(super) fn exit_frame(exit: &Exit) -> String {
    let mut frame = json!({
        "type": "exit",
        "exitReason": ExitReason::from(exit.cause),
        "offset": exit.offset,
        "generation": exit.generation,
        "exitCode": null,
    });
    match exit.status {
        Ok(code) => frame["exitCode"] = code.into(),
        Err(number) => frame["signal"] = signal::name(i32::from(number)).into(),
    }
    frame.to_string()
}
