//! A reader's side of a log: bytes by offset, marks by number, holds, and the exit.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use rustix::buffer::spare_capacity;

use super::hold::{self, Token};
use super::layout::{
    AT_BLOCKED, AT_DUE, AT_EXIT, AT_EXIT_OFFSET, AT_EXITED_AT, AT_GENERATION, AT_HEAD, AT_INPUT, AT_MARK_TAIL,
    AT_MARKS, AT_RESUME, AT_STREAMS, AT_TAIL, AT_WAITING, Exit, MARK_BYTES, PAGE, Sizes, Stream, unpack_exit,
};
use super::map::Map;
use super::writer::read_sizes;
use crate::clock;

/// The bytes asked for are no longer there; `oldest` is the first that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub oldest: u64,
}

/// One recorded chunk: where it begins, which stream it came from, when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
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

    /// Offset of the oldest byte that is still there.
    pub fn tail(&self) -> u64 {
        self.load(AT_TAIL)
    }

    pub fn capacity(&self) -> u64 {
        self.sizes.capacity
    }

    /// How far the program may run ahead of a hold.
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
            // Unchanged, so the three belong together: the next life erases the word before it changes the others.
            if self.load(AT_EXIT) == word {
                return Some(Exit { generation, status, cause, offset, at_ms });
            }
        }
    }

    /// Appends at most `most` bytes from `offset` on; `Ok(0)` at the head.
    pub fn read_at(&self, offset: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Gone> {
        let head = self.head();
        if offset >= head {
            return Ok(0);
        }
        let available = usize::try_from(head - offset).unwrap_or(usize::MAX);
        let position = (offset % self.sizes.capacity) as usize;
        let wanted = most.min(available).min(self.sizes.capacity as usize - position);
        let at = (self.sizes.data_start() + position) as u64;
        // A sealed memfd cannot be short or fail; if it did, the bytes are as good as gone.
        let start = out.len();
        out.reserve_exact(wanted);
        let got = rustix::io::pread(&self.file, spare_capacity(out), at).unwrap_or(0).min(wanted);
        // The room may be larger than what was reserved.
        out.truncate(start + got);
        // The copy before the look.
        fence(Acquire);
        let oldest = self.tail();
        if offset < oldest || got == 0 {
            out.truncate(start);
            return Err(Gone { oldest: oldest.max(offset + u64::from(got == 0)) });
        }
        Ok(got)
    }

    /// Numbers (from 0) of the marks that are still there.
    pub fn marks(&self) -> Range<u64> {
        let oldest = self.load(AT_MARK_TAIL);
        oldest..self.load(AT_MARKS).max(oldest)
    }

    /// Mark `number`, if it is still (or already) there.
    pub fn mark(&self, number: u64) -> Option<Mark> {
        if !self.marks().contains(&number) {
            return None;
        }
        let at = PAGE + (number % self.sizes.mark_slots) as usize * MARK_BYTES;
        let (offset, packed) = (self.load(at), self.load(at + 8));
        // The writer frees a slot before it reuses it.
        if number < self.load(AT_MARK_TAIL) {
            return None;
        }
        let stream = Stream::from_u8(packed as u8)?;
        Some(Mark { sequence: number + 1, offset, stream, at_ms: packed >> 8 })
    }

    /// Number of the mark whose chunk contains `offset` (or the newest one before it).
    pub fn mark_of(&self, offset: u64) -> Option<u64> {
        find_mark(self.marks(), offset, |number| self.mark(number)).filter(|number| *number >= self.load(AT_MARK_TAIL))
    }

    /// Asks for a wake-up at the next change. Call it, then look at the head again, then sleep.
    pub fn want_wake(&self) {
        self.map.word(AT_WAITING).store(1, SeqCst);
    }

    /// Asks for a wake-up when the head has come to `offset`.
    pub fn want_wake_at(&self, offset: u64) {
        self.map.word(AT_DUE).store(offset, SeqCst);
    }

    /// Puts a hold at `offset`, in place of the one that this reader left if it comes back.
    /// `None` when there is no room for another one. `Some(true)`: the writer had stopped and must be resumed.
    pub fn take_hold(&self, token: Token, offset: u64, comes_back: bool) -> Option<bool> {
        hold::take(&self.map, token, offset, comes_back, clock::boot_ms())?;
        Some(self.take_blocked())
    }

    /// Moves a hold forward, and says how far its reader has come. `None`: it was voided because its reader
    /// stalled. `Some(true)`: the writer had stopped and must be resumed.
    pub fn advance_hold(&self, token: Token, offset: u64, reached: u64) -> Option<bool> {
        hold::find(&self.map, token)?.advance(offset, reached);
        Some(self.take_blocked())
    }

    /// Where a reader that has come to `offset` may leave its hold: half of what the program may run ahead
    /// stays held, counted in bytes and in chunks.
    pub fn half_behind(&self, offset: u64) -> u64 {
        let chunks = self.marks();
        let first = (chunks.end).checked_sub(self.sizes.mark_slots / 2).filter(|number| chunks.contains(number));
        let by_chunks = first.and_then(|number| self.mark(number)).map_or(0, |mark| mark.offset);
        offset.saturating_sub(self.window() / 2).max(by_chunks).min(offset)
    }

    /// By how much a hold should move at least. Each move costs the writer a look, so small steps are not worth it
    /// unless the chunks are tiny and their marks the scarce thing.
    pub fn hold_step(&self) -> u64 {
        let chunks = self.marks();
        if chunks.end - chunks.start > self.sizes.mark_slots / 4 { 1 } else { self.window() / 64 }
    }

    /// The hold is there, be it that its reader has left.
    pub fn holds(&self, token: Token) -> bool {
        hold::is_there(&self.map, token)
    }

    /// Ends a hold. True: the writer had stopped and must be resumed.
    pub fn free_hold(&self, token: Token) -> bool {
        if let Some(slot) = hold::find(&self.map, token) {
            slot.free(token);
        }
        self.take_blocked()
    }

    /// The reader is gone without a clean close and may come back.
    pub fn leave_hold(&self, token: Token) {
        if let Some(slot) = hold::find(&self.map, token) {
            slot.leave(token, clock::boot_ms());
        }
    }

    /// The writer has stopped because of a hold.
    pub fn is_blocked(&self) -> bool {
        self.load(AT_BLOCKED) != 0
    }

    fn take_blocked(&self) -> bool {
        self.load(AT_BLOCKED) != 0 && self.map.word(AT_BLOCKED).swap(0, SeqCst) != 0
    }

    /// Bytes of input that the program's side of the kernel has taken so far.
    pub fn input_offset(&self) -> u64 {
        self.load(AT_INPUT)
    }

    /// Where a reader goes on that cannot say how far it has come: everything before was sent to one like it.
    pub fn resume_offset(&self) -> u64 {
        self.load(AT_RESUME)
    }

    pub fn raise_resume_offset(&self, offset: u64) {
        self.map.word(AT_RESUME).fetch_max(offset, SeqCst);
    }

    pub fn add_input(&self, count: usize) {
        self.map.word(AT_INPUT).fetch_add(count as u64, SeqCst);
    }

    /// Descriptors that are still recorded here; `None` when the holder is too old to say.
    pub fn open_streams(&self) -> Option<u64> {
        self.load(AT_STREAMS).checked_sub(1)
    }

    /// A second handle to the same log.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::open(self.file.try_clone()?)
    }
}

/// Number of the newest mark in `marks` that begins at or before `offset`.
pub fn find_mark(marks: Range<u64>, offset: u64, mark: impl Fn(u64) -> Option<Mark>) -> Option<u64> {
    let (mut low, mut high) = (marks.start, marks.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match mark(middle) {
            Some(mark) if mark.offset > offset => high = middle,
            // A mark that vanished while we searched is older than everything that matters.
            _ => low = middle + 1,
        }
    }
    low.checked_sub(1).filter(|number| *number >= marks.start)
}
