//! The engine behind every socket to a process, on a terminal or on pipes, for all client protocols.
//!
//! ```text
//!   log ──Cursor──▶ writer ──▶ client     `SocketProtocol` turns output into frames …
//!                     ▲ WriterCommand
//!   process ◀── reader ◀────── client     … and messages into calls
//! ```
//!
//! The two halves run concurrently, so that a client which does not read can still type, and can be closed. The reading
//! half passes commands to the writing half through a short queue. Nothing else is buffered: the writing half pulls
//! from the log when the client takes more.

pub(crate) mod control_frames;
pub(crate) mod direct_terminal;
mod writer;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use outlive_core::attach::Size;
use outlive_core::log::{Cursor, Exit, Stream};
use outlive_core::process::Process;
use outlive_core::screen::Repaint;
use tokio::sync::mpsc;

use self::writer::{ConnectionEnd, PingProbe, SendWindow, Writer};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::{AppState, BudgetShare};
use crate::settings::ServerLimits;

/// Largest frame that is sent, because clients have small limits. One byte is left for the stream number.
pub(crate) const MAX_FRAME_BYTES: usize = 64 * 1024 - 1;
/// How long the writing half has to send the close frame of an evicted client. Shorter than its `CLOSE_TIMEOUT`:
/// another client has taken over, so this attachment with its size and lease should end soon.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(200);
/// Commands that may wait for a client which does not read.
const MAX_QUEUED_COMMANDS: usize = 64;

/// A client protocol. One value serves one socket.
pub(crate) trait SocketProtocol: Send + Sync {
    /// The first frame, before any output.
    fn ready_frame(&self, cursor: &Cursor) -> Option<Message>;
    fn output_frames(&self, stream: Stream, bytes: Bytes) -> Frames;
    fn gap_frames(&self, from: u64, to: u64) -> AfterGap;
    /// The frames that redraw a terminal before the log continues; empty if the protocol has none.
    fn repaint_frames(&self, repaint: Repaint) -> Vec<Message> {
        let _ = repaint;
        Vec::new()
    }
    /// Scrollback lines of the repaint that follows a gap; `None` if the client gets no repaint.
    fn scrollback_after_gap(&self) -> Option<usize> {
        None
    }
    /// How many bytes may be sent beyond the client's last acknowledgement; `None` for no limit.
    fn window(&self) -> Option<u64> {
        None
    }
    /// The client reads too slowly, and from here on the program does not wait for it.
    fn became_live_frame(&self) -> Option<Message> {
        None
    }
    fn resized_frame(&self, size: Option<Size>) -> Option<Message> {
        let _ = size;
        None
    }
    /// The last frames after the exit; the close frame comes last.
    fn exit_frames(&self, exit: &Exit) -> Vec<Message>;
    /// The close frame after the process was deleted.
    fn deleted_frame(&self) -> Message;
    fn on_message(&self, message: Message) -> impl Future<Output = WriterCommand> + Send;
    /// Resolves with a close frame when this client alone is disconnected. The engine gives the frame a short time to be
    /// sent. Two tasks may wait for it at once.
    fn until_evicted(&self) -> impl Future<Output = Message> + Send {
        std::future::pending()
    }
}

/// What the writing half does after a message of the client.
pub(crate) enum WriterCommand {
    Nothing,
    Send(Message),
    /// The client has received everything before this offset.
    Acknowledge(u64),
    /// The client has answered the ping that was sent at this offset.
    Pong(u64),
    /// Input was written on behalf of a person who waits for its effect. If the client is far behind, its screen may
    /// skip older output.
    InputWritten,
    /// The client wants to end the connection in an orderly way.
    Close(Message),
}

/// Output as frames.
pub(crate) enum Frames {
    One(Message),
    /// May be empty: a protocol of whole characters waits for the rest of a character.
    Several(Vec<Message>),
}

impl From<Message> for Frames {
    fn from(frame: Message) -> Self {
        Self::One(frame)
    }
}

/// What happens after a gap in the output.
pub(crate) enum AfterGap {
    /// The protocol can express a gap.
    Continue(Message),
    /// The protocol cannot express a gap: send these frames and close.
    Close(Vec<Message>),
}

/// The upgrade to a WebSocket, or an error that says what the request lacks.
pub(crate) fn require_upgrade(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    headers: &HeaderMap,
) -> HandlerResult<WebSocketUpgrade> {
    upgrade.map_err(|_| {
        let got = match headers.get("upgrade").and_then(|value| value.to_str().ok()) {
            Some(other) => format!("upgrade: {other}"),
            None => "no upgrade header".to_owned(),
        };
        Problem::bad_request("expected_websocket", format!("expected upgrade: websocket, got {got}"))
            .with_expected("upgrade: websocket", got)
    })
}

/// Limits the size of the client's messages to `maxMessageBytes`.
pub(crate) fn with_limits(upgrade: WebSocketUpgrade, limits: &ServerLimits) -> WebSocketUpgrade {
    // Most messages are a keystroke, and the buffer is cleared for every read.
    const READ_BUFFER_BYTES: usize = 4096;
    let max = usize::try_from(limits.max_message_bytes).unwrap_or(usize::MAX);
    upgrade.read_buffer_size(READ_BUFFER_BYTES).max_message_size(max).max_frame_size(max)
}

pub(crate) fn close_frame(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: reason.into() }))
}

/// Serves one client until the client, the process or this server ends.
pub(crate) async fn serve<P: SocketProtocol>(
    app: AppState,
    process: Arc<Process>,
    protocol: P,
    cursor: Cursor,
    socket: WebSocket,
) {
    serve_with_screen(app, process, protocol, cursor, None, socket).await;
}

