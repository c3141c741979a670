//! The holder's side of a log: reads descriptors into the ring.
//!
//! Readers rely on this order of stores: raise `tail` → overwrite → write the chunk mark → raise the mark head → raise
//! `head`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::lease::{self, LeaseKind, LeaseSlot};
use super::map::Map;
use super::{
    AT_BLOCKED, AT_BUDGET, AT_CAPACITY, AT_EXIT, AT_EXIT_OFFSET, AT_EXITED_AT, AT_GENERATION, AT_HEAD, AT_INPUT_OFFSET,
    AT_MAGIC, AT_MARK_HEAD, AT_MARK_SLOTS, AT_MARK_TAIL, AT_OPEN_STREAMS, AT_RESERVE, AT_TAIL, AT_WAKEUP_OFFSET,
    AT_WAKEUP_REQUESTED, CHUNK_BYTES, Cause, LogStart, MAGIC, MARK_BYTES, PAGE, Sizes, Stream, pack_exit,
};
use crate::clock;

/// A shorter read has probably emptied the descriptor. It is published at once, so that interactive output never waits
/// for a further read.
const SHORT_READ_BYTES: usize = 2048;

/// Chunk marks reserved for the drain after an exit when a lease blocks the writer.
const DRAIN_MARKS: u64 = 16;

/// The state of a descriptor after one turn of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOutcome {
    /// Empty at the moment.
    Idle,
    /// The turn's budget is used up; there may be more.
    More,
    /// A lease stops the program; call again at `next_lease_deadline` or when a reader resumes.
    Blocked,
    /// End of file, or the last process has closed the terminal.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    UntilShortRead,
    /// A terminal returns its bytes in pieces: only EAGAIN proves that it is empty.
    UntilEmpty,
}

pub struct LogWriter {
    map: Map,
    file: OwnedFd,
    sizes: Sizes,
}

impl LogWriter {
    pub fn create(budget: u64, reserve: u64, start: LogStart) -> io::Result<Self> {
        let sizes = Sizes::for_budget(budget, reserve);
        let file = memfd_create("outlive-log", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, sizes.file_len() as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = Map::new(file.as_fd(), sizes.file_len())?;
        let log = Self { map, file, sizes };
        log.init_header(start);
        Ok(log)
    }

    fn init_header(&self, start: LogStart) {
        for (at, value) in [
            (AT_CAPACITY, self.sizes.capacity),
            (AT_MARK_SLOTS, self.sizes.mark_slots),
            (AT_BUDGET, self.sizes.budget),
            (AT_RESERVE, self.sizes.reserve),
            (AT_HEAD, start.offset),
            (AT_TAIL, start.offset),
            (AT_MARK_HEAD, start.mark),
            (AT_MARK_TAIL, start.mark),
            (AT_INPUT_OFFSET, start.input),
            (AT_OPEN_STREAMS, 1),
            (AT_GENERATION, 1),
            (AT_MAGIC, MAGIC),
        ] {
            self.word(at).store(value, SeqCst);
        }
    }

    /// Resets the log to its initial state. Only for a log that was never sent to a server.
    pub fn reset(&self) {
        for at in (0..PAGE).step_by(size_of::<u64>()) {
            self.word(at).store(0, Relaxed);
        }
        self.init_header(LogStart::default());
    }

    pub fn has_sizes(&self, budget: u64, reserve: u64) -> bool {
        self.sizes == Sizes::for_budget(budget, reserve)
    }

    /// Opens an existing log, after the holder has re-executed itself.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let sizes = read_sizes(file.as_fd())?;
        let map = Map::new(file.as_fd(), sizes.file_len())?;
        Ok(Self { map, file, sizes })
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    #[cfg(test)]
    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.map.word(at)
    }

    pub fn head(&self) -> u64 {
        self.word(AT_HEAD).load(Relaxed)
    }

