//! Reading logs: cursors over the one log of a process.
//!
//! ```text
//! holder ──writes──▶ ring ◀──pulls── Cursor ──▶ WebSocket / SSE / output / run / wait
//!    │   archive ◀──(exited, old)──┘
//!    └── Wake(key) ──▶ Log::woken ──▶ every cursor that sleeps
//! ```
//!
//! Nothing queues per reader. A cursor that sleeps has registered first, then looked, then slept.
//!
//! A [`Log`] is in its ring or in the archive for all of its life. A process whose log was archived and that is
//! started again gets a new `Log`, which goes on where the old one ended; the old one knows its *successor*, so
//! that those who follow it move on.

mod archived;
mod cursor;
mod ends;
mod entries;
mod entry_cursor;
mod source;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub(crate) use archived::{ArchivedLog, Place};
pub use cursor::{Cursor, Flow, Item, Start, StreamFilter};
pub use ends::Ends;
pub use entries::Entry;
pub use entry_cursor::{EntryCursor, EntryItem};
use outlive_holder::log::LogReader;
use outlive_holder::log::hold::Token;
pub use outlive_holder::log::{Cause, Exit, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use self::source::Source;
use crate::holder_link::HolderLink;

/// So much of the log may come unseen before somebody is told: the less, the sooner is the rest seen when it is asked for.
const UNSEEN_PARTS: u64 = 16;

/// One process's log, shared by all its readers.
pub struct Log {
    key: u64,
    source: Source,
    link: HolderLink,
    changed: Notify,
    /// The log that goes on after this one.
    successor: OnceLock<Arc<Log>>,
}

/// Where a log ends, and one that follows it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEnd {
    pub(crate) offset: u64,
    pub(crate) mark: u64,
    pub(crate) input_offset: u64,
}

static SERIAL: AtomicU32 = AtomicU32::new(1);

impl Log {
    pub(crate) fn open(key: u64, file: OwnedFd, link: HolderLink) -> std::io::Result<Self> {
        Ok(Self::new(key, Source::Ring(LogReader::open(file)?), link))
    }

    pub(crate) fn archived(key: u64, log: ArchivedLog, link: HolderLink) -> Self {
        Self::new(key, Source::Archived(log), link)
    }

    fn new(key: u64, source: Source, link: HolderLink) -> Self {
        Self { key, source, link, changed: Notify::new(), successor: OnceLock::new() }
    }

    pub fn head(&self) -> u64 {
        self.source.head()
    }

    pub fn tail(&self) -> u64 {
        self.source.tail()
    }

    /// Somebody can still write to it.
    pub(crate) fn is_written_to(&self) -> bool {
        self.ring().and_then(LogReader::open_streams).is_some_and(|count| count > 0)
    }

    pub fn exit(&self) -> Option<Exit> {
        self.source.exit()
    }

    pub fn generation(&self) -> u32 {
        self.source.generation()
    }

    /// Bytes that are still there.
    pub fn len(&self) -> u64 {
        self.head().saturating_sub(self.tail())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far the program may run ahead of a reader that holds it.
    pub fn window(&self) -> u64 {
        self.source.window()
    }

    pub fn input_offset(&self) -> u64 {
        self.source.input_offset()
    }

    /// Where a client goes on that cannot say how far it has come. Survives the server.
    pub fn resume_offset(&self) -> u64 {
        self.source.resume_offset()
    }

    /// Everything before `offset` has been sent to such a client.
    pub fn raise_resume_offset(&self, offset: u64) {
        self.source.raise_resume_offset(offset);
    }

    pub(crate) fn add_input(&self, count: usize) {
        self.source.add_input(count);
    }

    /// When the newest output was recorded.
    pub fn last_output_at_ms(&self) -> Option<u64> {
        self.source.last_output_at_ms()
    }

    /// The sequence of the entry that has this byte, or the oldest one there is.
    pub fn sequence_at(&self, offset: u64) -> u64 {
        self.source.mark_of(offset).unwrap_or(self.source.marks().start) + 1
    }

    /// When the entry after this sequence was recorded.
    pub fn time_of(&self, after: u64) -> Option<u64> {
        self.source.mark(after).map(|mark| mark.at_ms)
    }

    /// The stream and length of every chunk that is still there, oldest first.
    pub(crate) fn chunks(&self) -> Vec<(Stream, u64)> {
        let (head, tail) = (self.head(), self.tail());
        let marks: Vec<_> = self.source.marks().filter_map(|number| self.source.mark(number)).collect();
        let ends = marks.iter().skip(1).map(|next| next.offset).chain([head]);
        let within = |offset: u64| offset.clamp(tail, head);
        marks.iter().zip(ends).map(|(mark, end)| (mark.stream, within(end) - within(mark.offset))).collect()
    }

    pub(crate) fn end(&self) -> LogEnd {
        LogEnd { offset: self.head(), mark: self.source.marks().end, input_offset: self.input_offset() }
    }

    pub(crate) fn ring(&self) -> Option<&LogReader> {
        match &self.source {
            Source::Ring(ring) => Some(ring),
            Source::Archived(_) => None,
        }
    }

    pub(crate) fn as_archived(&self) -> Option<&ArchivedLog> {
        match &self.source {
            Source::Ring(_) => None,
            Source::Archived(log) => Some(log),
        }
    }

    /// The process goes on in another log.
    pub(crate) fn continue_in(&self, successor: Arc<Self>) {
        let _ = self.successor.set(successor);
        self.changed.notify_waiters();
    }

    fn successor(&self) -> Option<&Arc<Self>> {
        self.successor.get()
    }

    /// Asks to be told before what comes after `offset` is overwritten: at which offset that will be, or 0 if nothing will.
    pub(crate) fn tell_at(&self, offset: u64) -> u64 {
        let Some(ring) = self.ring() else { return 0 };
        let due = offset + ring.window() / UNSEEN_PARTS;
        ring.want_wake_at(due);
        due
    }

    /// The holder says that something changed.
    pub(crate) fn woken(&self) {
        self.changed.notify_waiters();
    }

    /// Waits for the next change after `ready` said "not yet": registers, asks for a wake-up, looks, sleeps.
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            self.source.want_wake();
            if let Some(value) = ready() {
                return value;
            }
            changed.await;
        }
    }

    /// Waits until the current generation has ended. Needs no wake-up for output.
    pub async fn until_exit(&self) -> Exit {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(exit) = self.exit() {
                return exit;
            }
            changed.await;
        }
    }

    /// For a reader at `offset` that can wait with what is there: until the exit, or until the ring is full.
    pub(crate) async fn until_exit_or_full(&self, offset: u64) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        let full = self.source.is_blocked() && self.head() > offset;
        if self.exit().is_none() && !full {
            changed.await;
        }
    }

    fn take_hold(&self, offset: u64, comes_back: bool) -> Option<Token> {
        let token = Token::new(self.link.epoch(), SERIAL.fetch_add(1, Relaxed));
        if self.source.take_hold(token, offset, comes_back)? {
            self.link.resume(self.key);
        }
        Some(token)
    }

    /// False when the hold was voided.
    fn advance_hold(&self, token: Token, offset: u64, reached: u64) -> bool {
        match self.source.advance_hold(token, offset, reached) {
            None => false,
            Some(resume) => {
                if resume {
                    self.link.resume(self.key);
                }
                true
            }
        }
    }

    fn free_hold(&self, token: Token) {
        if self.source.free_hold(token) {
            self.link.resume(self.key);
        }
    }
}
