//! The frames that all sockets of this dialect understand, and what they do. What is raw or has a channel before it is for the sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use axum::extract::ws::Message;
use outlive_core::attach::{Attachment, Role, Size};
use outlive_core::process::Process;
use outlive_core::{Error, signal};
use serde_json::{Value, json};

use super::super::error::SocketError;
use crate::socket::{Reply, close};

/// A viewer who goes on typing is sent away at this many tries.
const MOST_VIOLATIONS: u32 = 5;
/// Who goes on after this many errors does not read them.
const MOST_ERRORS: u32 = 100;
/// INT and QUIT.
const KEYS: [u8; 2] = [2, 3];

pub(super) fn text(frame: &Value) -> Message {
    Message::Text(frame.to_string().into())
}

/// One client at a process.
pub(super) struct Hand {
    attachment: Attachment,
    errors: AtomicU32,
}

/// What a frame asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Stdin(String),
    /// The end of stdin, for which the original has no word.
    Eof,
    Resize(Size),
    Signal(u8),
    Ping,
    Nothing,
    Nonsense(String),
}

impl Hand {
    pub(super) fn new(attachment: Attachment) -> Self {
        Self { attachment, errors: AtomicU32::new(0) }
    }

    pub(super) fn process(&self) -> &Arc<Process> {
        self.attachment.process()
    }

    pub(super) fn is_viewer(&self) -> bool {
        self.attachment.role() == Role::Viewer
    }

    pub(super) async fn type_in(&self, bytes: &[u8]) -> Reply {
        if self.is_viewer() {
            return self.read_only();
        }
        let written = self.attachment.input(bytes).await;
        told(SocketError::StdinWriteFailed, written)
    }

    pub(super) async fn obey(&self, frame: &str) -> Reply {
        let wish = understand(frame);
        let changes = matches!(wish, Wish::Stdin(_) | Wish::Eof | Wish::Resize(_) | Wish::Signal(_));
        if changes && self.is_viewer() {
            return self.read_only();
        }
        match wish {
            Wish::Nothing => Reply::Nothing,
            Wish::Ping => Reply::Send(text(&json!({ "type": "pong" }))),
            Wish::Stdin(data) => self.type_in(data.as_bytes()).await,
            Wish::Eof => told(SocketError::StdinWriteFailed, self.end_input().await),
            Wish::Resize(size) => {
                self.attachment.resize(size);
                Reply::Nothing
            }
            Wish::Signal(number) => told(SocketError::Runtime, self.signal(number).await),
            Wish::Nonsense(why) => self.complain(SocketError::InvalidFrame.frame(&why), MOST_ERRORS),
        }
    }

    async fn end_input(&self) -> Result<(), Error> {
        const END_OF_TRANSMISSION: &[u8] = b"\x04";
        if self.process().is_terminal() {
            return self.attachment.input(END_OF_TRANSMISSION).await;
        }
        self.process().close_input().await
    }

    /// What a terminal has keys for goes to whoever is in its foreground, as by those keys; the rest is for the whole tree.
    async fn signal(&self, number: u8) -> Result<(), Error> {
        let process = self.process();
        if KEYS.contains(&number) && process.is_terminal() {
            return process.signal_foreground(number).await;
        }
        process.signal(number).await.map(drop)
    }

    fn read_only(&self) -> Reply {
        self.complain(SocketError::ReadOnly.frame("a viewer may only look"), MOST_VIOLATIONS - 1)
    }

    fn complain(&self, error: Message, most: u32) -> Reply {
        if self.errors.fetch_add(1, Relaxed) < most {
            return Reply::Send(error);
        }
        Reply::Close(close(1008, "too many frames that make no sense or are not allowed"))
    }
}

fn told(kind: SocketError, result: Result<(), Error>) -> Reply {
    match result {
        Ok(()) => Reply::Nothing,
        Err(why) => Reply::Send(kind.frame(&why.to_string())),
    }
}

/// What is no JSON object is ignored, as there; so are signals that it does not know and sizes that are none.
fn understand(frame: &str) -> Wish {
    const SIGNALS: [&str; 5] = ["SIGINT", "SIGTERM", "SIGKILL", "SIGQUIT", "SIGHUP"];
    let Ok(Value::Object(frame)) = serde_json::from_str(frame) else { return Wish::Nothing };
    let word = |name: &str| frame.get(name).and_then(Value::as_str);
    match word("type").unwrap_or("") {
        "stdin" => Wish::Stdin(word("data").unwrap_or("").to_owned()),
        "eof" => Wish::Eof,
        "ping" => Wish::Ping,
        "signal" => match word("signal").filter(|name| SIGNALS.contains(name)).map(signal::parse) {
            Some(Ok(number)) => Wish::Signal(number),
            _ => Wish::Nothing,
        },
        "resize" => {
            let number = |name: &str| frame.get(name).and_then(Value::as_i64).unwrap_or(0);
            match (number("cols"), number("rows")) {
                (cols, rows) if cols <= 0 || rows <= 0 => Wish::Nothing,
                (cols, rows) => match (u16::try_from(cols), u16::try_from(rows)) {
                    (Ok(cols), Ok(rows)) => Wish::Resize(Size { cols, rows }),
                    _ => Wish::Nonsense(format!("resize: expected 1 to 65535, got {cols} columns and {rows} rows")),
                },
            }
        }
        other => Wish::Nonsense(format!("unknown frame type {:?}", other.chars().take(64).collect::<String>())),
    }
}

#[cfg(any(fuzzing, test))]
pub(in super::super) fn fuzz(frame: &str) {
    let _ = understand(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_and_what_is_none() {
        assert_eq!(understand(r#"{"type":"stdin","data":"é"}"#), Wish::Stdin("é".into()));
        assert_eq!(understand(r#"{"type":"resize","cols":90,"rows":30}"#), Wish::Resize(Size { cols: 90, rows: 30 }));
        assert_eq!(understand(r#"{"type":"signal","signal":"SIGQUIT"}"#), Wish::Signal(3));
        assert_eq!(understand(r#"{"type":"ping"}"#), Wish::Ping);
        for ignored in [
            "no json",
            "[]",
            "7",
            r#"{"type":"signal","signal":"SIGSTOP"}"#,
            r#"{"type":"signal"}"#,
            r#"{"type":"resize","cols":90}"#,
            r#"{"type":"resize","cols":-1,"rows":3}"#,
        ] {
            assert_eq!(understand(ignored), Wish::Nothing, "{ignored}");
        }
        for nonsense in ["{}", r#"{"type":"dance"}"#, r#"{"type":"resize","cols":70000,"rows":3}"#] {
            assert!(matches!(understand(nonsense), Wish::Nonsense(_)), "{nonsense}");
        }
    }
}
