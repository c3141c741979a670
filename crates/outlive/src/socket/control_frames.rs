//! The JSON control frames of OpenSandbox's terminal sockets, which one-step terminals share. Each protocol defines its
//! own binary frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use axum::extract::ws::Message;
use outlive_core::attach::{Attachment, Role, Size};
use outlive_core::log::{Cause, Exit};
use outlive_core::process::Process;
use outlive_core::{Error, signal};
use serde_json::{Value, json};

use super::{WriterCommand, close_frame};

/// Close the socket of a viewer at this many attempts to write.
const MAX_VIEWER_WRITES: u32 = 5;
/// Close the socket after this many protocol errors.
const MAX_PROTOCOL_ERRORS: u32 = 100;
/// SIGINT and SIGQUIT: a terminal sends them to its foreground process group (Ctrl-C, Ctrl-\).
const KEYBOARD_SIGNALS: [u8; 2] = [2, 3];

/// The code of an error frame without a code of its own.
pub(crate) const RUNTIME_ERROR: &str = "RUNTIME_ERROR";
const STDIN_WRITE_FAILED: &str = "STDIN_WRITE_FAILED";

pub(crate) fn text_frame(frame: &Value) -> Message {
    Message::Text(frame.to_string().into())
}

pub(crate) fn error_frame(code: &str, message: &str) -> Message {
    text_frame(&json!({ "type": "error", "code": code, "error": message }))
}

/// The last frames of a socket. As in OpenSandbox, the exit code of a signal is −1.
pub(crate) fn exit_frames(exit: &Exit) -> Vec<Message> {
    let mut frame = json!({ "type": "exit", "exit_code": exit.status.map_or(-1, i32::from) });
    if let Err(number) = exit.status {
        frame["signal"] = signal::name(i32::from(number)).into();
    }
    if exit.cause == Cause::TimedOut {
        frame["timed_out"] = true.into();
    }
    vec![text_frame(&frame), close_frame(1000, "process exited")]
}

/// One client that is attached to a process.
pub(crate) struct AttachedClient {
    attachment: Attachment,
    errors: AtomicU32,
}

#[derive(Debug, PartialEq, Eq)]
enum ControlFrame {
    Stdin(String),
    /// The end of stdin: an extension, since OpenSandbox has no frame for it.
    Eof,
    Resize(Size),
    Signal(u8),
    Ping,
    Ignored,
    Invalid(String),
}

impl AttachedClient {
    pub(crate) fn new(attachment: Attachment) -> Self {
        Self { attachment, errors: AtomicU32::new(0) }
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        self.attachment.process()
    }

    pub(crate) fn is_viewer(&self) -> bool {
        self.attachment.role() == Role::Viewer
    }

    pub(crate) async fn write_input(&self, bytes: &[u8]) -> WriterCommand {
        if self.is_viewer() {
            return self.reject_write();
        }
        let written = self.attachment.input(bytes).await;
        command_for(STDIN_WRITE_FAILED, written)
    }

    pub(crate) async fn on_control_frame(&self, frame: &str) -> WriterCommand {
        use ControlFrame::{Eof, Ignored, Invalid, Ping, Resize, Signal, Stdin};
        let frame = parse(frame);
        if self.is_viewer() && matches!(frame, Stdin(_) | Eof | Resize(_) | Signal(_)) {
            return self.reject_write();
        }
        match frame {
            Ignored => WriterCommand::Nothing,
            Ping => WriterCommand::Send(text_frame(&json!({ "type": "pong" }))),
            Stdin(data) => self.write_input(data.as_bytes()).await,
            Eof => command_for(STDIN_WRITE_FAILED, self.close_input().await),
            Resize(size) => {
                self.attachment.resize(size);
                WriterCommand::Nothing
            }
            Signal(number) => command_for(RUNTIME_ERROR, self.signal(number).await),
            Invalid(reason) => self.report_error(error_frame("INVALID_FRAME", &reason), MAX_PROTOCOL_ERRORS),
        }
    }

    async fn close_input(&self) -> Result<(), Error> {
        const END_OF_TRANSMISSION: &[u8] = b"\x04";
        if self.process().is_terminal() {
            return self.attachment.input(END_OF_TRANSMISSION).await;
        }
        self.process().close_input().await
    }

