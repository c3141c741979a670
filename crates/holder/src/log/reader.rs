//! The reader's side of a log: bytes by offset, chunk marks by number, leases, and the exit.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use rustix::buffer::spare_capacity;

use super::lease::{self, LeaseId, LeaseKind};
use super::map::Map;
use super::writer::read_sizes;
use super::{
    AT_BLOCKED, AT_EXIT, AT_EXIT_OFFSET, AT_EXITED_AT, AT_GENERATION, AT_HEAD, AT_INPUT_OFFSET, AT_MARK_HEAD,
    AT_MARK_TAIL, AT_OPEN_STREAMS, AT_RESUME_OFFSET, AT_TAIL, AT_WAKEUP_OFFSET, AT_WAKEUP_REQUESTED, Exit, MARK_BYTES,
    PAGE, Sizes, Stream, unpack_exit,
};
use crate::clock;

/// The requested bytes have been overwritten; `oldest` is the first available offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverwrittenError {
    pub oldest: u64,
}

/// Index entry of a recorded chunk: where it starts, its stream, and when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMark {
    /// 1 for the first chunk of a process.
    pub sequence: u64,
    pub offset: u64,
    pub stream: Stream,
    pub at_ms: u64,
}

pub struct LogReader {
    map: Map,
    file: OwnedFd,
    sizes: Sizes,
}

