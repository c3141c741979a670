//! The holder's side of a log: reads descriptors into the ring.
//!
//! Order of stores, which readers rely on: raise `tail` → overwrite → write the mark → count it → raise `head`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::CHUNK_BYTES;
use super::hold::{self, Slot, Token};
use super::layout::{
    AT_BLOCKED, AT_BUDGET, AT_CAPACITY, AT_DUE, AT_EXIT, AT_EXIT_OFFSET, AT_EXITED_AT, AT_GENERATION, AT_HEAD,
    AT_INPUT, AT_MAGIC, AT_MARK_SLOTS, AT_MARK_TAIL, AT_MARKS, AT_RESERVE, AT_STREAMS, AT_TAIL, AT_WAITING, Beginning,
    Cause, MAGIC, MARK_BYTES, PAGE, Sizes, Stream, pack_exit,
};
use super::map::Map;
use crate::clock;

/// A read shorter than this has probably emptied the descriptor: publish now, so that the first byte of
/// an answer never waits for a further read.
const SHORT_READ: usize = 2048;

/// Marks that the drain after an exit may need although a hold has stopped the writer.
const DRAIN_MARKS: u64 = 16;

/// What one turn of recording found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing more at the moment.
    Idle,
    /// The turn's budget is used up; there may be more.
    More,
    /// A hold stops the program; call again after `due` or when a reader resumes.
    Blocked,
    /// End of file, or the terminal's last user is gone.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    UntilShort,
    /// A terminal hands out its bytes in pieces: only "nothing there" proves that it is empty.
    UntilEmpty,
}

pub struct LogWriter {
    map: Map,
    file: OwnedFd,
    sizes: Sizes,
}

impl LogWriter {
    pub fn create(budget: u64, reserve: u64, beginning: Beginning) -> io::Result<Self> {
        let sizes = Sizes::for_budget(budget, reserve);
        let file = memfd_create("outlive-log", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, sizes.file_len() as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = Map::new(file.as_fd(), sizes.file_len())?;
        let log = Self { map, file, sizes };
        log.begin(beginning);
        Ok(log)
    }

    fn begin(&self, beginning: Beginning) {
        for (at, value) in [
            (AT_CAPACITY, self.sizes.capacity),
            (AT_MARK_SLOTS, self.sizes.mark_slots),
            (AT_BUDGET, self.sizes.budget),
            (AT_RESERVE, self.sizes.reserve),
            (AT_HEAD, beginning.offset),
            (AT_TAIL, beginning.offset),
            (AT_MARKS, beginning.mark),
            (AT_MARK_TAIL, beginning.mark),
            (AT_INPUT, beginning.input),
            (AT_STREAMS, 1),
            (AT_GENERATION, 1),
            (AT_MAGIC, MAGIC),
        ] {
            self.word(at).store(value, SeqCst);
        }
    }

    /// As if it had just been made. Only for a log that nobody else has ever been given.
    pub fn begin_again(&self) {
        for at in (0..PAGE).step_by(size_of::<u64>()) {
            self.word(at).store(0, Relaxed);
        }
        self.begin(Beginning::default());
    }

    pub fn is_for(&self, budget: u64, reserve: u64) -> bool {
        self.sizes == Sizes::for_budget(budget, reserve)
    }

    /// Takes up a log again after the holder replaced itself.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let sizes = read_sizes(file.as_fd())?;
        let map = Map::new(file.as_fd(), sizes.file_len())?;
        Ok(Self { map, file, sizes })
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.map.word(at)
    }

    pub fn head(&self) -> u64 {
        self.word(AT_HEAD).load(Relaxed)
    }

    /// Everything from the first byte on, stdout and stderr; `None` when that is more than `most` or not all there.
    pub fn printed(&self, most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let head = usize::try_from(self.head()).ok().filter(|head| *head <= most)?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if head == 0 {
            return Some((stdout, stderr));
        }
        let mut bytes = vec![0; head];
        let whole = rustix::io::pread(&self.file, &mut bytes, self.sizes.data_start() as u64) == Ok(head);
        if !whole || self.word(AT_TAIL).load(Relaxed) > 0 || self.word(AT_MARK_TAIL).load(Relaxed) > 0 {
            return None;
        }
        let marks = self.word(AT_MARKS).load(Relaxed);
        for mark in 0..marks {
            let start = self.mark_word(mark).load(Relaxed) as usize;
            let end = if mark + 1 < marks { self.mark_word(mark + 1).load(Relaxed) as usize } else { head };
            let stream = Stream::from_u8(self.word(self.mark_at(mark) + 8).load(Relaxed) as u8)?;
            let to = if stream == Stream::Stderr { &mut stderr } else { &mut stdout };
            to.extend_from_slice(bytes.get(start..end)?);
        }
        Some((stdout, stderr))
    }

