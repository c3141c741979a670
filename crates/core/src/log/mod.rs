//! Reading logs: cursors over the one log of a process.
//!
//! ```text
//! holder ──writes──▶ ring ◀──pulls── Cursor ──▶ WebSocket / SSE / output / run / wait
//!    └── Wake(key) ──▶ Log::woken ──▶ every cursor that sleeps
//! ```
//!
//! Nothing queues per reader. A cursor that sleeps has registered first, then looked, then slept.

mod cursor;
mod entries;
mod entry_cursor;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub use cursor::{Cursor, Flow, Item, Start, StreamFilter};
pub use entries::Entry;
pub use entry_cursor::{EntryCursor, EntryItem};
use outlive_holder::log::hold::Token;
use outlive_holder::log::LogReader;
pub use outlive_holder::log::{Cause, Exit, Stream};
use tokio::sync::Notify;

use crate::holder_link::HolderLink;

/// One process's log, shared by all its readers.
pub struct Log {
    key: u64,
    reader: LogReader,
    link: HolderLink,
    changed: Notify,
    /// Cursors at work; a log without any can be dropped without harm to anybody.
    cursors: AtomicU64,
}

static SERIAL: AtomicU32 = AtomicU32::new(1);

impl Log {
    pub(crate) fn open(key: u64, file: OwnedFd, link: HolderLink) -> std::io::Result<Self> {
        let reader = LogReader::open(file)?;
        Ok(Self { key, reader, link, changed: Notify::new(), cursors: AtomicU64::new(0) })
    }

    pub fn head(&self) -> u64 {
        self.reader.head()
    }

    pub fn tail(&self) -> u64 {
        self.reader.tail()
    }

    pub fn exit(&self) -> Option<Exit> {
        self.reader.exit()
    }

    pub fn generation(&self) -> u32 {
        self.reader.generation()
    }

    /// Bytes that are still there.
    pub fn len(&self) -> u64 {
        self.head().saturating_sub(self.tail())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn input_offset(&self) -> u64 {
        self.reader.input_offset()
    }

    pub(crate) fn add_input(&self, count: usize) {
        self.reader.add_input(count);
    }

    /// When the newest output was recorded.
    pub fn last_output_at_ms(&self) -> Option<u64> {
        let newest = self.reader.marks().end.checked_sub(1)?;
        self.reader.mark(newest).map(|mark| mark.at_ms)
    }

    pub fn reader(&self) -> &LogReader {
        &self.reader
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
            self.reader.want_wake();
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
        let full = self.reader.is_blocked() && self.head() > offset;
        if self.exit().is_none() && !full {
            changed.await;
        }
    }

    pub(crate) fn has_cursors(&self) -> bool {
        self.cursors.load(Relaxed) > 0
    }

    fn take_hold(&self, offset: u64, comes_back: bool) -> Option<Token> {
        let token = Token::new(self.link.epoch(), SERIAL.fetch_add(1, Relaxed));
        if self.reader.take_hold(token, offset, comes_back)? {
            self.link.resume(self.key);
        }
        Some(token)
    }

    /// False when the hold was voided.
    fn advance_hold(&self, token: Token, offset: u64, reached: u64) -> bool {
        match self.reader.advance_hold(token, offset, reached) {
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
        if self.reader.free_hold(token) {
            self.link.resume(self.key);
        }
    }
}
