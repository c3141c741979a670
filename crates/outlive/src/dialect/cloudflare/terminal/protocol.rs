//! The socket protocol of terminals: binary frames are terminal bytes in both directions, text frames are JSON.

use std::time::{Duration, Instant};

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use outlive_core::attach::{Attachment, Size};
use outlive_core::log::{Cursor, Exit, Stream};
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::super::command::shell_code;
use crate::http::AppState;
use crate::socket::{AfterGap, Frames, SocketProtocol, WriterCommand, close_frame};

/// Input is written in pieces of this size.
const INPUT_PIECE_BYTES: usize = 16 * 1024;

pub(super) struct TerminalProtocol {
    attachment: Attachment,
}

impl TerminalProtocol {
    pub(super) fn new(attachment: Attachment) -> Self {
        Self { attachment }
    }

    async fn write_input(&self, bytes: &[u8]) -> WriterCommand {
        for piece in bytes.chunks(INPUT_PIECE_BYTES) {
            if let Err(error) = self.attachment.input(piece).await {
                return WriterCommand::Send(error_frame(&error.to_string()));
            }
        }
        WriterCommand::Nothing
    }

    fn control(&self, text: &str) -> WriterCommand {
        match parse_control(text) {
            Control::Resize(size) => self.attachment.resize(size),
            Control::Invalid(message) => return WriterCommand::Send(error_frame(message)),
            Control::Unknown => {}
        }
        WriterCommand::Nothing
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Control {
    Resize(Size),
    Invalid(&'static str),
    /// Perhaps a message of a newer client. It is ignored.
    Unknown,
}

fn parse_control(text: &str) -> Control {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Control::Invalid("Invalid control message") };
    match value["type"].as_str() {
        Some("resize") => {
            let dimension = |name: &str| {
                let number = value[name].as_u64().and_then(|number| u16::try_from(number).ok());
                number.filter(|number| *number > 0)
            };
            match (dimension("cols"), dimension("rows")) {
                (Some(cols), Some(rows)) => Control::Resize(Size { cols, rows }),
                _ => Control::Invalid("Invalid dimensions: cols and rows must be positive"),
            }
        }
        Some(_) => Control::Unknown,
        None => Control::Invalid("Invalid control message"),
    }
}

impl SocketProtocol for TerminalProtocol {
    fn ready_frame(&self, _: &Cursor) -> Option<Message> {
        Some(ready_frame())
    }

    fn output_frames(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    /// The protocol cannot express a gap. A client that reconnects gets the recent output.
    fn gap_frames(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output from {from} to {to} is gone: this client read too slowly");
        AfterGap::Close(vec![error_frame(&message), close_frame(1013, "too slow; connect again")])
    }

    fn exit_frames(&self, exit: &Exit) -> Vec<Message> {
        vec![exit_frame(exit), close_frame(1000, "the shell has exited")]
    }

    fn deleted_frame(&self) -> Message {
        close_frame(1000, "the terminal was deleted")
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        match message {
            Message::Binary(bytes) => self.write_input(&bytes).await,
            Message::Text(text) => self.control(&text),
            Message::Close(_) => WriterCommand::Close(Message::Close(None)),
            Message::Ping(_) | Message::Pong(_) => WriterCommand::Nothing,
        }
    }
}

/// Serves a client of a terminal whose shell has exited. It reports the exit and keeps the socket open, because
/// `SandboxAddon` reconnects after every close and would do so forever.
pub(super) async fn serve_exited(app: &AppState, process: &Process, exit: &Exit, mut socket: WebSocket) {
    let timeout = Duration::from_millis(app.limits.socket_timeout_ms);
    for frame in [ready_frame(), exit_frame(exit)] {
        if !send(&mut socket, frame, timeout).await {
            return;
        }
    }
    let mut ping = tokio::time::interval(timeout / 3);
    ping.reset();
    let mut last_received = Instant::now();
    loop {
        let reply = tokio::select! {
            message = socket.recv() => {
                last_received = Instant::now();
                match message {
                    Some(Ok(Message::Binary(_))) => Some(error_frame("the shell has exited")),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => None,
                }
            }
            _ = ping.tick() => {
                let is_alive = last_received.elapsed() < timeout;
                Some(if is_alive { Message::Ping(Bytes::new()) } else { Message::Close(None) })
            }
            () = process.wait_removed() => Some(close_frame(1000, "the terminal was deleted")),
            () = app.until_shutdown() => Some(close_frame(1012, "the server is being replaced; connect again")),
        };
        let Some(reply) = reply else { continue };
        let is_last = matches!(reply, Message::Close(_));
        if !send(&mut socket, reply, timeout).await || is_last {
            return;
        }
    }
}

/// Returns false if the client is gone or does not read.
async fn send(socket: &mut WebSocket, frame: Message, timeout: Duration) -> bool {
    matches!(tokio::time::timeout(timeout, socket.send(frame)).await, Ok(Ok(())))
}

fn ready_frame() -> Message {
    text_frame(json!({ "type": "ready" }))
}

fn exit_frame(exit: &Exit) -> Message {
    let mut frame = json!({ "type": "exit", "code": shell_code(exit) });
    if let Err(signal) = exit.status {
        frame["signal"] = outlive_core::signal::name(i32::from(signal)).into();
    }
    text_frame(frame)
}

fn error_frame(message: &str) -> Message {
    text_frame(json!({ "type": "error", "message": message }))
}

fn text_frame(frame: Value) -> Message {
    Message::Text(frame.to_string().into())
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(text: &str) {
    if let Control::Resize(size) = parse_control(text) {
        assert!(size.cols > 0 && size.rows > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resize_needs_a_valid_size() {
        let size = |cols, rows| Control::Resize(Size { cols, rows });
        assert_eq!(parse_control(r#"{"type":"resize","cols":100,"rows":30}"#), size(100, 30));
        for invalid in
            [r#"{"cols":0,"rows":1}"#, r#"{"cols":1,"rows":-1}"#, r#"{"cols":1}"#, r#"{"cols":70000,"rows":1}"#]
        {
            let control = parse_control(&invalid.replacen('{', r#"{"type":"resize","#, 1));
            assert!(matches!(control, Control::Invalid(message) if message.starts_with("Invalid dimensions")));
        }
    }

    #[test]
    fn unknown_control_messages_are_ignored() {
        assert_eq!(parse_control("nonsense"), Control::Invalid("Invalid control message"));
        assert_eq!(parse_control(r#"{"type":"of the future"}"#), Control::Unknown);
    }
}
