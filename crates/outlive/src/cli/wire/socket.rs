//! One WebSocket to a process (`/connect`), as frames in both directions.
//!
//! ```text
//!   send ──queue──▶ task ──▶ server       never waits: a program that does not read its input must not
//!   next ◀──────────────── server         keep the user from detaching
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::client::Client;
use super::endpoint::escape;
use crate::cli::exit::Ending;
use crate::cli::failure::{Failure, Result};
use crate::cli::terminal::Size;

/// The server pings every 20 s; after this long without a sign the line is dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// How long a farewell may take.
const CLOSE_WITHIN: Duration = Duration::from_millis(500);
/// Input is cut into frames of this size; the server takes 64 KiB by default.
const INPUT_BYTES: usize = 16 * 1024;

type Raw = WebSocketStream<TokioIo<Upgraded>>;

/// Where the output begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    From(u64),
    Tail(u64),
    /// From now on.
    Now,
}

/// How to connect.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) id: String,
    pub(crate) start: Start,
    pub(crate) is_writer: bool,
    /// The program waits for us, within bounds.
    pub(crate) is_lossless: bool,
    pub(crate) size: Option<Size>,
}

impl Wish {
    fn path(&self) -> String {
        let role = if self.is_writer { "writer" } else { "viewer" };
        let flow = if self.is_lossless { "lossless" } else { "live" };
        let start = match self.start {
            Start::From(offset) => format!("&from={offset}"),
            Start::Tail(bytes) => format!("&tail={bytes}"),
            Start::Now => String::new(),
        };
        let size = self.size.map_or(String::new(), |size| format!("&cols={}&rows={}", size.cols, size.rows));
        format!("/v1/processes/{}/connect?role={role}&flow={flow}&screen=false{start}{size}", escape(&self.id))
    }
}

/// The first frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready {
    pub(crate) offset: u64,
    #[serde(default)]
    pub(crate) input_offset: u64,
}

#[derive(Debug)]
pub(crate) enum Frame {
    Ready(Ready),
    /// As they came: with the stream's number in front if the process is on pipes.
    Bytes(Bytes),
    Gap {
        to: u64,
    },
    Exit(Ending),
    Error {
        code: String,
        message: String,
    },
    Deleted,
    /// The connection is over; the process is not.
    Lost(String),
    /// Nothing that we need.
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Text {
    Ready(Ready),
    Gap {
        to: u64,
    },
    Exit(Ending),
    Error {
        code: String,
        message: String,
    },
    #[serde(other)]
    Other,
}

pub(crate) struct Socket {
    frames: SplitStream<Raw>,
    queue: mpsc::UnboundedSender<Message>,
    /// Bytes of input that have not left yet.
    queued: Arc<AtomicUsize>,
    sender: JoinHandle<()>,
}

impl Socket {
    pub(crate) async fn open(client: &Client, wish: &Wish) -> Result<Self> {
        let upgraded = client.upgrade(&wish.path()).await?;
        let (sink, frames) = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await.split();
        let (queue, waiting) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let sender = tokio::spawn(send_all(sink, waiting, Arc::clone(&queued)));
        Ok(Self { frames, queue, queued, sender })
    }

    /// The next frame. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Frame {
        match tokio::time::timeout(DEAD_AFTER, self.frames.next()).await {
            Err(_) => Frame::Lost("nothing was heard from the server for a minute".into()),
            Ok(None) => Frame::Lost("the connection was closed".into()),
            Ok(Some(Err(error))) => Frame::Lost(error.to_string()),
            Ok(Some(Ok(message))) => understand(message),
        }
    }

    pub(crate) fn input(&self, bytes: &[u8]) {
        for part in bytes.chunks(INPUT_BYTES) {
            self.queued.fetch_add(part.len(), Relaxed);
            let _ = self.queue.send(Message::Binary(Bytes::copy_from_slice(part)));
        }
    }

