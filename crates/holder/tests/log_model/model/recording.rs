//! The writer's side: what is printed is recorded, unless a hold stops it.

use std::os::fd::AsFd;

use outlive_holder::clock;
use outlive_holder::log::hold::{LEAVE_MS, STALL_MS};
use outlive_holder::log::{CHUNK_BYTES, Recorded};

use super::World;
use crate::printed::STREAMS;

impl World {
    /// What the log has taken from a pipe since the last look.
    fn account(&mut self, stream: usize) {
        let before = self.bytes.len() as u64;
        let head = self.writer.head();
        assert!(head >= before);
        let taken = (head - before) as usize;
        let waiting = &mut self.sources[stream].waiting;
        assert!(taken <= waiting.len(), "recorded more than was printed");
        self.bytes.extend(waiting.drain(..taken));
        // One mark per chunk, and no chunk is longer than one turn.
        let chunks = self.reader.marks().end - self.marks.len() as u64;
        if chunks > 0 {
            let oldest_held = self.holds().iter().map(|(_, held)| *held).min().unwrap_or(u64::MAX);
            let due = head.saturating_sub(self.reader.budget()).min(oldest_held);
            assert!(self.reader.tail() >= due, "budget exceeded: {}..{head}", self.reader.tail());
        }
        assert_eq!(chunks, (head - before).div_ceil(CHUNK_BYTES as u64), "one mark per turn");
        self.marks.extend((before..head).step_by(CHUNK_BYTES).map(|at| (at, STREAMS[stream])));
    }

    pub(super) fn record(&mut self, stream: usize) -> Recorded {
        let before = self.holds();
        let now = clock::boot_ms() + self.later;
        let outcome = self.writer.record_at(now, self.sources[stream].read.as_fd(), STREAMS[stream]);
        self.account(stream);
        if outcome == Recorded::Blocked {
            assert!(
                self.holds().iter().any(|(_, held)| self.stops(*held)),
                "blocked although no hold is in the way: head {} holds {before:?}",
                self.bytes.len()
            );
        }
        outcome
    }

    pub(super) fn flood(&mut self, stream: usize, count: usize) {
        let end = self.bytes.len() + count;
        while self.bytes.len() < end {
            if self.sources[stream].waiting.is_empty() {
                self.sources[stream].print(STREAMS[stream], (end - self.bytes.len()).min(70_000));
            }
            if self.record(stream) == Recorded::Blocked {
                return;
            }
        }
    }

    pub(super) fn trickle(&mut self, chunks: usize, size: usize) {
        for number in 0..chunks {
            let stream = number % 2;
            if self.sources[stream].waiting.is_empty() {
                self.sources[stream].print(STREAMS[stream], size);
            }
            if self.record(stream) == Recorded::Blocked {
                return;
            }
        }
    }

    pub(super) fn drain(&mut self, stream: usize, most: usize) {
        self.sources[stream].print(STREAMS[stream], most);
        let waiting = self.sources[stream].waiting.len();
        self.writer.drain(self.sources[stream].read.as_fd(), STREAMS[stream], waiting);
        self.account(stream);
        assert!(self.sources[stream].waiting.is_empty(), "a drain takes what was there");
        let head = self.bytes.len() as u64;
        self.overrun = self.overrun.max(head.saturating_sub(self.reader.capacity()));
    }

    /// Time passes until every reader that stops the program has lost its right to.
    pub(super) fn record_much_later(&mut self, stream: usize) {
        self.sources[stream].print(STREAMS[stream], 1);
        let innocent: Vec<_> = self.holds().into_iter().filter(|(_, held)| !self.stops(*held)).collect();
        // The first look opens the window of those that stop it; the second is after its end.
        while self.record(stream) != Recorded::Blocked {
            if self.sources[stream].waiting.is_empty() {
                return;
            }
        }
        self.later = LEAVE_MS.max(STALL_MS) + 1;
        let outcome = self.record(stream);
        self.later = 0;
        assert_ne!(outcome, Recorded::Blocked, "nobody may stop a program for longer");
        for (token, held) in innocent {
            assert!(self.stops(held) || self.reader.holds(token), "voided without a reason: {held}");
        }
        let log = &self.reader;
        self.left.retain(|left| log.holds(left.token));
        for reader in &mut self.readers {
            if reader.hold.is_some_and(|(token, _)| !log.holds(token)) {
                reader.hold = None;
            }
        }
    }
}
