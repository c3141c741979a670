//! How much of what was sent has arrived, by the client's own answers to pings.

use axum::extract::ws::Message;
use bytes::Bytes;
use outlive_core::log::Cursor;

/// Pings in the midst of the output, whose answers tell how much has arrived: what is in flight when a connection
/// breaks is lost with it, and the client will come back for it. They spare clients acknowledgements of their own.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) at: u64,
    /// The client acknowledges by itself, and knows better.
    pub(super) needless: bool,
}

impl Asked {
    /// How often: so that what is not known to have arrived stays a small part of the ring.
    const PARTS: u64 = 8;

    pub(super) fn ping(&mut self, cursor: &Cursor) -> Option<Message> {
        let due = self.at + cursor.log().window() / Self::PARTS;
        if self.needless || !cursor.is_lossless() || cursor.offset() < due {
            return None;
        }
        self.at = cursor.offset();
        Some(Message::Ping(Bytes::copy_from_slice(&self.at.to_be_bytes())))
    }

    pub(super) fn offset_of(answer: &Message) -> Option<u64> {
        let Message::Pong(bytes) = answer else { return None };
        Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))
    }
}
