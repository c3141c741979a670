//! Reading the log of a process through cursors.
//!
//! ```text
//! holder ──writes──▶ ring ◀──pulls── Cursor ──▶ WebSocket / SSE / output / run / wait
//!    │   archive ◀──(exited, old)──┤
//!    │   history ◀──(cold)─────────┘
//!    └── Wake(key) ──▶ Log::wake_readers ──▶ every sleeping cursor
//! ```
//!
//! The three places form one address space: a byte has the same offset, and a chunk the same sequence, wherever it is.
//! Newer bytes are in memory, in the ring or in the archive. Older ones are *cold*: only the history on disk has them.
//!
//! ```text
//! tail()                       memory_tail()            head()
//!   │ history, by blocks │ gap │ ring or archive           │
//!   0 ── offsets ─────────────────────────────────────────▶
//! ```
//!
//! The history usually has most of what is in memory too; readers prefer memory. A reader that finds its bytes
//! overwritten asks the history before it reports a gap. Loading a block waits for the disk, so `try_next` loads none
//! and returns only what is in memory or in a loaded block; `next` and `next_now` load. A log that is *stored only* has
//! nothing in memory: the process belongs to an earlier boot, or its log was dropped to free memory.
//!
//! There is no queue per reader. A cursor that finds nothing to read first registers, then checks again, then sleeps,
//! so it misses no change.
//!
//! The memory of a [`Log`] is a ring, the archive or nothing for its whole lifetime. Nothing is added to an archived log:
//! leases and wake-ups, which pace a writer, are granted and have no effect. When a process with an archived log is
//! started again, it gets a new `Log` that continues at the same offset. The old log refers to it as its *successor*, so
//! that its readers can move on.

mod archived;
mod cold;
mod cursor;
mod cursor_lease;
mod entries;
mod entry_cursor;
#[cfg(test)]
mod fake_history;
mod head_tail;
#[cfg(test)]
mod properties;
mod wake_offsets;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

pub(crate) use archived::{ArchiveLocation, ArchivedLog};
pub use cursor::{Cursor, Flow, Item, Start, StreamFilter};
pub use entry_cursor::{Entry, EntryCursor, EntryItem};
pub use head_tail::HeadTail;
pub use outlive_holder::log::{Cause, Exit, Stream};
use outlive_holder::log::{ChunkMark, LogReader, OverwrittenError};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use wake_offsets::{OffsetReader, WakeOffsets};

use crate::history::reader::{BlockKey, StoredLog};
use crate::holder_link::HolderLink;
use crate::{Error, wait_changed};

/// A screen model may lag by the ring's size divided by this. The smaller that part, the less remains to be read when
/// a client requests the screen.
const MODEL_LAG_PARTS: u64 = 16;

/// One process's log, shared by all its readers.
pub struct Log {
    key: u64,
    source: Source,
    /// What the history has of this log. Set when the history has opened the log.
    stored: OnceLock<Arc<StoredLog>>,
    wake_offsets: WakeOffsets,
    link: HolderLink,
    /// Notified when the holder reports a change, or when the log gets a successor.
    changed: Notify,
    successor: OnceLock<Arc<Log>>,
}

enum Source {
    /// Shared memory that the holder writes.
    Ring(LogReader),
    Archived(ArchivedLog),
    /// Nothing is in memory: the process belongs to an earlier boot, or its log was dropped.
    Stored {
        end: StoredEnd,
        /// Offset after the last byte, stored or not.
        head: u64,
        /// Number after the last mark.
        end_mark: u64,
    },
}

/// The end of a log that is not in memory, from the record of its process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredEnd {
    /// `None`: the process was lost with its boot.
    pub(crate) exit: Option<Exit>,
    pub(crate) generation: u32,
    pub(crate) input_offset: u64,
    pub(crate) last_output_at_ms: Option<u64>,
}

/// What a cursor finds at its position.
enum Step<T> {
    Item(T),
    /// The next item is in the history, and its block must be loaded first.
    NeedsBlock,
    AtHead,
}

