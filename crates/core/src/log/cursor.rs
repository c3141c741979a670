//! A cursor: one reader's position in a log.

use std::sync::Arc;

use bytes::Bytes;
use outlive_holder::log::{Exit, OverwrittenError, Stream};

use super::cold::{self, BlockLoader};
use super::cursor_lease::CursorLease;
use super::{Log, Step};
use crate::Error;
use crate::history::reader::BlockKey;

/// Where a cursor starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this absolute offset.
    At(u64),
    /// At the last bytes: this many before the head, or at the oldest byte there is.
    LastBytes(u64),
    /// At the head: only output from now on.
    Head,
    /// At the oldest byte there is.
    Oldest,
}

/// What happens when the reader is slower than the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The program waits for the reader, within bounds.
    Lossless,
    /// The program does not wait; the reader gets a gap for the bytes it missed.
    Live,
}

/// The streams that a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFilter {
    All,
    Only(Stream),
}

impl StreamFilter {
    pub fn matches(self, stream: Stream) -> bool {
        match self {
            Self::All => true,
            Self::Only(only) => only == stream,
        }
    }
}

/// What a cursor yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Bytes of one stream, the first of them at `offset`.
    Bytes { offset: u64, stream: Stream, bytes: Bytes },
    /// The bytes from `from_offset` to before `to_offset` are neither in memory nor in the history. Reading continues at
    /// `to_offset`.
    Gap { from_offset: u64, to_offset: u64 },
    /// The reader has lost its lease because it was too slow for too long, or found no free slot for one: from here on
    /// the program does not wait for it.
    BecameLive,
    /// The exit. Every byte before it has been yielded.
    Exit(Exit),
    /// Nothing follows, ever: the log [is stored only](Log::is_stored_only). There was an `Exit` before, unless the
    /// process was lost with an earlier boot, or its next generation is about to start in a new log.
    End,
}

/// One reader of a log. `close` releases its lease at once. Dropping it before it has read everything abandons the lease,
/// which is then kept for 10 s for a reader that reconnects.
///
/// Its positions in the log and those of its `CursorLease`, in this order (the first two only while a lease is held):
///
/// ```text
/// ──┬──────────────┬──────────────────┬──────────────┬────────────────────┬──▶
///   lease_offset   reported_read_to   acknowledged   offset               head of the log
///   bytes are      progress that      received by    next byte to yield
///   protected      the writer of      the reader
///   from here on   the ring sees
/// ```
///
/// Without acknowledgements, `offset` is the reported progress, and the lease stays half a window behind it: bytes that
/// were yielded may still be on their way to the client. `exit_not_before` is 0, or the head at the time
/// when the cursor was created.
pub struct Cursor {
    log: Arc<Log>,
    /// Offset of the next byte to yield.
    offset: u64,
    filter: StreamFilter,
    pub(super) lease: CursorLease,
    /// Generation of the last exit that was yielded.
    exit_seen: u32,
    /// The exit is yielded after this offset. If the process had exited before the cursor was created, that is the head
    /// of that time: children that outlived the process may have written after the exit.
    exit_not_before: u64,
    /// Number of the mark that covers `offset`, if known and in memory.
    mark: Option<u64>,
    /// The block of the history that contains `offset`, while that is cold.
    blocks: BlockLoader,
    /// Bytes that are only in the history are gaps for this cursor.
    memory_only: bool,
    became_live: bool,
    end_yielded: bool,
    /// The reader has closed the cursor and will not reconnect.
    closed: bool,
}

impl Cursor {
    pub fn new(log: Arc<Log>, start: Start, flow: Flow, filter: StreamFilter) -> Self {
        let mut offset = match start {
            Start::At(offset) => offset.min(log.head()),
            Start::LastBytes(bytes) => log.head().saturating_sub(bytes).max(log.tail()),
            Start::Head => log.head(),
            Start::Oldest => log.tail(),
        };
        let is_exact = matches!(start, Start::At(_));
        let lease = match flow {
            Flow::Lossless => CursorLease::acquire(&log, offset, is_exact),
            Flow::Live => CursorLease::live(),
        };
        if lease.is_held() && !is_exact {
            // The tail may have passed the offset before the lease existed; from now on it cannot.
            offset = offset.max(log.memory_tail());
        }
        let became_live = flow == Flow::Lossless && !lease.is_lossless();
        let exit_not_before = if log.exit().is_some() { log.head() } else { 0 };
        Self {
            log,
            offset,
            filter,
            lease,
            exit_seen: 0,
            exit_not_before,
            mark: None,
            blocks: BlockLoader::default(),
            memory_only: false,
            became_live,
            end_yielded: false,
            closed: false,
        }
    }