/// Like [`serve`], but sends a screen before the output. The cursor stands at the offset of that screen.
pub(crate) async fn serve_with_screen<P: SocketProtocol>(
    app: AppState,
    process: Arc<Process>,
    protocol: P,
    mut cursor: Cursor,
    screen: Option<(Repaint, BudgetShare)>,
    socket: WebSocket,
) {
    let (sink, mut stream) = socket.split();
    let (sender, commands) = mpsc::channel(MAX_QUEUED_COMMANDS);
    let idle_timeout = Duration::from_millis(app.limits.socket_timeout_ms);
    let window = SendWindow { bytes: protocol.window(), acknowledged: cursor.offset() };
    let probe = PingProbe::default();
    let mut writer = Writer { app: &app, process: &process, protocol: &protocol, sink, commands, probe, window };
    let close_requested = AtomicBool::new(false);
    let ended = tokio::select! {
        ended = writer.run(&mut cursor, screen) => Some(ended),
        () = read_messages(&protocol, &mut stream, sender, idle_timeout, &close_requested) => None,
        () = evict(&protocol) => return cursor.close(),
    };
    // During a flood, the writing half may find the connection closed before it gets the client's request to close.
    if matches!(ended, Some(ConnectionEnd::Complete)) || close_requested.load(Relaxed) {
        cursor.close();
    } else {
        drop(cursor);
    }
    // The protocol is dropped now: its attachment ends here, not after the wait below. The writer borrows the protocol,
    // and only its sink must live on, because dropping the sink would close the connection.
    let Writer { sink: _sink, .. } = writer;
    drop(protocol);
    if ended.is_some() {
        // Closing a socket with unread bytes resets the connection, and discards what the client has not read yet.
        let discard = async { while let Some(Ok(_)) = stream.next().await {} };
        let _ = tokio::time::timeout(idle_timeout, discard).await;
    }
}

/// Bounds an eviction. The writing half waits for it too, and sends the close frame; but that half may be blocked by a
/// client that does not read, and then the connection ends without the frame.
async fn evict<P: SocketProtocol>(protocol: &P) {
    protocol.until_evicted().await;
    tokio::time::sleep(EVICTION_TIMEOUT).await;
}

/// The reading half: passes messages to the protocol until the client is gone or silent for too long.
async fn read_messages<P: SocketProtocol>(
    protocol: &P,
    stream: &mut SplitStream<WebSocket>,
    sender: mpsc::Sender<WriterCommand>,
    idle_timeout: Duration,
    close_requested: &AtomicBool,
) {
    let mut last_message = Instant::now();
    loop {
        let remaining = idle_timeout.saturating_sub(last_message.elapsed());
        let message = match tokio::time::timeout(remaining, stream.next()).await {
            Ok(Some(Err(error))) if is_too_large(&error) => None,
            Ok(Some(Ok(message))) => Some(message),
            _ => return,
        };
        last_message = Instant::now();
        let command = match message {
            None => WriterCommand::Close(close_frame(1009, "the message is too large")),
            Some(message) => match PingProbe::parse_pong(&message) {
                Some(offset) => WriterCommand::Pong(offset),
                None => protocol.on_message(message).await,
            },
        };
        match command {
            WriterCommand::Nothing => {}
            // If the queue is full, a client that does not read loses error frames instead of costing memory; and a
            // later pong or keystroke supersedes this one.
            WriterCommand::Send(_) | WriterCommand::Pong(_) | WriterCommand::InputWritten => {
                drop(sender.try_send(command));
            }
            WriterCommand::Acknowledge(_) => {
                if sender.send(command).await.is_err() {
                    return;
                }
            }
            WriterCommand::Close(_) => {
                close_requested.store(true, Relaxed);
                if sender.send(command).await.is_ok() {
                    // The writing half ends the connection.
                    sender.closed().await;
                }
                return;
            }
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    use tokio_tungstenite::tungstenite::Error;
    let inner = std::error::Error::source(error).and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(Error::Capacity(_)))
}

/// Close the socket after this many protocol errors.
const MAX_PROTOCOL_ERRORS: u32 = 100;

/// Counts the protocol errors of one client, so that a client which ignores them does not get them forever.
#[derive(Default)]
pub(crate) struct ProtocolErrors(AtomicU32);

impl ProtocolErrors {
    /// Sends the error, or closes the socket after too many.
    pub(crate) fn report(&self, error: Message) -> WriterCommand {
        if self.0.fetch_add(1, Relaxed) < MAX_PROTOCOL_ERRORS {
            return WriterCommand::Send(error);
        }
        WriterCommand::Close(close_frame(1008, "too many malformed or forbidden frames"))
    }
}

/// Counts and logs a malformed frame.
pub(crate) fn record_malformed_frame(app: &AppState, process: &Process, problem: &Problem, frame: &str) {
    app.metrics.count_malformed_frame();
    if !may_log() {
        return;
    }
    let start: String = frame.chars().take(64).flat_map(char::escape_default).collect();
    tracing::warn!(process = process.id(), kind = problem.code(), start, "malformed control frame");
}

/// Limits the log lines per second: a flood of them would push the audit log out of its queue.
fn may_log() -> bool {
    const MAX_LINES_PER_SECOND: u64 = 20;
    /// The second in the high bits, the lines of that second in the low 16.
    static LOGGED: AtomicU64 = AtomicU64::new(0);
    let second = outlive_holder::clock::boot_ms() / 1000;
    let next = |seen: u64| if seen >> 16 == second { seen + 1 } else { second << 16 | 1 };
    let full = |seen: u64| seen >> 16 == second && seen & 0xffff >= MAX_LINES_PER_SECOND;
    LOGGED.fetch_update(Relaxed, Relaxed, |seen| (!full(seen)).then(|| next(seen))).is_ok()
}
