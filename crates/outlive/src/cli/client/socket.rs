//! One WebSocket to a process (`/connect`), as frames in both directions.
//!
//! ```text
//!   send ──queue──▶ task ──▶ server
//!   next ◀──────────────── server
//! ```
//!
//! Sending never blocks: a program that does not read its input must not keep the user from detaching.

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

use super::api::Client;
use super::endpoint::escape;
use crate::cli::error::{CliError, Result};
use crate::cli::exit::ExitStatus;
use crate::cli::terminal::Size;

/// The server pings every 20 s, so a connection that is silent for this long is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Input is split into frames of this size; the server accepts 64 KiB by default.
const INPUT_FRAME_BYTES: usize = 16 * 1024;

type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// Where the output starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStart {
    From(u64),
    Tail(u64),
    /// Only output printed after the connection is made.
    Now,
}

/// Options of a connection to a process.
#[derive(Clone, Debug)]
pub(crate) struct ConnectOptions {
    pub(crate) id: String,
    pub(crate) start: OutputStart,
    pub(crate) is_writer: bool,
    /// The program is paused, within bounds, while this client is slow to read.
    pub(crate) is_lossless: bool,
    pub(crate) size: Option<Size>,
}

impl ConnectOptions {
    fn path(&self) -> String {
        let role = if self.is_writer { "writer" } else { "viewer" };
        let flow = if self.is_lossless { "lossless" } else { "live" };
        let start = match self.start {
            OutputStart::From(offset) => format!("&from={offset}"),
            OutputStart::Tail(bytes) => format!("&tail={bytes}"),
            OutputStart::Now => String::new(),
        };
        let size = self.size.map_or(String::new(), |size| format!("&cols={}&rows={}", size.cols, size.rows));
        format!("/v1/processes/{}/connect?role={role}&flow={flow}&screen=false{start}{size}", escape(&self.id))
    }
}

/// First frame of a connection.
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
    /// Output. The first byte is the stream number if the process is on pipes.
    Bytes(Bytes),
    Gap {
        to: u64,
    },
    Exit(ExitStatus),
    Error {
        code: String,
        message: String,
    },
    Deleted,
    /// The connection ended; the process did not. Holds the reason.
    Lost(String),
    /// A frame that this client does not use.
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum TextFrame {
    Ready(Ready),
    Gap {
        to: u64,
    },
    Exit(ExitStatus),
    Error {
        code: String,
        message: String,
    },
    #[serde(other)]
    Other,
}

pub(crate) struct ProcessSocket {
    frames: SplitStream<WebSocket>,
    queue: mpsc::UnboundedSender<Message>,
    /// Bytes of input that are not sent yet.
    queued: Arc<AtomicUsize>,
    sender: JoinHandle<()>,
}

