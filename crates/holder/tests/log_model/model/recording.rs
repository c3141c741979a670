//! The writer's side: output is recorded unless a lease blocks it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use outlive_holder::clock;
use outlive_holder::log::lease::{RECLAIM_TIMEOUT_MS, STALL_TIMEOUT_MS};
use outlive_holder::log::{CHUNK_BYTES, RecordOutcome, Stream};

use super::World;
use crate::pattern::{STREAMS, pattern, pipe, write_all};

/// One output stream of a program, with a real pipe.
pub(super) struct OutputSource {
    read: OwnedFd,
    write: OwnedFd,
    /// Written by the program, not yet recorded.
    unrecorded: VecDeque<u8>,
    written: u64,
}

impl OutputSource {
    pub(super) fn new() -> Self {
        let (read, write) = pipe();
        Self { read, write, unrecorded: VecDeque::new(), written: 0 }
    }

    pub(super) fn print(&mut self, stream: Stream, count: usize) {
        // Writes do not share pages of a pipe, so the bound leaves space for the worst case.
        let count = count.min((256 * 1024usize).saturating_sub(self.unrecorded.len()));
        let seed = (stream as u64) << 40;
        let bytes: Vec<u8> = (0..count as u64).map(|at| pattern(seed + self.written + at)).collect();
        write_all(&self.write, &bytes);
        self.written += count as u64;
        self.unrecorded.extend(bytes);
    }
}

impl World {
    /// Updates the model by the bytes that the log has read since the last call.
    fn update_model(&mut self, stream: usize) {
        let before = self.bytes.len() as u64;
        let head = self.writer.head();
        assert!(head >= before);
        let count = (head - before) as usize;
        let unrecorded = &mut self.sources[stream].unrecorded;
        assert!(count <= unrecorded.len(), "recorded more than was printed");
        self.bytes.extend(unrecorded.drain(..count));
        let chunks = self.reader.marks().end - self.marks.len() as u64;
        if chunks > 0 {
            let oldest_lease = self.leases().iter().map(|(_, offset)| *offset).min().unwrap_or(u64::MAX);
            let due = head.saturating_sub(self.reader.budget()).min(oldest_lease);
            assert!(self.reader.tail() >= due, "budget exceeded: {}..{head}", self.reader.tail());
        }
        assert_eq!(chunks, (head - before).div_ceil(CHUNK_BYTES as u64), "one mark per chunk");
        self.marks.extend((before..head).step_by(CHUNK_BYTES).map(|at| (at, STREAMS[stream])));
    }

    pub(super) fn record(&mut self, stream: usize) -> RecordOutcome {
        let before = self.leases();
        let now = clock::boot_ms() + self.clock_skew_ms;
        let outcome = self.writer.record_at(now, self.sources[stream].read.as_fd(), STREAMS[stream]);
        self.update_model(stream);
        if outcome == RecordOutcome::Blocked {
            assert!(
                self.leases().iter().any(|(_, offset)| self.is_blocked_by(*offset)),
                "blocked although no lease is in the way: head {} leases {before:?}",
                self.bytes.len()
            );
        }
        outcome
    }

    pub(super) fn flood(&mut self, stream: usize, count: usize) {
        let end = self.bytes.len() + count;
        while self.bytes.len() < end {
            if self.sources[stream].unrecorded.is_empty() {
                self.sources[stream].print(STREAMS[stream], (end - self.bytes.len()).min(70_000));
            }
            if self.record(stream) == RecordOutcome::Blocked {
                return;
            }
        }
    }

    pub(super) fn trickle(&mut self, chunks: usize, size: usize) {
        for number in 0..chunks {
            let stream = number % 2;
            if self.sources[stream].unrecorded.is_empty() {
                self.sources[stream].print(STREAMS[stream], size);
            }
            if self.record(stream) == RecordOutcome::Blocked {
                return;
            }
        }
    }

    pub(super) fn drain(&mut self, stream: usize, count: usize) {
        self.sources[stream].print(STREAMS[stream], count);
        let available = self.sources[stream].unrecorded.len();
        self.writer.drain(self.sources[stream].read.as_fd(), STREAMS[stream], available);
        self.update_model(stream);
        assert!(self.sources[stream].unrecorded.is_empty(), "a drain records all available bytes");
        let head = self.bytes.len() as u64;
        self.drained_to = self.drained_to.max(head.saturating_sub(self.reader.capacity()));
    }

    /// Records after the timeouts of all leases that block the writer.
    pub(super) fn record_after_timeouts(&mut self, stream: usize) {
        self.sources[stream].print(STREAMS[stream], 1);
        let not_blocking: Vec<_> =
            self.leases().into_iter().filter(|(_, offset)| !self.is_blocked_by(*offset)).collect();
        // The first attempt starts the stall timers of the blocking leases; the second one is after their end.
        while self.record(stream) != RecordOutcome::Blocked {
            if self.sources[stream].unrecorded.is_empty() {
                return;
            }
        }
        self.clock_skew_ms = RECLAIM_TIMEOUT_MS.max(STALL_TIMEOUT_MS) + 1;
        let outcome = self.record(stream);
        self.clock_skew_ms = 0;
        assert_ne!(outcome, RecordOutcome::Blocked, "no lease may block the writer for longer");
        for (id, offset) in not_blocking {
            assert!(self.is_blocked_by(offset) || self.reader.has_lease(id), "revoked without a reason: {offset}");
        }
        let log = &self.reader;
        self.abandoned.retain(|abandoned| log.has_lease(abandoned.id));
        for reader in &mut self.readers {
            if reader.lease.is_some_and(|(id, _)| !log.has_lease(id)) {
                reader.lease = None;
            }
        }
    }
}