/// Where a log ends and its successor begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEnd {
    pub(crate) offset: u64,
    pub(crate) mark: u64,
    pub(crate) input_offset: u64,
}

impl Log {
    pub(crate) fn open(key: u64, file: OwnedFd, link: HolderLink) -> std::io::Result<Self> {
        Ok(Self::new(key, Source::Ring(LogReader::open(file)?), link))
    }

    pub(crate) fn archived(key: u64, log: ArchivedLog, link: HolderLink) -> Self {
        Self::new(key, Source::Archived(log), link)
    }

    /// The log of a process of an earlier boot, or of one whose log was dropped. Its end is missing if the process wrote
    /// more before its exit than was stored.
    pub(crate) fn stored_only(key: u64, stored: StoredLog, end: StoredEnd, link: HolderLink) -> Self {
        let stored_end = stored.offsets().map_or(0, |offsets| offsets.end);
        let head = stored_end.max(end.exit.map_or(0, |exit| exit.offset));
        // How many chunks are missing at the end is unknown; they count as one.
        let end_mark = stored.marks().map_or(0, |marks| marks.end) + u64::from(head > stored_end);
        Self::new(key, Source::Stored { end, head, end_mark }, link).with_history(stored)
    }

    /// The log with its older part, which is no longer in memory.
    pub(crate) fn with_history(self, stored: StoredLog) -> Self {
        self.attach_history(stored);
        self
    }

    fn new(key: u64, source: Source, link: HolderLink) -> Self {
        Self {
            key,
            source,
            stored: OnceLock::new(),
            wake_offsets: WakeOffsets::default(),
            link,
            changed: Notify::new(),
            successor: OnceLock::new(),
        }
    }

    pub(crate) fn ring(&self) -> Option<&LogReader> {
        match &self.source {
            Source::Ring(ring) => Some(ring),
            Source::Archived(_) | Source::Stored { .. } => None,
        }
    }

    pub(crate) fn as_archived(&self) -> Option<&ArchivedLog> {
        match &self.source {
            Source::Archived(log) => Some(log),
            Source::Ring(_) | Source::Stored { .. } => None,
        }
    }

    fn stored(&self) -> Option<&Arc<StoredLog>> {
        self.stored.get()
    }

    /// Whether nothing of the log is in memory. Such a log never grows and never gets a successor, so readers end at its
    /// head.
    pub fn is_stored_only(&self) -> bool {
        matches!(self.source, Source::Stored { .. })
    }

    // ---- offsets and state ----

    /// Offset after the newest byte.
    pub fn head(&self) -> u64 {
        match &self.source {
            Source::Ring(ring) => ring.head(),
            Source::Archived(log) => log.location().head,
            Source::Stored { head, .. } => *head,
        }
    }

    /// Offset of the oldest byte that is still there, in memory or in the history. Later ones may be missing.
    pub fn tail(&self) -> u64 {
        let in_memory = self.memory_tail();
        let stored = self.stored().and_then(|stored| stored.offsets());
        stored.map_or(in_memory, |offsets| offsets.start.min(in_memory))
    }

    /// Offset of the oldest byte in memory; the head if there is none.
    pub(crate) fn memory_tail(&self) -> u64 {
        match &self.source {
            Source::Ring(ring) => ring.tail(),
            Source::Archived(log) => log.location().tail,
            Source::Stored { head, .. } => *head,
        }
    }

    /// Whether the byte at `offset` is not in memory, and it or a later one is in the history.
    fn is_cold(&self, offset: u64) -> bool {
        offset < self.memory_tail() && self.stored().is_some_and(|stored| stored.reaches(offset))
    }

    /// An error if `offset` is before the oldest byte or after the newest one.
    pub fn check_offset(&self, offset: u64) -> Result<(), Error> {
        let (oldest, head) = (self.tail(), self.head());
        if offset < oldest {
            return Err(Error::OffsetGone { requested: offset, oldest, head });
        }
        if offset > head {
            return Err(Error::invalid("from", format!("an offset up to {head}"), offset));
        }
        Ok(())
    }