    /// Bytes of input that wait, because the program does not read.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    pub(crate) fn resize(&self, size: Size) {
        self.tell(&json!({ "type": "resize", "cols": size.cols, "rows": size.rows }));
    }

    pub(crate) fn acknowledge(&self, offset: u64) {
        self.tell(&json!({ "type": "ack", "offset": offset }));
    }

    fn tell(&self, frame: &Value) {
        let _ = self.queue.send(Message::text(frame.to_string()));
    }

    /// Says that we will not come back, so that nothing waits for us.
    pub(crate) async fn close(self) {
        self.tell(&json!({ "type": "close" }));
        let Self { mut frames, queue, mut sender, .. } = self;
        drop(queue);
        let farewell = async {
            let _ = (&mut sender).await;
            while let Some(Ok(message)) = frames.next().await {
                if message.is_close() {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, farewell).await;
        sender.abort();
    }
}

async fn send_all(
    mut sink: SplitSink<Raw, Message>,
    mut waiting: mpsc::UnboundedReceiver<Message>,
    queued: Arc<AtomicUsize>,
) {
    while let Some(message) = waiting.recv().await {
        let input = if let Message::Binary(bytes) = &message { bytes.len() } else { 0 };
        let sent = sink.send(message).await;
        queued.fetch_sub(input, Relaxed);
        if sent.is_err() {
            return;
        }
    }
}

pub(crate) fn understand(message: Message) -> Frame {
    match message {
        Message::Binary(bytes) => Frame::Bytes(bytes),
        Message::Text(text) => match serde_json::from_str(&text) {
            Ok(Text::Ready(ready)) => Frame::Ready(ready),
            Ok(Text::Gap { to }) => Frame::Gap { to },
            Ok(Text::Exit(ending)) => Frame::Exit(ending),
            Ok(Text::Error { code, message }) => Frame::Error { code, message },
            Ok(Text::Other) | Err(_) => Frame::Other,
        },
        Message::Close(Some(CloseFrame { code, .. })) if u16::from(code) == 1001 => Frame::Deleted,
        Message::Close(Some(CloseFrame { code, reason })) => Frame::Lost(format!("{reason} ({code})")),
        Message::Close(None) => Frame::Lost("the connection was closed".into()),
        _ => Frame::Other,
    }
}

/// How many bytes of input a process has been given in its life.
pub(crate) async fn input_offset(client: &Client, id: &str) -> Result<u64> {
    let wish = Wish { id: id.into(), start: Start::Now, is_writer: false, is_lossless: false, size: None };
    let mut socket = Socket::open(client, &wish).await?;
    let found = loop {
        match socket.next().await {
            Frame::Ready(ready) => break Ok(ready.input_offset),
            Frame::Lost(why) => {
                break Err(Failure::Lost { url: client.url(), why });
            }
            Frame::Deleted => break Err(Failure::Here("the process was removed".into())),
            _ => {}
        }
    };
    socket.close().await;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_understood() {
        let frame = |text: &str| understand(Message::text(text));
        assert!(matches!(
            frame(r#"{"type":"ready","offset":7,"inputOffset":3,"role":"writer"}"#),
            Frame::Ready(Ready { offset: 7, input_offset: 3 })
        ));
        assert!(matches!(frame(r#"{"type":"gap","from":1,"to":9}"#), Frame::Gap { to: 9 }));
        assert!(matches!(frame(r#"{"type":"resized","cols":1,"rows":2}"#), Frame::Other));
        assert!(matches!(frame("nonsense"), Frame::Other));
        let Frame::Exit(ending) =
            frame(r#"{"type":"exit","exitCode":null,"exitSignal":"SIGKILL","exitReason":"killed"}"#)
        else {
            panic!("not an exit")
        };
        assert_eq!(ending.exit_code(), 137);
        let close = |code: u16| Message::Close(Some(CloseFrame { code: code.into(), reason: "x".into() }));
        assert!(matches!(understand(close(1001)), Frame::Deleted));
        assert!(matches!(understand(close(1012)), Frame::Lost(_)));
    }

    #[test]
    fn paths() {
        let wish = Wish {
            id: "proc_1".into(),
            start: Start::From(5),
            is_writer: true,
            is_lossless: true,
            size: Some(Size { cols: 80, rows: 24 }),
        };
        assert_eq!(
            wish.path(),
            "/v1/processes/proc_1/connect?role=writer&flow=lossless&screen=false&from=5&cols=80&rows=24"
        );
    }
}