    /// The whole output from the first byte on, as stdout and stderr; `None` when it is longer than `max_bytes` or
    /// partly overwritten.
    pub fn output_by_stream(&self, max_bytes: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let head = usize::try_from(self.head()).ok().filter(|head| *head <= max_bytes)?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if head == 0 {
            return Some((stdout, stderr));
        }
        let mut bytes = vec![0; head];
        let is_complete = rustix::io::pread(&self.file, &mut bytes, self.sizes.data_start() as u64) == Ok(head);
        if !is_complete || self.word(AT_TAIL).load(Relaxed) > 0 || self.word(AT_MARK_TAIL).load(Relaxed) > 0 {
            return None;
        }
        let marks = self.word(AT_MARK_HEAD).load(Relaxed);
        for mark in 0..marks {
            let start = self.mark_word(mark).load(Relaxed) as usize;
            let end = if mark + 1 < marks { self.mark_word(mark + 1).load(Relaxed) as usize } else { head };
            let stream = Stream::from_u8(self.word(self.mark_at(mark) + 8).load(Relaxed) as u8)?;
            let output = if stream == Stream::Stderr { &mut stderr } else { &mut stdout };
            output.extend_from_slice(bytes.get(start..end)?);
        }
        Some((stdout, stderr))
    }

    /// Reads the available bytes of `source` into the ring and publishes them as one chunk.
    pub fn record(&self, source: BorrowedFd<'_>, stream: Stream) -> RecordOutcome {
        self.record_at(clock::boot_ms(), source, stream)
    }

    /// As [`record`](Self::record), at the boot-clock time `now`.
    pub fn record_at(&self, now: u64, source: BorrowedFd<'_>, stream: Stream) -> RecordOutcome {
        if let Some(end) = self.next_read_end(now) {
            return self.record_up_to(source, stream, end, ReadMode::UntilShortRead);
        }
        // Announce that the writer is blocked, then check again: a reader may have advanced its lease in between.
        self.word(AT_BLOCKED).store(1, SeqCst);
        match self.next_read_end(now) {
            // The announcement stays: another stream of this log may be blocked as well.
            Some(end) => self.record_up_to(source, stream, end, ReadMode::UntilShortRead),
            None => RecordOutcome::Blocked,
        }
    }

    /// The offset up to which this turn may read; `None` when a lease stops the program.
    ///
    /// A turn reads only into the free part of the ring, so it overwrites no byte from the tail on. A lease that is
    /// acquired during the turn can protect only such bytes: older ones are gone.
    fn next_read_end(&self, now: u64) -> Option<u64> {
        self.enforce_budget();
        let free_end = self.word(AT_TAIL).load(Relaxed) + self.sizes.capacity;
        let end = self.lease_limit(now).min(free_end).min(self.head() + CHUNK_BYTES as u64);
        (end > self.head()).then_some(end)
    }

    /// Records the rest after an exit. It may use the reserve, and beyond it overwrites leased bytes: an exit does not
    /// wait for readers.
    pub fn drain(&self, source: BorrowedFd<'_>, stream: Stream, max_bytes: usize) -> RecordOutcome {
        self.enforce_budget();
        let end = self.head() + max_bytes as u64;
        loop {
            let turn_end = end.min(self.head() + CHUNK_BYTES as u64);
            match self.record_up_to(source, stream, turn_end, ReadMode::UntilEmpty) {
                RecordOutcome::More if self.head() < end => {}
                other => return other,
            }
        }
    }