impl LogReader {
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let sizes = read_sizes(file.as_fd())?;
        let map = Map::new(file.as_fd(), sizes.data_start())?;
        Ok(Self { map, file, sizes })
    }

    fn load(&self, at: usize) -> u64 {
        self.map.word(at).load(SeqCst)
    }

    /// Offset of the next byte to be recorded.
    pub fn head(&self) -> u64 {
        self.load(AT_HEAD)
    }

    /// Offset of the oldest byte in the ring.
    pub fn tail(&self) -> u64 {
        self.load(AT_TAIL)
    }

    pub fn capacity(&self) -> u64 {
        self.sizes.capacity
    }

    /// How far the program may run ahead of a lease.
    pub fn window(&self) -> u64 {
        self.sizes.capacity - self.sizes.reserve
    }

    pub fn budget(&self) -> u64 {
        self.sizes.budget
    }

    pub fn generation(&self) -> u32 {
        self.load(AT_GENERATION) as u32
    }

    /// The exit of the current generation. Every byte before its offset is already published.
    pub fn exit(&self) -> Option<Exit> {
        loop {
            let word = self.load(AT_EXIT);
            let (status, cause, generation) = unpack_exit(word)?;
            let (offset, at_ms) = (self.load(AT_EXIT_OFFSET), self.load(AT_EXITED_AT));
            // Unchanged, so the three belong together: a restart clears the word before it changes the others.
            if self.load(AT_EXIT) == word {
                return Some(Exit { generation, status, cause, offset, at_ms });
            }
        }
    }

    /// Appends at most `max_bytes` bytes from `offset` on; `Ok(0)` at the head.
    pub fn read_at(&self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) -> Result<usize, OverwrittenError> {
        let head = self.head();
        if offset >= head {
            return Ok(0);
        }
        let available = usize::try_from(head - offset).unwrap_or(usize::MAX);
        let position = (offset % self.sizes.capacity) as usize;
        let len = max_bytes.min(available).min(self.sizes.capacity as usize - position);
        let at = (self.sizes.data_start() + position) as u64;
        // Reading a sealed memfd cannot fail or be short. If it did, the bytes would count as overwritten.
        let start = out.len();
        out.reserve_exact(len);
        let got = rustix::io::pread(&self.file, spare_capacity(out), at).unwrap_or(0).min(len);
        // The spare capacity may be larger than the reserved length.
        out.truncate(start + got);
        // The tail must be loaded after the copy.
        fence(Acquire);
        let oldest = self.tail();
        if offset < oldest || got == 0 {
            out.truncate(start);
            return Err(OverwrittenError { oldest: oldest.max(offset + u64::from(got == 0)) });
        }
        Ok(got)
    }

    /// Numbers (from 0) of the chunk marks that exist.
    pub fn marks(&self) -> Range<u64> {
        let oldest = self.load(AT_MARK_TAIL);
        oldest..self.load(AT_MARK_HEAD).max(oldest)
    }

    /// Chunk mark `number`, if it exists.
    pub fn mark(&self, number: u64) -> Option<ChunkMark> {
        if !self.marks().contains(&number) {
            return None;
        }
        let at = PAGE + (number % self.sizes.mark_slots) as usize * MARK_BYTES;
        let (offset, packed) = (self.load(at), self.load(at + 8));
        // The writer raises the tail before it reuses a slot.
        if number < self.load(AT_MARK_TAIL) {
            return None;
        }
        let stream = Stream::from_u8(packed as u8)?;
        Some(ChunkMark { sequence: number + 1, offset, stream, at_ms: packed >> 8 })
    }

    /// Number of the mark whose chunk contains `offset`, or the newest one before it.
    pub fn mark_of(&self, offset: u64) -> Option<u64> {
        find_mark(self.marks(), offset, |number| self.mark(number)).filter(|number| *number >= self.load(AT_MARK_TAIL))
    }

    /// Requests a wake-up at the next change. Call it, then check the head again, then sleep.
    pub fn request_wakeup(&self) {
        self.map.word(AT_WAKEUP_REQUESTED).store(1, SeqCst);
    }

    /// Requests a wake-up when the head has reached `offset`.
    pub fn request_wakeup_at(&self, offset: u64) {
        self.map.word(AT_WAKEUP_OFFSET).store(offset, SeqCst);
    }

    /// Acquires a lease at `offset`. With `reclaim`, it replaces the nearest abandoned lease at or before `offset`,
    /// which is taken for the one that this reader left.
    /// `None` when all slots are in use. `Some(true)`: the writer was blocked and must be resumed.
    pub fn acquire_lease(&self, id: LeaseId, offset: u64, reclaim: bool) -> Option<bool> {
        self.acquire_lease_of(LeaseKind::Client, id, offset, reclaim)
    }

    /// As [`acquire_lease`](Self::acquire_lease), for a lease of this kind.
    pub fn acquire_lease_of(&self, kind: LeaseKind, id: LeaseId, offset: u64, reclaim: bool) -> Option<bool> {
        lease::acquire(&self.map, id, kind, offset, reclaim, clock::boot_ms())?;
        Some(self.take_blocked())
    }

    /// Advances a lease to `offset`, and publishes how far its reader has read. `None`: the lease was revoked because
    /// the reader stalled. `Some(true)`: the writer was blocked and must be resumed.
    pub fn advance_lease(&self, id: LeaseId, offset: u64, read_to: u64) -> Option<bool> {
        lease::find(&self.map, id)?.advance(offset, read_to);
        Some(self.take_blocked())
    }

    /// Where the lease of a reader that has read up to `read_to` should be: half of the window, counted in bytes and in
    /// chunks, stays protected behind the reader.
    pub fn lease_target(&self, read_to: u64) -> u64 {
        let chunks = self.marks();
        let first = chunks.end.checked_sub(self.sizes.mark_slots / 2).filter(|number| chunks.contains(number));
        let by_chunks = first.and_then(|number| self.mark(number)).map_or(0, |mark| mark.offset);
        read_to.saturating_sub(self.window() / 2).max(by_chunks).min(read_to)
    }

    /// The smallest step by which a lease should advance. Each step costs the writer a check, so small steps are not
    /// worth it unless tiny chunks make the chunk marks run out.
    pub fn min_lease_step(&self) -> u64 {
        let chunks = self.marks();
        if chunks.end - chunks.start > self.sizes.mark_slots / 4 { 1 } else { self.window() / 64 }
    }

    /// Whether the lease exists, held or abandoned.
    pub fn has_lease(&self, id: LeaseId) -> bool {
        lease::exists(&self.map, id)
    }

    /// Returns true when the writer was blocked and must be resumed.
    pub fn release_lease(&self, id: LeaseId) -> bool {
        if let Some(slot) = lease::find(&self.map, id) {
            slot.release(id);
        }
        self.take_blocked()
    }

    /// The reader was lost and may reclaim the lease.
    pub fn abandon_lease(&self, id: LeaseId) {
        if let Some(slot) = lease::find(&self.map, id) {
            slot.abandon(id, clock::boot_ms());
        }
    }

    /// Whether a lease blocks the writer.
    pub fn is_blocked(&self) -> bool {
        self.load(AT_BLOCKED) != 0
    }

    fn take_blocked(&self) -> bool {
        self.load(AT_BLOCKED) != 0 && self.map.word(AT_BLOCKED).swap(0, SeqCst) != 0
    }

    /// Bytes of input that the kernel has accepted so far.
    pub fn input_offset(&self) -> u64 {
        self.load(AT_INPUT_OFFSET)
    }

    /// Where a reader that keeps no offset continues: everything before was sent to such a reader.
    pub fn resume_offset(&self) -> u64 {
        self.load(AT_RESUME_OFFSET)
    }

    pub fn raise_resume_offset(&self, offset: u64) {
        self.map.word(AT_RESUME_OFFSET).fetch_max(offset, SeqCst);
    }

    pub fn add_input(&self, count: usize) {
        self.map.word(AT_INPUT_OFFSET).fetch_add(count as u64, SeqCst);
    }

    /// Number of descriptors that can still write to this log; `None` when the holder is too old to count them.
    pub fn open_streams(&self) -> Option<u64> {
        self.load(AT_OPEN_STREAMS).checked_sub(1)
    }

    /// A second handle to the same log.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::open(self.file.try_clone()?)
    }
}

/// Number of the newest mark in `marks` whose chunk starts at or before `offset`.
pub fn find_mark(marks: Range<u64>, offset: u64, mark: impl Fn(u64) -> Option<ChunkMark>) -> Option<u64> {
    let (mut low, mut high) = (marks.start, marks.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match mark(middle) {
            Some(mark) if mark.offset > offset => high = middle,
            // A mark that was overwritten during the search is older than the one searched for.
            _ => low = middle + 1,
        }
    }
    low.checked_sub(1).filter(|number| *number >= marks.start)
}
