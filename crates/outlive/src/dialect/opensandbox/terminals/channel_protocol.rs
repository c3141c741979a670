//! The protocol of `/pty`: binary frames whose first byte is a channel, and JSON control frames.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use axum::extract::ws::Message;
use bytes::{BufMut, Bytes, BytesMut};
use outlive_core::log::{Cursor, Exit, Stream};
use serde_json::json;

use super::exclusive::ExclusiveAttach;
use crate::dialect::opensandbox::ids;
use crate::socket::control_frames::{AttachedClient, exit_frames, text_frame};
use crate::socket::{AfterGap, Frames, SocketProtocol, WriterCommand, close_frame};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// Output with its offset in eight bytes before it.
const REPLAY: u8 = 3;
pub(super) const REPLAY_HEADER_BYTES: usize = 9;

pub(super) struct ChannelProtocol {
    client: AttachedClient,
    /// `None` for viewers, and for sockets without exclusive attachment.
    exclusive: Option<ExclusiveAttach>,
    is_terminal: bool,
    /// Offset of the next byte to send.
    offset: AtomicU64,
    /// Send all output as replay frames, which carry their offset: to viewers, and after a gap, when the client can no
    /// longer count.
    with_offsets: AtomicBool,
}

impl ChannelProtocol {
    pub(super) fn new(client: AttachedClient, exclusive: Option<ExclusiveAttach>, offset: u64) -> Self {
        let is_terminal = client.process().is_terminal();
        let with_offsets = AtomicBool::new(client.is_viewer());
        Self { client, exclusive, is_terminal, offset: AtomicU64::new(offset), with_offsets }
    }

    fn is_taken_over(&self) -> bool {
        self.exclusive.as_ref().is_some_and(ExclusiveAttach::is_taken_over)
    }
}

pub(super) fn replay_frame(offset: u64, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(REPLAY_HEADER_BYTES + bytes.len());
    frame.put_u8(REPLAY);
    frame.put_u64(offset);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}

impl SocketProtocol for ChannelProtocol {
    fn ready_frame(&self, _: &Cursor) -> Option<Message> {
        Some(text_frame(&json!({
            "type": "connected",
            "session_id": ids::terminal_id(self.client.process()),
            "mode": if self.is_terminal { "pty" } else { "pipe" },
            "role": if self.client.is_viewer() { "viewer" } else { "holder" },
        })))
    }

    fn output_frames(&self, stream: Stream, bytes: Bytes) -> Frames {
        let offset = self.offset.fetch_add(bytes.len() as u64, Relaxed);
        if self.with_offsets.load(Relaxed) {
            return replay_frame(offset, &bytes).into();
        }
        let mut frame = BytesMut::with_capacity(1 + bytes.len());
        frame.put_u8(if stream == Stream::Stderr { STDERR } else { STDOUT });
        frame.extend_from_slice(&bytes);
        Message::Binary(frame.freeze()).into()
    }

    /// An empty replay frame tells the offset at which output continues.
    fn gap_frames(&self, _: u64, to: u64) -> AfterGap {
        self.offset.store(to, Relaxed);
        self.with_offsets.store(true, Relaxed);
        AfterGap::Continue(replay_frame(to, b""))
    }

    fn exit_frames(&self, exit: &Exit) -> Vec<Message> {
        exit_frames(exit)
    }

    fn deleted_frame(&self) -> Message {
        close_frame(1001, "deleted")
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        match message {
            Message::Close(_) => WriterCommand::Close(close_frame(1000, "")),
            _ if self.is_taken_over() => WriterCommand::Nothing,
            Message::Binary(frame) => match frame.split_first() {
                Some((&STDIN, bytes)) if !bytes.is_empty() => self.client.write_input(bytes).await,
                _ => WriterCommand::Nothing,
            },
            Message::Text(frame) => self.client.on_control_frame(&frame).await,
            Message::Ping(_) | Message::Pong(_) => WriterCommand::Nothing,
        }
    }

    async fn until_evicted(&self) -> Message {
        match &self.exclusive {
            Some(exclusive) => exclusive.until_taken_over().await,
            None => std::future::pending().await,
        }
        close_frame(4001, "TAKEN_OVER")
    }
}