impl ProcessSocket {
    pub(crate) async fn open(client: &Client, options: &ConnectOptions) -> Result<Self> {
        let upgraded = client.upgrade(&options.path()).await?;
        let (sink, frames) = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await.split();
        let (queue, waiting) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let sender = tokio::spawn(send_all(sink, waiting, Arc::clone(&queued)));
        Ok(Self { frames, queue, queued, sender })
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Frame {
        match tokio::time::timeout(SILENCE_TIMEOUT, self.frames.next()).await {
            Err(_) => Frame::Lost("no message from the server for a minute".into()),
            Ok(None) => Frame::Lost("the connection was closed".into()),
            Ok(Some(Err(error))) => Frame::Lost(error.to_string()),
            Ok(Some(Ok(message))) => parse_message(message),
        }
    }

    pub(crate) fn send_input(&self, bytes: &[u8]) {
        for part in bytes.chunks(INPUT_FRAME_BYTES) {
            self.queued.fetch_add(part.len(), Relaxed);
            let _ = self.queue.send(Message::Binary(Bytes::copy_from_slice(part)));
        }
    }

    /// Bytes of input that are not sent yet because the program does not read.
    pub(crate) fn queued_input(&self) -> usize {
        self.queued.load(Relaxed)
    }

    pub(crate) fn resize(&self, size: Size) {
        self.send_text(&json!({ "type": "resize", "cols": size.cols, "rows": size.rows }));
    }

    pub(crate) fn acknowledge(&self, offset: u64) {
        self.send_text(&json!({ "type": "ack", "offset": offset }));
    }

    fn send_text(&self, frame: &Value) {
        let _ = self.queue.send(Message::text(frame.to_string()));
    }

    /// Ends the attachment, so that the server does not keep its lease for a reconnect.
    pub(crate) async fn close(self) {
        self.send_text(&json!({ "type": "close" }));
        let Self { mut frames, queue, mut sender, .. } = self;
        drop(queue);
        let handshake = async {
            let _ = (&mut sender).await;
            while let Some(Ok(message)) = frames.next().await {
                if message.is_close() {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, handshake).await;
        sender.abort();
    }
}

async fn send_all(
    mut sink: SplitSink<WebSocket, Message>,
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

pub(crate) fn parse_message(message: Message) -> Frame {
    match message {
        Message::Binary(bytes) => Frame::Bytes(bytes),
        Message::Text(text) => match serde_json::from_str(&text) {
            Ok(TextFrame::Ready(ready)) => Frame::Ready(ready),
            Ok(TextFrame::Gap { to }) => Frame::Gap { to },
            Ok(TextFrame::Exit(exit_status)) => Frame::Exit(exit_status),
            Ok(TextFrame::Error { code, message }) => Frame::Error { code, message },
            Ok(TextFrame::Other) | Err(_) => Frame::Other,
        },
        Message::Close(Some(CloseFrame { code, .. })) if u16::from(code) == 1001 => Frame::Deleted,
        Message::Close(Some(CloseFrame { code, reason })) => Frame::Lost(format!("{reason} ({code})")),
        Message::Close(None) => Frame::Lost("the connection was closed".into()),
        _ => Frame::Other,
    }
}

/// Total bytes of input that a process has received.
pub(crate) async fn fetch_input_offset(client: &Client, id: &str) -> Result<u64> {
    let options =
        ConnectOptions { id: id.into(), start: OutputStart::Now, is_writer: false, is_lossless: false, size: None };
    let mut socket = ProcessSocket::open(client, &options).await?;
    let offset = loop {
        match socket.next().await {
            Frame::Ready(ready) => break Ok(ready.input_offset),
            Frame::Lost(reason) => break Err(CliError::ConnectionLost { url: client.url(), reason }),
            Frame::Deleted => break Err(CliError::Local("the process was removed".into())),
            _ => {}
        }
    };
    socket.close().await;
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_parsed() {
        let frame = |text: &str| parse_message(Message::text(text));
        assert!(matches!(
            frame(r#"{"type":"ready","offset":7,"inputOffset":3,"role":"writer"}"#),
            Frame::Ready(Ready { offset: 7, input_offset: 3 })
        ));
        assert!(matches!(frame(r#"{"type":"gap","from":1,"to":9}"#), Frame::Gap { to: 9 }));
        assert!(matches!(frame(r#"{"type":"resized","cols":1,"rows":2}"#), Frame::Other));
        assert!(matches!(frame("nonsense"), Frame::Other));
        let Frame::Exit(exit_status) =
            frame(r#"{"type":"exit","exitCode":null,"exitSignal":"SIGKILL","exitReason":"killed"}"#)
        else {
            panic!("not an exit")
        };
        assert_eq!(exit_status.exit_code(), 137);
        let close = |code: u16| Message::Close(Some(CloseFrame { code: code.into(), reason: "x".into() }));
        assert!(matches!(parse_message(close(1001)), Frame::Deleted));
        assert!(matches!(parse_message(close(1012)), Frame::Lost(_)));
    }

    #[test]
    fn connect_options_become_a_query() {
        let options = ConnectOptions {
            id: "proc_1".into(),
            start: OutputStart::From(5),
            is_writer: true,
            is_lossless: true,
            size: Some(Size { cols: 80, rows: 24 }),
        };
        assert_eq!(
            options.path(),
            "/v1/processes/proc_1/connect?role=writer&flow=lossless&screen=false&from=5&cols=80&rows=24"
        );
    }
}