    /// Sends keyboard signals to the foreground process group of a terminal, all others to the whole tree.
    async fn signal(&self, number: u8) -> Result<(), Error> {
        let process = self.process();
        if KEYBOARD_SIGNALS.contains(&number) && process.is_terminal() {
            return process.signal_foreground(number).await;
        }
        process.signal(number).await
    }

    fn reject_write(&self) -> WriterCommand {
        self.report_error(error_frame("READ_ONLY", "a viewer cannot write"), MAX_VIEWER_WRITES - 1)
    }

    fn report_error(&self, error: Message, max: u32) -> WriterCommand {
        if self.errors.fetch_add(1, Relaxed) < max {
            return WriterCommand::Send(error);
        }
        WriterCommand::Close(close_frame(1008, "too many malformed or forbidden frames"))
    }
}

fn command_for(code: &str, result: Result<(), Error>) -> WriterCommand {
    match result {
        Ok(()) => WriterCommand::Nothing,
        Err(error) => WriterCommand::Send(error_frame(code, &error.to_string())),
    }
}

/// As in OpenSandbox, text that is not a JSON object, unknown signals and sizes without a value are ignored.
fn parse(frame: &str) -> ControlFrame {
    const SIGNALS: [&str; 5] = ["SIGINT", "SIGTERM", "SIGKILL", "SIGQUIT", "SIGHUP"];
    let Ok(Value::Object(frame)) = serde_json::from_str(frame) else { return ControlFrame::Ignored };
    let string = |name: &str| frame.get(name).and_then(Value::as_str);
    match string("type").unwrap_or("") {
        "stdin" => ControlFrame::Stdin(string("data").unwrap_or("").to_owned()),
        "eof" => ControlFrame::Eof,
        "ping" => ControlFrame::Ping,
        "signal" => match string("signal").filter(|name| SIGNALS.contains(name)).map(signal::parse) {
            Some(Ok(number)) => ControlFrame::Signal(number),
            _ => ControlFrame::Ignored,
        },
        "resize" => {
            let number = |name: &str| frame.get(name).and_then(Value::as_i64).unwrap_or(0);
            parse_size(number("cols"), number("rows"))
        }
        other => ControlFrame::Invalid(format!("unknown frame type {:?}", other.chars().take(64).collect::<String>())),
    }
}

fn parse_size(cols: i64, rows: i64) -> ControlFrame {
    if cols <= 0 || rows <= 0 {
        return ControlFrame::Ignored;
    }
    match (u16::try_from(cols), u16::try_from(rows)) {
        (Ok(cols), Ok(rows)) => ControlFrame::Resize(Size { cols, rows }),
        _ => ControlFrame::Invalid(format!("resize: expected 1 to 65535, got {cols} columns and {rows} rows")),
    }
}

#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(frame: &str) {
    let _ = parse(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_are_parsed_ignored_or_invalid() {
        assert_eq!(parse(r#"{"type":"stdin","data":"é"}"#), ControlFrame::Stdin("é".into()));
        assert_eq!(
            parse(r#"{"type":"resize","cols":90,"rows":30}"#),
            ControlFrame::Resize(Size { cols: 90, rows: 30 })
        );
        assert_eq!(parse(r#"{"type":"signal","signal":"SIGQUIT"}"#), ControlFrame::Signal(3));
        assert_eq!(parse(r#"{"type":"ping"}"#), ControlFrame::Ping);
        for ignored in [
            "no json",
            "[]",
            "7",
            r#"{"type":"signal","signal":"SIGSTOP"}"#,
            r#"{"type":"signal"}"#,
            r#"{"type":"resize","cols":90}"#,
            r#"{"type":"resize","cols":-1,"rows":3}"#,
        ] {
            assert_eq!(parse(ignored), ControlFrame::Ignored, "{ignored}");
        }
        for invalid in ["{}", r#"{"type":"dance"}"#, r#"{"type":"resize","cols":70000,"rows":3}"#] {
            assert!(matches!(parse(invalid), ControlFrame::Invalid(_)), "{invalid}");
        }
    }
}