    /// A cursor at `start`. An offset that is gone, or beyond the head, is an error instead of a silent jump.
    pub fn open(log: &Arc<Log>, start: Start, flow: Flow, filter: StreamFilter) -> Result<Self, Error> {
        // The lease comes before the check, so that nothing is overwritten after it.
        let cursor = Self::new(Arc::clone(log), start, flow, filter);
        if let Start::At(offset) = start
            && let Err(error) = log.check_offset(offset)
        {
            // A dropped cursor would leave its lease for a reader that reconnects.
            cursor.close();
            return Err(error);
        }
        Ok(cursor)
    }

    /// A cursor at `offset`, or at the oldest byte if that offset is gone.
    pub fn open_or_oldest(log: &Arc<Log>, offset: u64, flow: Flow) -> Self {
        let cursor_at = |start| Self::new(Arc::clone(log), start, flow, StreamFilter::All);
        if log.tail() <= offset {
            let cursor = cursor_at(Start::At(offset));
            // Checked again, because the tail may have passed the offset before the lease existed.
            if log.tail() <= offset {
                return cursor;
            }
            cursor.close();
        }
        cursor_at(Start::Oldest)
    }

    /// A cursor that reads nothing from the history: for readers that need only recent output, and never wait for the
    /// disk.
    #[must_use]
    pub fn memory_only(mut self) -> Self {
        self.memory_only = true;
        self
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub fn is_lossless(&self) -> bool {
        self.lease.is_lossless()
    }

    /// The reader has received everything before `offset`.
    pub fn acknowledge(&mut self, offset: u64) {
        self.lease.acknowledge(offset, self.offset);
        self.move_lease();
    }

    /// From now on the lease follows the acknowledgements and not the bytes yielded.
    pub fn expect_acknowledgements(&mut self) {
        self.lease.expect_acknowledgements(self.offset);
    }

    /// The reader has received everything before `offset` in another way.
    pub fn skip_to(&mut self, offset: u64) {
        self.offset = self.offset.max(offset);
        self.mark = None;
        self.lease.skip_to(self.offset);
        self.move_lease();
    }

    pub(super) fn take_became_live(&mut self) -> bool {
        self.move_lease();
        std::mem::take(&mut self.became_live)
    }

    /// The reader waits for the history: until it is back in memory, the program must not wait for it.
    pub(super) fn defer_lease(&mut self) {
        self.lease.defer(&self.log);
    }

    /// Releases the lease at once: the reader will not reconnect.
    pub fn close(mut self) {
        self.closed = true;
    }

    fn move_lease(&mut self) {
        self.became_live |= !self.lease.follow(&self.log, self.offset);
    }

    /// Waits for the next item; bytes come at most `max_bytes` at a time. Cancel safe.
    pub async fn next(&mut self, max_bytes: usize) -> Item {
        loop {
            match self.step(max_bytes) {
                Step::Item(item) => return item,
                Step::NeedsBlock => self.load_block().await,
                Step::AtHead if self.log.is_stored_only() => return Item::End,
                Step::AtHead => {
                    let log = Arc::clone(&self.log);
                    let (offset, exit_seen) = (self.offset, self.exit_seen);
                    let has_item =
                        || log.head() > offset || has_new_exit(&log, exit_seen, offset) || log.successor().is_some();
                    log.wait_for(|| has_item().then_some(())).await;
                }
            }
        }
    }

    /// The next item, if there is one now. Waits only for the history. Cancel safe.
    pub async fn next_now(&mut self, max_bytes: usize) -> Option<Item> {
        loop {
            match self.step(max_bytes) {
                Step::Item(item) => return Some(item),
                Step::NeedsBlock => self.load_block().await,
                Step::AtHead => return None,
            }
        }
    }

    /// As [`next_now`](Self::next_now), for threads that may block; not for those of the runtime.
    pub fn next_now_blocking(&mut self, max_bytes: usize) -> Option<Item> {
        match self.step(max_bytes) {
            Step::Item(item) => Some(item),
            Step::NeedsBlock => tokio::runtime::Handle::current().block_on(self.next_now(max_bytes)),
            Step::AtHead => None,
        }
    }

    /// The next item, if nothing has to be loaded for it: from memory, or from a block of the history that this cursor
    /// has loaded. After `None`, `next` may still return one at once, from the history.
    pub fn try_next(&mut self, max_bytes: usize) -> Option<Item> {
        match self.step(max_bytes) {
            Step::Item(item) => Some(item),
            Step::NeedsBlock | Step::AtHead => None,
        }
    }

    /// If the bytes at the cursor are missing, moves it to the next ones that are not.
    pub async fn skip_missing(&mut self) {
        while self.offset < self.log.memory_tail() && self.blocks.containing(self.offset).is_none() {
            match self.missing_until(self.log.memory_tail()) {
                Some(offset) => self.skip_to(offset),
                None => self.load_block().await,
            }
        }
    }

    fn step(&mut self, max_bytes: usize) -> Step<Item> {
        loop {
            // Only a lossless reader has a lease. See `CursorLease`.
            self.move_lease();
            if std::mem::take(&mut self.became_live) {
                return Step::Item(Item::BecameLive);
            }
            // Read the exit before the head: the head then covers everything that was written before the exit.
            let exit = self.log.exit().filter(|exit| exit.offset.max(self.exit_not_before) <= self.offset);
            if let Some(exit) = exit
                && self.exit_seen != exit.generation
            {
                self.exit_seen = exit.generation;
                return Step::Item(Item::Exit(exit));
            }
            if self.offset >= self.log.head() {
                if self.move_to_successor() {
                    continue;
                }
                if self.log.is_stored_only() && !std::mem::replace(&mut self.end_yielded, true) {
                    return Step::Item(Item::End);
                }
                return Step::AtHead;
            }
            let result = if self.blocks.is_empty() { self.read(max_bytes) } else { self.read_cold(max_bytes) };
            match result {
                Ok(Some(item)) => return Step::Item(item),
                Ok(None) => {}
                Err(OverwrittenError { oldest }) => {
                    let Some(to_offset) = self.missing_until(oldest) else { return Step::NeedsBlock };
                    let from_offset = std::mem::replace(&mut self.offset, to_offset);
                    self.mark = None;
                    return Step::Item(Item::Gap { from_offset, to_offset });
                }
            }
        }
    }

    /// Memory has lost the bytes at the cursor, and begins at `oldest`. Returns where the gap ends; `None` if the
    /// history must be asked first.
    fn missing_until(&mut self, oldest: u64) -> Option<u64> {
        if self.memory_only || !self.log.is_cold(self.offset) {
            return Some(oldest);
        }
        let Some(answer) = self.blocks.answer(&self.log, BlockKey::Offset(self.offset)) else {
            self.lease.defer(&self.log);
            return None;
        };
        let memory_tail = answer.request.memory_tail.max(self.offset + 1);
        Some(answer.block.as_ref().map_or(memory_tail, |block| block.offset.min(memory_tail)))
    }

    async fn load_block(&mut self) {
        if let Some(stored) = self.log.stored() {
            self.blocks.load(stored).await;
        }
    }

    /// At the end of an archived log whose process was started again: continues in the new log.
    pub(super) fn move_to_successor(&mut self) -> bool {
        let Some(next) = self.log.successor().cloned() else { return false };
        self.log = next;
        self.mark = None;
        self.became_live |= !self.lease.move_to(&self.log, self.offset);
        true
    }

    /// The exit is yielded between the bytes before it and those of children that outlived the process.
    fn end_at_exit(&self, end: u64) -> u64 {
        let exit_offset = self.log.exit().map_or(0, |exit| exit.offset);
        if exit_offset > self.offset { end.min(exit_offset) } else { end }
    }

    /// Reads the chunk at the cursor together with the next ones of the same stream, a bounded number of them. `None`:
    /// the filter excludes their stream, and the cursor has passed them.
    fn read(&mut self, max_bytes: usize) -> Result<Option<Item>, OverwrittenError> {
        let (stream, end) = self.same_stream_span()?;
        let end = self.end_at_exit(end);
        let offset = self.offset;
        if !self.filter.matches(stream) {
            let oldest = self.log.memory_tail();
            if oldest > offset {
                // The marks were overwritten while they were read, so the stream of these bytes is unknown.
                return Err(OverwrittenError { oldest });
            }
            self.offset = end;
            return Ok(None);
        }
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(max_bytes);
        let mut bytes = Vec::new();
        let got = self.log.read_at(offset, wanted, &mut bytes)?;
        self.offset += got as u64;
        Ok(Some(Item::Bytes { offset, stream, bytes: bytes.into() }))
    }

    /// Reads from the block if it contains the offset, or else from memory.
    fn read_cold(&mut self, max_bytes: usize) -> Result<Option<Item>, OverwrittenError> {
        let offset = self.offset;
        let Some(block) = self.blocks.containing(offset) else {
            let result = self.read(max_bytes);
            if result.is_ok() {
                self.blocks.clear();
            }
            return result;
        };
        let (stream, end) = cold::same_stream_span(block, offset, max_bytes);
        let end = self.end_at_exit(end);
        if !self.filter.matches(stream) {
            self.offset = end;
            return Ok(None);
        }
        let start = (offset - block.offset) as usize;
        let count = ((end - offset) as usize).min(max_bytes);
        let bytes = block.bytes.slice(start..start + count);
        self.mark = None;
        self.offset += count as u64;
        Ok(Some(Item::Bytes { offset, stream, bytes }))
    }

    /// The stream at the cursor, and the offset up to which bytes of the same stream follow.
    fn same_stream_span(&mut self) -> Result<(Stream, u64), OverwrittenError> {
        let log = &self.log;
        let overwritten = || OverwrittenError { oldest: log.memory_tail().max(self.offset) };
        // Read the head first: every byte before it has its mark.
        let head = log.head();
        // The mark of the last read may have been overwritten although the one at the cursor has not.
        let start = match self.mark.filter(|number| log.mark(*number).is_some()) {
            Some(number) => number,
            None => log.mark_of(self.offset).ok_or_else(overwritten)?,
        };
        let mut number = start;
        let mut current = log.mark(number).ok_or_else(overwritten)?;
        loop {
            match log.mark(number + 1) {
                Some(next) if next.offset <= self.offset => {
                    number += 1;
                    current = next;
                }
                Some(next) if next.offset < head => {
                    self.mark = Some(number);
                    if next.stream != current.stream {
                        return Ok((current.stream, next.offset));
                    }
                    return Ok((current.stream, self.same_stream_until(number + 1, current.stream, head)));
                }
                _ => {
                    self.mark = Some(number);
                    return Ok((current.stream, head));
                }
            }
        }
    }

    /// The end of the run of chunks of one stream, within a bounded number of chunks. They are yielded together.
    fn same_stream_until(&self, from: u64, stream: Stream, head: u64) -> u64 {
        const MAX_MERGED_CHUNKS: u64 = 64;
        let mut end = head;
        for number in from..from + MAX_MERGED_CHUNKS {
            match self.log.mark(number) {
                Some(mark) if mark.offset >= head => return head,
                Some(mark) => {
                    end = mark.offset;
                    if mark.stream != stream {
                        return end;
                    }
                }
                None => return head,
            }
        }
        end
    }
}

fn has_new_exit(log: &Log, exit_seen: u32, offset: u64) -> bool {
    log.exit().is_some_and(|exit| exit.offset <= offset && exit.generation != exit_seen)
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if self.lease.is_held() {
            let is_complete = self.offset >= self.log.head() && self.log.exit().is_some();
            self.lease.end(&self.log, !self.closed && !is_complete);
        }
    }
}
