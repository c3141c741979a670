//! What is said on a terminal's socket: bytes are bytes, and text is JSON about them.

use axum::extract::ws::Message;
use bytes::Bytes;
use outlive_core::attach::{Attachment, Size};
use outlive_core::log::{Cursor, Exit, Stream};
use serde_json::{Value, json};

use super::super::command::code;
use crate::socket::{AfterGap, Frames, Reply, Speech, close};

/// Input is passed on in pieces of this size.
const INPUT_BYTES: usize = 16 * 1024;

pub(super) struct Terminal {
    attachment: Attachment,
}

impl Terminal {
    pub(super) fn new(attachment: Attachment) -> Self {
        Self { attachment }
    }

    async fn input(&self, bytes: &[u8]) -> Reply {
        for piece in bytes.chunks(INPUT_BYTES) {
            if let Err(failed) = self.attachment.input(piece).await {
                return Reply::Send(error(&failed.to_string()));
            }
        }
        Reply::Nothing
    }

    fn control(&self, text: &str) -> Reply {
        match understood(text) {
            Control::Resize(size) => self.attachment.resize(size),
            Control::Wrong(message) => return Reply::Send(error(message)),
            Control::Unknown => {}
        }
        Reply::Nothing
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Control {
    Resize(Size),
    Wrong(&'static str),
    /// Something that a newer client may say.
    Unknown,
}

fn understood(text: &str) -> Control {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Control::Wrong("Invalid control message") };
    match value["type"].as_str() {
        Some("resize") => {
            let number = |name: &str| {
                let number = value[name].as_u64().and_then(|number| u16::try_from(number).ok());
                number.filter(|number| *number > 0)
            };
            match (number("cols"), number("rows")) {
                (Some(cols), Some(rows)) => Control::Resize(Size { cols, rows }),
                _ => Control::Wrong("Invalid dimensions: cols and rows must be positive"),
            }
        }
        Some(_) => Control::Unknown,
        None => Control::Wrong("Invalid control message"),
    }
}

impl Speech for Terminal {
    fn ready(&self, _: &Cursor) -> Option<Message> {
        Some(ready())
    }

    fn bytes(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    /// The language has no word for it. Who comes again gets what is kept.
    fn gap(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output from {from} to {to} is gone: this client read too slowly");
        AfterGap::End(vec![error(&message), close(1013, "too slow; connect again")])
    }

    fn exit(&self, exit: &Exit) -> Vec<Message> {
        vec![super::speech::exit(exit), close(1000, "the shell has ended")]
    }

    fn deleted(&self) -> Message {
        close(1000, "the terminal was deleted")
    }

    async fn understand(&self, message: Message) -> Reply {
        match message {
            Message::Binary(bytes) => self.input(&bytes).await,
            Message::Text(text) => self.control(&text),
            Message::Close(_) => Reply::Close(Message::Close(None)),
            Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
        }
    }
}

pub(super) fn ready() -> Message {
    text(json!({ "type": "ready" }))
}

pub(super) fn exit(exit: &Exit) -> Message {
    let mut frame = json!({ "type": "exit", "code": code(exit) });
    if let Err(signal) = exit.status {
        frame["signal"] = outlive_core::signal::name(i32::from(signal)).into();
    }
    text(frame)
}

pub(super) fn error(message: &str) -> Message {
    text(json!({ "type": "error", "message": message }))
}

fn text(frame: Value) -> Message {
    Message::Text(frame.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sizes_that_a_terminal_can_have() {
        let size = |cols, rows| Control::Resize(Size { cols, rows });
        assert_eq!(understood(r#"{"type":"resize","cols":100,"rows":30}"#), size(100, 30));
        for wrong in
            [r#"{"cols":0,"rows":1}"#, r#"{"cols":1,"rows":-1}"#, r#"{"cols":1}"#, r#"{"cols":70000,"rows":1}"#]
        {
            let text = wrong.replacen('{', r#"{"type":"resize","#, 1);
            assert!(matches!(understood(&text), Control::Wrong(message) if message.starts_with("Invalid dimensions")));
        }
        assert_eq!(understood("nonsense"), Control::Wrong("Invalid control message"));
        assert_eq!(understood(r#"{"type":"of the future"}"#), Control::Unknown);
    }
}
