//! The output of one process on its way from the ring to the store.
//!
//! It is a lossless reader of the log with a lease of its own kind. The lease is lost when the disk makes no progress,
//! and given up when it slows the program down too much (`pace`). Then the ring may overwrite bytes that were not stored:
//! the next piece starts later, which readers see as a gap.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use outlive_history::{ChunkMark, Piece, Store};
use outlive_holder::log::LogReader;
use outlive_holder::log::lease::{LeaseId, LeaseKind};

use super::Shared;
use super::pace::{Observation, Pace, Verdict};
use super::tap::Tap;
use crate::log::Log;

/// Bytes of one piece.
pub(super) const PIECE_BYTES: usize = 256 * 1024;
/// Bytes that one busy program may store before it is the turn of another.
const TURN_BYTES: u64 = 1 << 20;
/// The writer is woken at the latest when this part of the window is not stored.
const WAKE_WINDOW_PARTS: u64 = 4;
/// The program counts as stopped when the window has less room than this.
const MAX_FULL_MARGIN: u64 = 512 * 1024;

/// Serial numbers of leases; those of other readers are far smaller.
static NEXT_LEASE_SERIAL: AtomicU32 = AtomicU32::new(1 << 31);

/// One output that is being stored.
pub(super) struct Output {
    id: String,
    pub(super) tap: Arc<Tap>,
    log: Arc<Log>,
    /// Everything before is stored, or lost.
    offset: u64,
    lease: Option<LeaseId>,
    pace: Pace,
    /// No lease before: it slowed the program down too much.
    paused_until: Option<Instant>,
    pub(super) ending: Ending,
    /// It is in the writer's queue.
    pub(super) is_queued: bool,
    /// When the writer queues it, if nothing else happens.
    pub(super) timer: Option<Instant>,
}

/// Whether more output is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Running,
    /// The process has exited; a background child may still write.
    Exited,
    /// The process was removed.
    Removed,
}

/// Where a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEnd {
    /// There is more.
    More,
    CaughtUp,
    /// The lease was given up or lost; nothing is read before this time, unless the process ends.
    Paused(Instant),
    /// A limit of the store is reached: there is more room after the next maintenance.
    Full,
}

/// Space for one piece, used for all outputs.
pub(super) struct PieceBuffer {
    bytes: Vec<u8>,
    marks: Vec<ChunkMark>,
}

impl PieceBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), marks: Vec::new() }
    }

    /// Releases the memory of large pieces: most programs print little.
    pub(super) fn trim(&mut self) {
        self.bytes = Vec::new();
        self.marks = Vec::new();
    }
}

impl Output {
    /// `Ok(None)`: the log is not in a ring, so all of it is stored, or lost.
    pub(super) fn open(
        shared: &Shared,
        store: &Store,
        id: String,
        tap: Arc<Tap>,
        log: Arc<Log>,
    ) -> io::Result<Option<Self>> {
        let span = store.span(&id)?;
        tap.set_span(&span);
        if let Some(open) = shared.store.get() {
            log.attach_history(open.reader.open_log(&id, Arc::clone(&span)));
        }
        let Some(ring) = log.ring() else { return Ok(None) };
        let (start, end) = (span.start.load(Acquire), span.end.load(Acquire));
        let offset = if end > start { end } else { ring.tail() };
        let pace = Pace::new(ring.window());
        let mut output = Self {
            id,
            tap,
            log: Arc::clone(&log),
            offset,
            lease: None,
            pace,
            paused_until: None,
            ending: Ending::Running,
            is_queued: false,
            timer: None,
        };
        output.ensure_lease(shared, ring);
        Ok(Some(output))
    }

    pub(super) fn is_of(&self, log: &Arc<Log>) -> bool {
        Arc::ptr_eq(&self.log, log)
    }

    /// Stores up to `TURN_BYTES`.
    pub(super) fn take_turn(
        &mut self,
        shared: &Shared,
        store: &Store,
        buffer: &mut PieceBuffer,
    ) -> io::Result<TurnEnd> {
        let log = Arc::clone(&self.log);
        let Some(ring) = log.ring() else { return Ok(TurnEnd::CaughtUp) };
        if let Some(until) = self.paused_until {
            if until > Instant::now() && self.ending == Ending::Running {
                return Ok(TurnEnd::Paused(until));
            }
            self.paused_until = None;
        }
        self.ensure_lease(shared, ring);
        if let Verdict::GiveUp { pause } = self.pace.observe(self.observation(shared, ring)) {
            self.release_lease(shared);
            return Ok(self.pause(pause));
        }
        let turn_end = self.offset + TURN_BYTES;
        while self.offset < turn_end {
            if !self.read_piece(shared, ring, buffer) {
                return Ok(TurnEnd::CaughtUp);
            }
            if buffer.bytes.is_empty() {
                continue;
            }
            if !store.has_room(&self.id) {
                return Ok(TurnEnd::Full);
            }
            store.append(&Piece {
                process: &self.id,
                offset: self.offset,
                marks: &buffer.marks,
                bytes: &buffer.bytes,
            })?;
            self.offset += buffer.bytes.len() as u64;
            if !self.advance_lease(shared, ring) {
                let pause = self.pace.revoked();
                return Ok(self.pause(pause));
            }
        }
        Ok(TurnEnd::More)
    }

    /// Reads the next bytes and their marks. Empty if they have been overwritten: the offset is then a later one. False
    /// at the head.
    fn read_piece(&mut self, shared: &Shared, ring: &LogReader, buffer: &mut PieceBuffer) -> bool {
        buffer.bytes.clear();
        buffer.marks.clear();
        match ring.read_at(self.offset, PIECE_BYTES, &mut buffer.bytes) {
            Ok(0) => return false,
            Ok(count) => {
                if collect_marks(ring, self.offset, self.offset + count as u64, &mut buffer.marks) {
                    return true;
                }
            }
            Err(_) => {}
        }
        buffer.bytes.clear();
        self.skip_to(shared, ring.tail());
        true
    }