    fn record_up_to(&self, source: BorrowedFd<'_>, stream: Stream, end: u64, mode: ReadMode) -> RecordOutcome {
        let start = self.head();
        let mut head = start;
        let outcome = loop {
            if head >= end {
                break RecordOutcome::More;
            }
            let position = (head % self.sizes.capacity) as usize;
            let len = ((end - head) as usize).min(self.sizes.capacity as usize - position);
            self.discard_before((head + len as u64).saturating_sub(self.sizes.capacity));
            match self.map.read_into(source, self.sizes.data_start() + position, len) {
                Ok(0) => break RecordOutcome::Ended,
                Ok(count) => {
                    head += count as u64;
                    if mode == ReadMode::UntilShortRead && count < SHORT_READ_BYTES && count < len {
                        break RecordOutcome::Idle;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break RecordOutcome::Idle,
                // A PTY master reports EIO when the last slave has been closed.
                Err(_) => break RecordOutcome::Ended,
            }
        };
        if head > start {
            self.publish(start, head, stream);
        }
        outcome
    }

    fn publish(&self, start: u64, head: u64, stream: Stream) {
        let mark = self.word(AT_MARK_HEAD).load(Relaxed);
        let oldest = self.word(AT_MARK_TAIL).load(Relaxed);
        if mark - oldest >= self.sizes.mark_slots {
            // No mark slot is left: the oldest chunk is discarded although its bytes would fit.
            self.discard_before(self.mark_word(oldest + 1).load(Relaxed));
        }
        self.mark_word(mark).store(start, Relaxed);
        self.map.word(self.mark_at(mark) + 8).store(clock::wall_ms() << 8 | stream as u64, Relaxed);
        self.word(AT_MARK_HEAD).store(mark + 1, SeqCst);
        self.word(AT_HEAD).store(head, SeqCst);
        self.enforce_budget();
    }

    /// Discards bytes beyond the budget that no lease protects.
    fn enforce_budget(&self) {
        let over_budget = self.head().saturating_sub(self.sizes.budget);
        if over_budget > self.word(AT_TAIL).load(Relaxed) {
            let leased = LeaseSlot::all(&self.map).filter_map(|slot| slot.offset()).min().unwrap_or(u64::MAX);
            self.discard_before(over_budget.min(leased));
        }
    }

    /// Raises the tails: the bytes before `offset` are given up, and may be overwritten.
    fn discard_before(&self, offset: u64) {
        if offset <= self.word(AT_TAIL).load(Relaxed) {
            return;
        }
        self.word(AT_TAIL).store(offset, SeqCst);
        let marks = self.word(AT_MARK_HEAD).load(Relaxed);
        let mut oldest = self.word(AT_MARK_TAIL).load(Relaxed);
        while oldest + 1 < marks && self.mark_word(oldest + 1).load(Relaxed) <= offset {
            oldest += 1;
        }
        self.word(AT_MARK_TAIL).store(oldest, SeqCst);
        // Both stores must be visible before the bytes are overwritten.
        fence(SeqCst);
    }

    fn mark_at(&self, mark: u64) -> usize {
        PAGE + (mark % self.sizes.mark_slots) as usize * MARK_BYTES
    }

    fn mark_word(&self, mark: u64) -> &AtomicU64 {
        self.word(self.mark_at(mark))
    }

    /// The offset up to which the leases let the holder read the program's output.
    ///
    /// A lease stops the program when the bytes after it fill the window, or when too few mark slots are left. From
    /// then on its reader must make progress within the stall timeout of its kind (a client: half a window), until it
    /// has caught up: a client that reads just enough to unblock the program for a moment is still timed.
    fn lease_limit(&self, now: u64) -> u64 {
        let head = self.head();
        let window = self.sizes.capacity - self.sizes.reserve;
        let half_window = window / 2;
        // Marks can run out before the bytes do. This turn adds one, and a drain after an exit must find its marks
        // free: a lease before `needed` would lose its chunk.
        let needed = self.oldest_chunk_after_adding(1 + DRAIN_MARKS);
        // Caught up means: less than a quarter of the window is unread, and the lease blocks none of the next quarter
        // of the marks. The lease of a reader at the head passes: `lease_target` leaves it half of the marks behind.
        let recent = self.oldest_chunk_after_adding(self.sizes.mark_slots / 4);
        let mut limit = u64::MAX;
        for slot in LeaseSlot::all(&self.map) {
            let Some(leased) = slot.offset() else { continue };
            let allowed = if leased < needed { head } else { leased.saturating_add(window) };
            if allowed <= head {
                if slot.check_or_revoke(now, half_window) {
                    limit = limit.min(allowed);
                }
            } else {
                if leased >= recent && head.saturating_sub(slot.read_to()) < half_window / 2 {
                    slot.reset_stall_timer();
                }
                limit = limit.min(allowed);
            }
        }
        limit
    }

    /// Offset of the oldest chunk that remains after `count` more have been added.
    fn oldest_chunk_after_adding(&self, count: u64) -> u64 {
        let marks = self.word(AT_MARK_HEAD).load(Relaxed);
        match (marks + count).checked_sub(self.sizes.mark_slots) {
            Some(oldest) if oldest > self.word(AT_MARK_TAIL).load(Relaxed) => self.mark_word(oldest).load(Relaxed),
            _ => 0,
        }
    }

    /// When a blocked log must be tried again even if no reader resumes it.
    pub fn next_lease_deadline(&self) -> Option<u64> {
        LeaseSlot::all(&self.map).filter_map(|slot| slot.deadline()).min()
    }

    /// Whether a sleeping reader must be woken. Resets the request.
    pub fn take_wakeup_request(&self) -> bool {
        self.word(AT_WAKEUP_REQUESTED).load(SeqCst) != 0 && self.word(AT_WAKEUP_REQUESTED).swap(0, SeqCst) != 0
    }

    /// Whether the head has reached the offset of a requested wake-up. Resets the request.
    pub fn take_offset_request(&self) -> bool {
        let offset = self.word(AT_WAKEUP_OFFSET).load(Relaxed);
        // Not reset if another offset has been requested in the meantime.
        offset != 0
            && self.head() >= offset
            && self.word(AT_WAKEUP_OFFSET).compare_exchange(offset, 0, SeqCst, Relaxed).is_ok()
    }

    /// Publishes how many descriptors can still write to this log. Raise it before a descriptor is recorded, and lower
    /// it after its last byte.
    pub fn set_open_streams(&self, count: usize) {
        self.word(AT_OPEN_STREAMS).store(count as u64 + 1, SeqCst);
    }

    /// Reserves a lease at the head for a reader of this server that will attach soon.
    pub fn reserve_lease(&self, kind: LeaseKind, epoch: u32) {
        lease::reserve(&self.map, kind, epoch, self.head(), clock::boot_ms());
    }

    pub fn abandon_leases_of(&self, epoch: u32) {
        lease::abandon_epoch(&self.map, epoch, clock::boot_ms());
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

    /// Continues the log with the next generation, at a restart in place.
    pub fn start_generation(&self, generation: u32) {
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
    // The expected length overflows unless the sizes are plausible.
    let is_log = filled == header.len() && word(AT_MAGIC) == MAGIC && sizes.is_plausible() && len >= sizes.file_len();
    if !is_log {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not an outlive log"));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::super::lease::LeaseId;
    use super::*;

    // Regression: the file length was computed, and overflowed, before the sizes were checked.
    #[test]
    fn implausible_sizes_are_rejected() {
        let file = memfd_create("log", MemfdFlags::CLOEXEC).unwrap();
        for at in [AT_CAPACITY, AT_MARK_SLOTS, AT_BUDGET, AT_RESERVE] {
            rustix::io::pwrite(&file, &u64::MAX.to_le_bytes(), at as u64).unwrap();
        }
        rustix::io::pwrite(&file, &MAGIC.to_le_bytes(), AT_MAGIC as u64).unwrap();
        assert_eq!(read_sizes(file.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_reserved_lease_keeps_all_bytes_for_an_expected_reader() {
        let budget = 64 * 1024;
        let log = LogWriter::create(budget, 0, LogStart::default()).unwrap();
        log.reserve_lease(LeaseKind::Client, 7);
        let reader = super::super::LogReader::open(log.file().try_clone_to_owned().unwrap()).unwrap();
        let (out, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        loop {
            while rustix::io::write(&program, &[b'x'; 4096]).is_ok() {}
            if log.record(out.as_fd(), Stream::Stdout) == RecordOutcome::Blocked {
                break;
            }
        }
        assert_eq!(reader.tail(), 0, "no byte is overwritten");
        assert!(log.head() >= budget, "the program is not stopped early");
        // The reader attaches and reclaims the reserved lease.
        assert_eq!(reader.acquire_lease(LeaseId::new(7, 1), 0, true), Some(true), "the writer must be resumed");
        assert_eq!(LeaseSlot::all(&log.map).filter(|slot| slot.offset().is_some()).count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn output_is_returned_by_stream(
            generations in proptest::collection::vec(
                proptest::collection::vec((proptest::bool::ANY, 1..3000usize), 0..20),
                1..4,
            ),
            max_bytes in 1..40_000usize,
        ) {
            let log = LogWriter::create(64 * 1024, 0, LogStart::default()).unwrap();
            let (out, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
            for chunks in generations {
                let mut expected = (Vec::new(), Vec::new());
                for (number, (is_stderr, len)) in (0u8..).zip(chunks) {
                    let bytes = vec![number; len];
                    assert_eq!(rustix::io::write(&program, &bytes), Ok(len));
                    let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
                    log.record(out.as_fd(), stream);
                    if is_stderr { &mut expected.1 } else { &mut expected.0 }.extend(bytes);
                }
                let fits = expected.0.len() + expected.1.len() <= max_bytes;
                assert_eq!(log.output_by_stream(max_bytes), fits.then_some(expected));
                log.reserve_lease(LeaseKind::Client, 7);
                log.set_exit(Ok(3), Cause::SelfExit, 5);
                log.reset();
                assert_eq!((log.head(), log.has_exit(), log.next_lease_deadline()), (0, false, None));
            }
        }
    }
}
