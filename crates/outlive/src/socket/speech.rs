//! What a client's language has to be able to say and to understand.

use std::future::Future;

use axum::extract::ws::Message;
use bytes::Bytes;
use outlive_core::attach::Size;
use outlive_core::log::{Cursor, Exit, Stream};
use outlive_core::screen::Repaint;

/// What the reading half wants of the writing half.
pub(crate) enum Reply {
    Nothing,
    Send(Message),
    /// The client says that it has everything before this offset.
    Acknowledge(u64),
    /// It has answered a ping that was sent after everything before this offset.
    Answered(u64),
    /// Somebody has typed, and waits to see what comes of it: what was printed before that is worth less than what comes now.
    Typed,
    /// The client wants to end in an orderly way.
    Close(Message),
}

/// What output becomes in a client's language.
pub(crate) enum Frames {
    One(Message),
    /// Also none: where a language has whole characters, the rest of one may have to come first.
    Several(Vec<Message>),
}

impl From<Message> for Frames {
    fn from(frame: Message) -> Self {
        Self::One(frame)
    }
}

/// What follows a gap.
pub(crate) enum AfterGap {
    Say(Message),
    /// The client's language has no word for it: say what it can, and end.
    End(Vec<Message>),
}

/// A client's language.
pub(crate) trait Speech: Send + Sync {
    fn ready(&self, cursor: &Cursor) -> Option<Message>;
    fn bytes(&self, stream: Stream, bytes: Bytes) -> Frames;
    fn gap(&self, from: u64, to: u64) -> AfterGap;
    /// What is sent of a terminal that was drawn anew, before the log goes on; empty: this language has no words for it.
    fn repaint(&self, repaint: Repaint) -> Vec<Message> {
        let _ = repaint;
        Vec::new()
    }
    /// The lines above the screen that a terminal is drawn anew with after a gap; `None`: it is not.
    fn repaints_after_gap(&self) -> Option<usize> {
        None
    }
    /// How many bytes may be under way that the client has not acknowledged; `None`: as many as its connection takes.
    fn window(&self) -> Option<u64> {
        None
    }
    /// It reads too slowly: from here on the program does not wait.
    fn became_live(&self) -> Option<Message> {
        None
    }
    fn resized(&self, size: Option<Size>) -> Option<Message> {
        let _ = size;
        None
    }
    /// The frames at the end, the close frame last.
    fn exit(&self, exit: &Exit) -> Vec<Message>;
    fn deleted(&self) -> Message;
    fn understand(&self, message: Message) -> impl Future<Output = Reply> + Send;
    /// Resolves, with its last frame, when this client has to go although everything else goes on. It need not read it: nobody
    /// waits for it, the program least of all.
    fn dismissed(&self) -> impl Future<Output = Message> + Send {
        std::future::pending()
    }
}
