//! The language of `/pty`: binary frames whose first byte is a channel, JSON for everything else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use axum::extract::ws::Message;
use bytes::{BufMut, Bytes, BytesMut};
use outlive_core::log::{Cursor, Exit, Stream};
use serde_json::json;

use super::super::events::end::End;
use super::super::ids;
use super::control::{Hand, text};
use super::lease::Lease;
use crate::socket::{AfterGap, Frames, Reply, Speech, close};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// An offset of eight bytes comes before the bytes.
const REPLAY: u8 = 3;
pub(super) const REPLAY_HEAD: usize = 9;

pub(super) struct Channels {
    hand: Hand,
    /// Of the one who types.
    lease: Option<Lease>,
    is_terminal: bool,
    /// Of the next byte that is sent.
    offset: AtomicU64,
    /// Every frame says where it begins: for viewers, and for whoever has missed something and could not count on.
    says_offsets: AtomicBool,
}

impl Channels {
    pub(super) fn new(hand: Hand, lease: Option<Lease>, offset: u64) -> Self {
        let is_terminal = hand.process().is_terminal();
        let says_offsets = AtomicBool::new(hand.is_viewer());
        Self { hand, lease, is_terminal, offset: AtomicU64::new(offset), says_offsets }
    }

    fn has_lost_its_lease(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_lost)
    }
}

pub(super) fn replay_frame(offset: u64, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(REPLAY_HEAD + bytes.len());
    frame.put_u8(REPLAY);
    frame.put_u64(offset);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}

/// How a process ended, for all sockets of this dialect.
pub(super) fn exit_frames(exit: &Exit) -> Vec<Message> {
    let end = End::of(exit);
    let mut frame = json!({ "type": "exit", "exit_code": end.code() });
    if let Some(signal) = end.signal() {
        frame["signal"] = signal.into();
    }
    if end.timed_out {
        frame["timed_out"] = true.into();
    }
    vec![text(&frame), close(1000, "process exited")]
}

impl Speech for Channels {
    fn ready(&self, _: &Cursor) -> Option<Message> {
        Some(text(&json!({
            "type": "connected",
            "session_id": ids::of_terminal(self.hand.process()),
            "mode": if self.is_terminal { "pty" } else { "pipe" },
            "role": if self.hand.is_viewer() { "viewer" } else { "holder" },
        })))
    }

    fn bytes(&self, stream: Stream, bytes: Bytes) -> Frames {
        let offset = self.offset.fetch_add(bytes.len() as u64, Relaxed);
        if self.says_offsets.load(Relaxed) {
            return replay_frame(offset, &bytes).into();
        }
        let mut frame = BytesMut::with_capacity(1 + bytes.len());
        frame.put_u8(if stream == Stream::Stderr { STDERR } else { STDOUT });
        frame.extend_from_slice(&bytes);
        Message::Binary(frame.freeze()).into()
    }

    /// An empty replay where it goes on.
    fn gap(&self, _: u64, to: u64) -> AfterGap {
        self.offset.store(to, Relaxed);
        self.says_offsets.store(true, Relaxed);
        AfterGap::Say(replay_frame(to, b""))
    }

    fn exit(&self, exit: &Exit) -> Vec<Message> {
        exit_frames(exit)
    }

    fn deleted(&self) -> Message {
        close(1001, "it was deleted")
    }

    async fn understand(&self, message: Message) -> Reply {
        match message {
            Message::Close(_) => Reply::Close(close(1000, "")),
            _ if self.has_lost_its_lease() => Reply::Nothing,
            Message::Binary(frame) => match frame.split_first() {
                Some((&STDIN, bytes)) if !bytes.is_empty() => self.hand.type_in(bytes).await,
                _ => Reply::Nothing,
            },
            Message::Text(frame) => self.hand.obey(&frame).await,
            Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
        }
    }

    async fn dismissed(&self) -> Message {
        match &self.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
        close(4001, "TAKEN_OVER")
    }
}