    /// Reads what `source` has into the ring and publishes it as one marked chunk.
    pub fn record(&self, source: BorrowedFd<'_>, stream: Stream) -> Recorded {
        self.record_at(clock::boot_ms(), source, stream)
    }

    /// As [`record`](Self::record), at this moment of the boot clock.
    pub fn record_at(&self, now: u64, source: BorrowedFd<'_>, stream: Stream) -> Recorded {
        if let Some(end) = self.turn(now) {
            return self.record_up_to(source, stream, end, Depth::UntilShort);
        }
        // Announce that we stopped, then look again: a reader may have moved its hold in between.
        self.word(AT_BLOCKED).store(1, SeqCst);
        match self.turn(now) {
            // The announcement stays: another stream of this log may have stopped as well.
            Some(end) => self.record_up_to(source, stream, end, Depth::UntilShort),
            None => Recorded::Blocked,
        }
    }

    /// How far to read in this turn; `None` when a hold stops the program.
    ///
    /// A hold that is put from here on lies at or after the tail that its reader then sees, and this turn
    /// overwrites nothing after that.
    fn turn(&self, now: u64) -> Option<u64> {
        self.keep_budget();
        let untouched = self.word(AT_TAIL).load(Relaxed) + self.sizes.capacity;
        let end = self.limit(now).min(untouched).min(self.head() + CHUNK_BYTES as u64);
        (end > self.head()).then_some(end)
    }

    /// The drain after an exit: may use the reserve, and past it overruns holds, because an exit waits for nobody.
    pub fn drain(&self, source: BorrowedFd<'_>, stream: Stream, most: usize) -> Recorded {
        self.keep_budget();
        let end = self.head() + most as u64;
        loop {
            let turn = end.min(self.head() + CHUNK_BYTES as u64);
            match self.record_up_to(source, stream, turn, Depth::UntilEmpty) {
                Recorded::More if self.head() < end => {}
                other => return other,
            }
        }
    }

