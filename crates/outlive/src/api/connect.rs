//! The native WebSocket of a process: bytes in both directions, control frames in JSON. The frames are documented in
//! docs/reference/http-sockets.md.

use std::sync::Arc;

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

use super::process_path::find_current;
use crate::access::Grant;
use crate::http::extract::{self, Params, Path};
use crate::http::peer::Peer;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::{Encoding, SignalName, one_of, parse_flow};
use crate::http::{AppState, BudgetShare};
use crate::socket::{
    self, AfterGap, Frames, MAX_FRAME_BYTES, ProtocolErrors, SocketProtocol, WriterCommand, close_frame,
    record_malformed_frame, require_upgrade,
};

/// A smaller `window` is raised to this. It would cut output into tiny frames, and each would wait for an `ack`.
const MIN_SEND_WINDOW_BYTES: u64 = 4096;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ConnectQuery {
    /// First offset; default: the head of the log.
    from: Option<String>,
    /// Start this many bytes before the head.
    tail: Option<u64>,
    /// `writer` (default) or `viewer`.
    role: Option<String>,
    /// `lossless` (default for writers; needs the scope `write`) or `live` (default for viewers).
    flow: Option<String>,
    /// `raw` omits the stream byte of a process on pipes.
    framing: Option<String>,
    cols: Option<u16>,
    rows: Option<u16>,
    /// `true`: start with the current screen of the terminal (not together with `from` or `tail`). `false`: never send
    /// a screen. Default: send a screen only after a gap.
    screen: Option<bool>,
    /// Lines of scrollback above each screen, at most 1000.
    scrollback: Option<usize>,
    /// Send at most this many bytes beyond the last `ack`; default: no limit.
    window: Option<u64>,
}

/// Attach to a process.
#[utoipa::path(get, path = "/v1/processes/{id}/connect", params(("id" = String, Path), ConnectQuery), responses(
    (status = 101), (status = "4XX", body = Problem)))]