    /// Number of bytes in memory.
    pub fn len(&self) -> u64 {
        self.head().saturating_sub(self.memory_tail())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn exit(&self) -> Option<Exit> {
        match &self.source {
            Source::Ring(ring) => ring.exit(),
            Source::Archived(log) => Some(log.exit()),
            Source::Stored { end, .. } => end.exit,
        }
    }

    pub fn generation(&self) -> u32 {
        match &self.source {
            Source::Ring(ring) => ring.generation(),
            Source::Archived(log) => log.location().generation,
            Source::Stored { end, .. } => end.generation,
        }
    }

    /// How far the program may run ahead of a reader with a lease.
    pub fn window(&self) -> u64 {
        self.ring().map_or(u64::MAX / 2, LogReader::window)
    }

    /// Whether a process still has the writing end of an output pipe.
    pub(crate) fn has_open_writers(&self) -> bool {
        self.ring().and_then(LogReader::open_streams).is_some_and(|count| count > 0)
    }

    /// Whether the process has exited and nothing can write to the log any more.
    pub(crate) fn is_complete(&self) -> bool {
        self.exit().is_some() && self.ring().is_none_or(|ring| ring.open_streams() == Some(0))
    }

    pub fn input_offset(&self) -> u64 {
        match &self.source {
            Source::Ring(ring) => ring.input_offset(),
            Source::Archived(log) => log.location().input_offset,
            Source::Stored { end, .. } => end.input_offset,
        }
    }

    pub(crate) fn add_input(&self, count: usize) {
        if let Some(ring) = self.ring() {
            ring.add_input(count);
        }
    }

    /// Where a client resumes that does not remember its offset. Survives the server.
    pub fn resume_offset(&self) -> u64 {
        match &self.source {
            Source::Ring(ring) => ring.resume_offset(),
            Source::Archived(log) => log.resume_offset(),
            Source::Stored { .. } => 0,
        }
    }

    /// Everything before `offset` has been sent to such a client.
    pub fn raise_resume_offset(&self, offset: u64) {
        match &self.source {
            Source::Ring(ring) => ring.raise_resume_offset(offset),
            Source::Archived(log) => log.raise_resume_offset(offset),
            Source::Stored { .. } => {}
        }
    }

    /// When the newest output was recorded.
    pub fn last_output_at_ms(&self) -> Option<u64> {
        match &self.source {
            Source::Ring(ring) => {
                ring.marks().end.checked_sub(1).and_then(|newest| ring.mark(newest)).map(|mark| mark.at_ms)
            }
            Source::Archived(log) => log.location().last_output_at_ms,
            Source::Stored { end, .. } => end.last_output_at_ms,
        }
    }

    pub(crate) fn end(&self) -> LogEnd {
        LogEnd { offset: self.head(), mark: self.memory_marks().end, input_offset: self.input_offset() }
    }

    // ---- chunks and bytes ----

    /// Numbers of the chunk marks in memory.
    fn memory_marks(&self) -> Range<u64> {
        match &self.source {
            Source::Ring(ring) => ring.marks(),
            Source::Archived(log) => log.marks(),
            Source::Stored { end_mark, .. } => *end_mark..*end_mark,
        }
    }

    /// The mark with this number, if it is in memory.
    fn mark(&self, number: u64) -> Option<ChunkMark> {
        match &self.source {
            Source::Ring(ring) => ring.mark(number),
            Source::Archived(log) => log.mark(number),
            Source::Stored { .. } => None,
        }
    }

    /// Number of the mark in memory whose chunk contains `offset`.
    fn mark_of(&self, offset: u64) -> Option<u64> {
        match &self.source {
            Source::Ring(ring) => ring.mark_of(offset),
            Source::Archived(log) => log.mark_of(offset),
            Source::Stored { .. } => None,
        }
    }

    /// Appends at most `max_bytes` from `offset` on, from memory; `Ok(0)` at the head.
    fn read_at(&self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) -> Result<usize, OverwrittenError> {
        match &self.source {
            Source::Ring(ring) => ring.read_at(offset, max_bytes, out),
            Source::Archived(log) => log.read_at(offset, max_bytes, out),
            Source::Stored { head, .. } if offset < *head => Err(OverwrittenError { oldest: *head }),
            Source::Stored { .. } => Ok(0),
        }
    }

    /// The sequence of the entry that contains `offset`, or of the next one that is still there.
    pub async fn sequence_at(&self, offset: u64) -> u64 {
        let memory_tail = self.memory_tail();
        if let Some(stored) = self.stored().filter(|_| self.is_cold(offset))
            && let Some(block) = stored.block(BlockKey::Offset(offset)).await
            && block.offset < memory_tail
        {
            return block.marks[cold::mark_at(&block, offset.max(block.offset))].sequence;
        }
        self.mark_of(offset).unwrap_or(self.memory_marks().start) + 1
    }

    /// When the entry after this sequence was recorded.
    pub async fn time_after(&self, sequence: u64) -> Option<u64> {
        if let Some(mark) = self.mark(sequence) {
            return Some(mark.at_ms);
        }
        let stored = self.stored().filter(|stored| stored.reaches_mark(sequence))?;
        let block = stored.block(BlockKey::Mark(sequence)).await?;
        block.marks.iter().find(|mark| mark.sequence > sequence).map(|mark| mark.at_ms)
    }

    /// The stream and length of every chunk in memory, oldest first.
    pub(crate) fn chunks(&self) -> Vec<(Stream, u64)> {
        let (head, tail) = (self.head(), self.memory_tail());
        let marks: Vec<_> = self.memory_marks().filter_map(|number| self.mark(number)).collect();
        let ends = marks.iter().skip(1).map(|next| next.offset).chain([head]);
        let clamp = |offset: u64| offset.clamp(tail, head);
        marks.iter().zip(ends).map(|(mark, end)| (mark.stream, clamp(end) - clamp(mark.offset))).collect()
    }

    // ---- waiting ----

    /// Wakes all waiting cursors, because the holder reported a change.
    pub(crate) fn wake_readers(&self) {
        self.changed.notify_waiters();
    }

    /// Sets the log in which the process continues.
    pub(crate) fn set_successor(&self, successor: Arc<Self>) {
        let _ = self.successor.set(successor);
        self.changed.notify_waiters();
    }

    fn successor(&self) -> Option<&Arc<Self>> {
        self.successor.get()
    }

    /// Requests a wake-up before the ring overwrites the bytes after `offset`. Returns the offset at which it comes, or
    /// 0 if nothing will be overwritten.
    pub(crate) fn wake_before_overwrite(&self, offset: u64) -> u64 {
        let Some(ring) = self.ring() else { return 0 };
        let due = offset + ring.window() / MODEL_LAG_PARTS;
        self.wake_offsets.request(ring, OffsetReader::Model, due);
        due
    }

    /// Waits until `ready` returns a value: registers with `changed`, requests a wake-up for output, calls it, and sleeps
    /// until the next change.
    pub(crate) async fn wait_for<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        wait_changed(&self.changed, || {
            if let Some(ring) = self.ring() {
                ring.request_wakeup();
            }
            ready()
        })
        .await
    }

    /// Waits until the current generation has ended. Needs no wake-up for output.
    pub async fn wait_exit(&self) -> Exit {
        wait_changed(&self.changed, || self.exit()).await
    }

    /// Waits for the exit, or until a lease blocks the program, for a reader at `offset` that needs nothing earlier.
    pub(crate) async fn wait_exit_or_blocked(&self, offset: u64) {
        let is_blocked = || self.ring().is_some_and(LogReader::is_blocked) && self.head() > offset;
        let has_ended = || self.exit().is_some() || self.is_stored_only();
        wait_changed(&self.changed, || (has_ended() || is_blocked()).then_some(())).await;
    }
}