    fn record_up_to(&self, source: BorrowedFd<'_>, stream: Stream, end: u64, depth: Depth) -> Recorded {
        let start = self.head();
        let mut head = start;
        let outcome = loop {
            if head >= end {
                break Recorded::More;
            }
            let position = (head % self.sizes.capacity) as usize;
            let room = ((end - head) as usize).min(self.sizes.capacity as usize - position);
            self.give_up_before((head + room as u64).saturating_sub(self.sizes.capacity));
            match self.map.read_into(source, self.sizes.data_start() + position, room) {
                Ok(0) => break Recorded::Ended,
                Ok(count) => {
                    head += count as u64;
                    if depth == Depth::UntilShort && count < SHORT_READ && count < room {
                        break Recorded::Idle;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break Recorded::Idle,
                // EIO is how a PTY master says that the last slave closed.
                Err(_) => break Recorded::Ended,
            }
        };
        if head > start {
            self.publish(start, head, stream);
        }
        outcome
    }

    fn publish(&self, start: u64, head: u64, stream: Stream) {
        let mark = self.word(AT_MARKS).load(Relaxed);
        let oldest = self.word(AT_MARK_TAIL).load(Relaxed);
        if mark - oldest >= self.sizes.mark_slots {
            // No slot left: the oldest chunk goes, although its bytes would still fit.
            self.give_up_before(self.mark_word(oldest + 1).load(Relaxed));
        }
        self.mark_word(mark).store(start, Relaxed);
        self.map.word(self.mark_at(mark) + 8).store(clock::wall_ms() << 8 | stream as u64, Relaxed);
        self.word(AT_MARKS).store(mark + 1, SeqCst);
        self.word(AT_HEAD).store(head, SeqCst);
        self.keep_budget();
    }

    /// Gives up what is beyond the budget and not held.
    fn keep_budget(&self) {
        let over_budget = self.head().saturating_sub(self.sizes.budget);
        if over_budget > self.word(AT_TAIL).load(Relaxed) {
            let held = Slot::all(&self.map).filter_map(|slot| slot.held()).min().unwrap_or(u64::MAX);
            self.give_up_before(over_budget.min(held));
        }
    }

    /// The bytes before `offset` are about to be overwritten.
    fn give_up_before(&self, offset: u64) {
        if offset <= self.word(AT_TAIL).load(Relaxed) {
            return;
        }
        self.word(AT_TAIL).store(offset, SeqCst);
        let marks = self.word(AT_MARKS).load(Relaxed);
        let mut oldest = self.word(AT_MARK_TAIL).load(Relaxed);
        while oldest + 1 < marks && self.mark_word(oldest + 1).load(Relaxed) <= offset {
            oldest += 1;
        }
        self.word(AT_MARK_TAIL).store(oldest, SeqCst);
        // Both before whatever is written in their place.
        fence(SeqCst);
    }

    fn mark_at(&self, mark: u64) -> usize {
        PAGE + (mark % self.sizes.mark_slots) as usize * MARK_BYTES
    }

    fn mark_word(&self, mark: u64) -> &AtomicU64 {
        self.word(self.mark_at(mark))
    }

    /// How far the program may be read, given the holds.
    fn limit(&self, now: u64) -> u64 {
        let head = self.head();
        let window = self.sizes.capacity - self.sizes.reserve;
        let half_ring = window / 2;
        // Marks can run out before the bytes do; a hold that lies before this may then not be passed.
        let needed = self.oldest_chunk_with_room(1 + DRAIN_MARKS);
        let recent = self.oldest_chunk_with_room(self.sizes.mark_slots / 4);
        let mut limit = u64::MAX;
        for slot in Slot::all(&self.map) {
            let Some(held) = slot.held() else { continue };
            let allowed = if held < needed { head } else { held.saturating_add(window) };
            if allowed <= head {
                if slot.honoured(now, half_ring) {
                    limit = limit.min(allowed);
                }
            } else {
                if held >= recent && head.saturating_sub(slot.reached()) < half_ring / 2 {
                    slot.close_window();
                }
                limit = limit.min(allowed);
            }
        }
        limit
    }

    /// Offset of the oldest chunk that is still there after `count` further ones.
    fn oldest_chunk_with_room(&self, count: u64) -> u64 {
        let marks = self.word(AT_MARKS).load(Relaxed);
        match (marks + count).checked_sub(self.sizes.mark_slots) {
            Some(oldest) if oldest > self.word(AT_MARK_TAIL).load(Relaxed) => self.mark_word(oldest).load(Relaxed),
            _ => 0,
        }
    }

    /// When a blocked log must be tried again even if no reader resumes it.
    pub fn due(&self) -> Option<u64> {
        Slot::all(&self.map).filter_map(|slot| slot.due()).min()
    }

    /// True when a reader sleeps and must be woken; asking resets it.
    pub fn take_waiting(&self) -> bool {
        self.word(AT_WAITING).load(SeqCst) != 0 && self.word(AT_WAITING).swap(0, SeqCst) != 0
    }

    /// True when the head has come as far as the server wanted to be told of; asking resets it.
    pub fn take_due(&self) -> bool {
        let due = self.word(AT_DUE).load(Relaxed);
        // Reset only if nobody has asked for another offset meanwhile.
        due != 0 && self.head() >= due && self.word(AT_DUE).compare_exchange(due, 0, SeqCst, Relaxed).is_ok()
    }

    /// How many descriptors may still write here. Raise it before one is recorded, lower it after its last byte.
    pub fn set_open_streams(&self, count: usize) {
        self.word(AT_STREAMS).store(count as u64 + 1, SeqCst);
    }

    /// Somebody of this server will read from here on, and is not there yet.
    pub fn expect_reader(&self, epoch: u32) {
        hold::expect(&self.map, Token::new(epoch, u32::MAX), self.head(), clock::boot_ms());
    }

    pub fn leave_holds_of(&self, epoch: u32) {
        hold::leave_epoch(&self.map, epoch, clock::boot_ms());
    }

    pub fn set_exit(&self, status: Result<u8, u8>, cause: Cause, at_ms: u64) {
        self.word(AT_EXIT_OFFSET).store(self.head(), SeqCst);
        self.word(AT_EXITED_AT).store(at_ms, SeqCst);
        let generation = self.word(AT_GENERATION).load(Relaxed) as u32;
        self.word(AT_EXIT).store(pack_exit(status, cause, generation), SeqCst);
    }

    /// Whether the current generation has ended.
    pub fn has_exit(&self) -> bool {
        self.word(AT_EXIT).load(Relaxed) != 0
    }

    /// A restart in place: the same log goes on with the next generation.
    pub fn begin_generation(&self, generation: u32) {
        self.word(AT_EXIT).store(0, SeqCst);
        self.word(AT_GENERATION).store(u64::from(generation), SeqCst);
    }
}

pub(super) fn read_sizes(file: BorrowedFd<'_>) -> io::Result<Sizes> {
    let mut header = [0u8; 40];
    let filled = rustix::io::pread(file, &mut header, 0)?;
    let word = |at: usize| header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let sizes = Sizes {
        capacity: word(AT_CAPACITY),
        mark_slots: word(AT_MARK_SLOTS),
        budget: word(AT_BUDGET),
        reserve: word(AT_RESERVE),
    };
    let len = rustix::fs::fstat(file)?.st_size as usize;
    // The length that it should have can be computed only from sizes that are plausible.
    let is_log = filled == header.len() && word(AT_MAGIC) == MAGIC && sizes.plausible() && len >= sizes.file_len();
    if !is_log {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an outlive log"));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_whose_sum_overflowed_were_computed_before_they_were_refused() {
        let file = memfd_create("log", MemfdFlags::CLOEXEC).unwrap();
        for at in [AT_CAPACITY, AT_MARK_SLOTS, AT_BUDGET, AT_RESERVE] {
            rustix::io::pwrite(&file, &u64::MAX.to_le_bytes(), at as u64).unwrap();
        }
        rustix::io::pwrite(&file, &MAGIC.to_le_bytes(), AT_MAGIC as u64).unwrap();
        assert_eq!(read_sizes(file.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_program_does_not_run_away_from_a_reader_that_is_expected() {
        let budget = 64 * 1024;
        let log = LogWriter::create(budget, 0, Beginning::default()).unwrap();
        log.expect_reader(7);
        let reader = super::super::LogReader::open(log.file().try_clone_to_owned().unwrap()).unwrap();
        let (out, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        loop {
            while rustix::io::write(&program, &[b'x'; 4096]).is_ok() {}
            if log.record(out.as_fd(), Stream::Stdout) == Recorded::Blocked {
                break;
            }
        }
        assert_eq!(reader.tail(), 0, "nothing of it is gone");
        assert!(log.head() >= budget, "and it was not stopped early");
        // The reader comes and takes the place that was kept for it.
        assert_eq!(reader.take_hold(Token::new(7, 1), 0, true), Some(true), "the writer has to be resumed");
        assert_eq!(Slot::all(&log.map).filter(|slot| slot.held().is_some()).count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn what_was_printed_is_found_again_by_stream(
            lives in proptest::collection::vec(proptest::collection::vec((proptest::bool::ANY, 1..3000usize), 0..20), 1..4),
            most in 1..40_000usize,
        ) {
            let log = LogWriter::create(64 * 1024, 0, Beginning::default()).unwrap();
            let (out, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
            for chunks in lives {
                let mut expected = (Vec::new(), Vec::new());
                for (number, (is_stderr, len)) in (0u8..).zip(chunks) {
                    let bytes = vec![number; len];
                    assert_eq!(rustix::io::write(&program, &bytes), Ok(len));
                    let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
                    log.record(out.as_fd(), stream);
                    if is_stderr { &mut expected.1 } else { &mut expected.0 }.extend(bytes);
                }
                let fits = expected.0.len() + expected.1.len() <= most;
                assert_eq!(log.printed(most), fits.then_some(expected));
                log.expect_reader(7);
                log.set_exit(Ok(3), Cause::Itself, 5);
                log.begin_again();
                assert_eq!((log.head(), log.has_exit(), log.due()), (0, false, None));
            }
        }
    }
}