pub(super) async fn connect(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(query): Params<ConnectQuery>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HandlerResult<Response> {
    let process = find_current(&app, &grant, &id).await?;
    let upgrade = require_upgrade(upgrade, &headers)?;
    let role = one_of(query.role, "role", "writer, viewer", |text| match text {
        "writer" => Some(Role::Writer),
        "viewer" => Some(Role::Viewer),
        _ => None,
    })?;
    let role = grant.role_for(process.id(), role)?;
    let default_flow = if role == Role::Writer { Flow::Lossless } else { Flow::Live };
    let flow = grant.flow(parse_flow(query.flow)?, default_flow)?;
    let is_raw = one_of(query.framing, "framing", "raw", |text| (text == "raw").then_some(()))?.is_some();
    let start = parse_start(query.from.as_deref(), query.tail)?;
    let starts_with_screen = query.screen == Some(true);
    if starts_with_screen && start != Start::Head {
        let detail = "screen=true replaces all earlier output; leave out from and tail";
        return Err(Problem::bad_request("invalid_query", detail).with_field("screen"));
    }
    let log = process.wait_for_log().await?;
    let size = query.cols.zip(query.rows).map(|(cols, rows)| Size { cols, rows });
    // Attaching applies the client's size, so the screen below has the size that the client continues with.
    let attachment = process.attach(role, Some(peer.to_string()), size)?;
    let scrollback = query.scrollback.unwrap_or(0);
    let (screen, cursor) = if starts_with_screen {
        let (screen, cursor) = open_at_screen(&app, &process, &log, scrollback, flow).await?;
        (Some(screen), cursor)
    } else {
        (None, Cursor::open(&log, start, flow, StreamFilter::All)?)
    };
    app.metrics.count_attachment();
    let protocol = NativeProtocol {
        app: app.clone(),
        attachment,
        has_stream_byte: !process.is_terminal() && !is_raw,
        window: query.window.map(|bytes| bytes.max(MIN_SEND_WINDOW_BYTES)),
        scrollback: (query.screen != Some(false)).then_some(scrollback),
        errors: ProtocolErrors::default(),
    };
    let upgrade = socket::with_limits(upgrade, &app.limits);
    Ok(upgrade.on_upgrade(move |socket| socket::serve_with_screen(app, process, protocol, cursor, screen, socket)))
}

/// The current screen, and a cursor at the offset where the output continues after it. During a flood that offset may
/// be overwritten before the cursor is there; then a newer screen is tried.
async fn open_at_screen(
    app: &AppState,
    process: &Arc<Process>,
    log: &Arc<Log>,
    scrollback: usize,
    flow: Flow,
) -> HandlerResult<((Repaint, BudgetShare), Cursor)> {
    const MAX_ATTEMPTS: usize = 3;
    let mut attempts = 0;
    loop {
        let screen = process.repaint_or_approximate(scrollback).await?;
        attempts += 1;
        match Cursor::open(log, Start::At(screen.offset), flow, StreamFilter::All) {
            Ok(cursor) => {
                return if let Some(share) = app.send_budget.share(screen.bytes.len()) {
                    Ok(((screen, share), cursor))
                } else {
                    cursor.close();
                    Err(Problem::send_budget_exhausted())
                };
            }
            Err(_) if attempts < MAX_ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn parse_start(from: Option<&str>, tail: Option<u64>) -> HandlerResult<Start> {
    match (from, tail) {
        (Some(text), _) => text.parse().map(Start::At).map_err(|_| {
            Problem::bad_request("invalid_query", "invalid query: from must be an offset")
                .with_field("from")
                .with_expected("a byte offset", text)
        }),
        (None, Some(bytes)) => Ok(Start::LastBytes(bytes)),
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

struct NativeProtocol {
    app: AppState,
    attachment: Attachment,
    /// Binary frames start with the number of the stream.
    has_stream_byte: bool,
    window: Option<u64>,
    /// Scrollback lines of a repaint; `None` if the client accepts no repaints.
    scrollback: Option<usize>,
    errors: ProtocolErrors,
}

impl SocketProtocol for NativeProtocol {
    fn ready_frame(&self, cursor: &Cursor) -> Option<Message> {
        let info = self.process().info();
        let mut frame = json!({
            "type": "ready",
            "processId": info.id,
            "offset": cursor.offset(),
            // A client must not answer terminal queries that were printed before this offset.
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

    fn output_frames(&self, stream: Stream, bytes: Bytes) -> Frames {
        if !self.has_stream_byte {
            return Message::Binary(bytes).into();
        }
        let mut frame = BytesMut::with_capacity(bytes.len() + 1);
        frame.put_u8(stream as u8);
        frame.extend_from_slice(&bytes);
        Message::Binary(frame.freeze()).into()
    }

    fn gap_frames(&self, from: u64, to: u64) -> AfterGap {
        AfterGap::Continue(text(json!({ "type": "gap", "from": from, "to": to }).to_string()))
    }

    fn repaint_frames(&self, repaint: Repaint) -> Vec<Message> {
        let Repaint { offset, size, bytes, approximate } = repaint;
        let header = json!({
            "type": "repaint",
            "offset": offset,
            "cols": size.cols,
            "rows": size.rows,
            "bytes": bytes.len(),
            "approximate": approximate,
        });
        let mut bytes = Bytes::from(bytes);
        let mut frames = vec![text(header.to_string())];
        while !bytes.is_empty() {
            frames.push(Message::Binary(bytes.split_to(bytes.len().min(MAX_FRAME_BYTES))));
        }
        frames
    }

    fn scrollback_after_gap(&self) -> Option<usize> {
        self.scrollback
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn became_live_frame(&self) -> Option<Message> {
        let message = "this client has read too slowly for too long; from here on the program does not wait for it";
        Some(text(error_frame("became_live", message)))
    }

    fn resized_frame(&self, size: Option<Size>) -> Option<Message> {
        let Size { cols, rows } = size?;
        let policy = self.process().effective_size().1;
        Some(text(json!({ "type": "resized", "cols": cols, "rows": rows, "sizePolicy": policy }).to_string()))
    }

    fn exit_frames(&self, exit: &Exit) -> Vec<Message> {
        vec![text(exit_frame(exit)), close_frame(1000, "the process has exited")]
    }

    fn deleted_frame(&self) -> Message {
        close_frame(1001, "the process was deleted")
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        match message {
            Message::Binary(bytes) => self.on_input(&bytes).await,
            Message::Text(frame) => self.on_control_frame(&frame).await,
            Message::Close(_) => WriterCommand::Close(close_frame(1000, "")),
            Message::Ping(_) | Message::Pong(_) => WriterCommand::Nothing,
        }
    }
}

impl NativeProtocol {
    fn process(&self) -> &Arc<Process> {
        self.attachment.process()
    }

    fn reject_viewer(&self, message: &str) -> WriterCommand {
        self.errors.report(text(error_frame("read_only", message)))
    }

    async fn on_input(&self, bytes: &[u8]) -> WriterCommand {
        if self.attachment.role() == Role::Viewer {
            return self.reject_viewer("a viewer cannot send input");
        }
        let result = match self.app.check_input_size(bytes.len()) {
            Ok(()) => self.attachment.input(bytes).await,
            Err(error) => Err(error),
        };
        match error_reply(result) {
            // A client with a window that accepts repaints is a display, so a person has typed this.
            WriterCommand::Nothing if self.scrollback.is_some() && self.window.is_some() => WriterCommand::InputWritten,
            reply => reply,
        }
    }

    async fn on_control_frame(&self, frame: &str) -> WriterCommand {
        let frame: ClientFrame = match extract::parse(frame.as_bytes()) {
            Ok(frame) => frame,
            Err(problem) => {
                record_malformed_frame(&self.app, self.process(), &problem, frame);
                let message = format!("invalid frame: {}", problem.detail());
                return self.errors.report(text(error_frame("invalid_frame", &message)));
            }
        };
        match frame {
            ClientFrame::Input { data, encoding } => {
                let decoded = Encoding::parse(encoding.as_deref(), Encoding::Utf8);
                match decoded.and_then(|encoding| encoding.decode(&data)) {
                    Ok(bytes) => self.on_input(&bytes).await,
                    Err(problem) => self.errors.report(text(error_frame(problem.code(), problem.detail()))),
                }
            }
            ClientFrame::Resize { cols, rows } => {
                self.attachment.resize(Size { cols, rows });
                WriterCommand::Nothing
            }
            ClientFrame::Signal { signal } => self.on_signal(&signal).await,
            ClientFrame::Ack { offset } => WriterCommand::Acknowledge(offset),
            ClientFrame::Close => WriterCommand::Close(close_frame(1000, "")),
        }
    }

    async fn on_signal(&self, signal: &SignalName) -> WriterCommand {
        if self.attachment.role() == Role::Viewer {
            return self.reject_viewer("a viewer cannot send signals");
        }
        error_reply(match signal.number() {
            Ok(number) => self.process().signal(number).await,
            Err(error) => Err(error),
        })
    }
}

fn error_reply(result: outlive_core::Result<()>) -> WriterCommand {
    match result {
        Ok(()) => WriterCommand::Nothing,
        Err(error) => WriterCommand::Send(text(error_frame(error.code(), &error.to_string()))),
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