    fn skip_to(&mut self, shared: &Shared, offset: u64) {
        if offset > self.offset {
            tracing::debug!(
                process = self.id,
                from = self.offset,
                to = offset,
                "output was overwritten before it was stored"
            );
            shared.gaps.fetch_add(1, Relaxed);
            self.offset = offset;
        }
    }

    fn observation(&self, shared: &Shared, ring: &LogReader) -> Observation {
        let (head, window) = (ring.head(), ring.window());
        let lag = head.saturating_sub(self.offset);
        let is_full = lag >= window - MAX_FULL_MARGIN.min(window / 4) || ring.is_blocked() && lag >= window / 2;
        Observation {
            at: shared.opened_at.elapsed(),
            head,
            stored: self.offset,
            is_stopped: is_full && self.lease.is_some(),
        }
    }

    fn pause(&mut self, pause: Duration) -> TurnEnd {
        let until = Instant::now() + pause;
        self.paused_until = Some(until);
        TurnEnd::Paused(until)
    }

    // ---- the lease ----

    fn ensure_lease(&mut self, shared: &Shared, ring: &LogReader) {
        if self.lease.is_some() || self.ending == Ending::Removed {
            return;
        }
        let lease = LeaseId::new(shared.link.epoch(), NEXT_LEASE_SERIAL.fetch_add(1, Relaxed));
        let offset = self.offset.max(ring.tail());
        // Without a free slot the output is read without a lease, and may have gaps.
        if let Some(must_resume) = ring.acquire_lease_of(LeaseKind::History, lease, offset, true) {
            self.lease = Some(lease);
            self.resume_if(shared, must_resume);
        }
        self.skip_to(shared, ring.tail());
    }

    /// False: the lease was revoked.
    fn advance_lease(&mut self, shared: &Shared, ring: &LogReader) -> bool {
        let Some(lease) = self.lease else { return true };
        let Some(must_resume) = ring.advance_lease(lease, self.offset, self.offset) else {
            self.lease = None;
            return false;
        };
        self.resume_if(shared, must_resume);
        true
    }

    pub(super) fn release_lease(&mut self, shared: &Shared) {
        if let (Some(lease), Some(ring)) = (self.lease.take(), self.log.ring()) {
            let must_resume = ring.release_lease(lease);
            self.resume_if(shared, must_resume);
        }
    }

    /// Leaves the lease for the next server.
    pub(super) fn abandon_lease(&mut self) {
        if let (Some(lease), Some(ring)) = (self.lease.take(), self.log.ring()) {
            ring.abandon_lease(lease);
        }
    }

    fn resume_if(&self, shared: &Shared, must_resume: bool) {
        if must_resume {
            shared.link.resume(self.tap.key);
        }
    }

    // ---- waiting for more ----

    /// Whether everything is stored, and nothing will be added.
    pub(super) fn is_complete(&self) -> bool {
        let is_at_head = self.log.ring().is_none_or(|ring| ring.head() <= self.offset);
        match self.ending {
            Ending::Running => false,
            Ending::Exited => is_at_head && !self.log.has_open_writers(),
            Ending::Removed => is_at_head,
        }
    }

    /// Requests a wake-up at the next byte, and when much is not stored. False: there is a next byte already.
    pub(super) fn wait_for_output(&self) -> bool {
        let Some(ring) = self.log.ring() else { return true };
        self.tap.wait_for(self.offset + 1, self.offset);
        self.log.wake_history_at(self.busy_offset(ring));
        ring.request_wakeup();
        ring.head() <= self.offset
    }

    /// Waits until much is not stored; the first bytes are stored after a delay anyway. False: that is already the case.
    pub(super) fn wait_until_busy(&self) -> bool {
        let Some(ring) = self.log.ring() else { return true };
        let due = self.busy_offset(ring);
        self.tap.wait_for(due, self.offset);
        ring.head() < due && !ring.is_blocked()
    }

    fn busy_offset(&self, ring: &LogReader) -> u64 {
        self.offset + ring.window() / WAKE_WINDOW_PARTS
    }
}

/// Collects the marks of all chunks that overlap the bytes. False: some have been overwritten.
fn collect_marks(ring: &LogReader, start: u64, end: u64, marks: &mut Vec<ChunkMark>) -> bool {
    let Some(first) = ring.mark_of(start) else { return false };
    for number in first..ring.marks().end {
        match ring.mark(number) {
            Some(mark) if mark.offset >= end => break,
            Some(mark) => marks.push(mark),
            None => return false,
        }
    }
    marks.first().is_some_and(|mark| mark.offset <= start)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use outlive_holder::log::{LogStart, LogWriter, Stream};

    use super::*;

    #[test]
    fn marks_are_those_of_all_chunks_that_overlap_a_piece() {
        let writer = LogWriter::create(1 << 20, 0, LogStart::default()).unwrap();
        let ring = LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap();
        let (output, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        for count in [10, 20, 30] {
            rustix::io::write(&program, &vec![b'x'; count]).unwrap();
            writer.record(output.as_fd(), Stream::Stdout);
        }
        let sequences = |start, end| {
            let mut marks = Vec::new();
            assert!(collect_marks(&ring, start, end, &mut marks));
            marks.iter().map(|mark| mark.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(0, 60), [1, 2, 3]);
        assert_eq!(sequences(9, 10), [1]);
        assert_eq!(sequences(10, 30), [2]);
        assert_eq!(sequences(15, 31), [2, 3]);
    }
}
