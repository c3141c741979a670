//! The log against a naive model that keeps everything.

mod operations;
mod reading;
mod recording;

use outlive_holder::log::lease::LeaseId;
use outlive_holder::log::{LogReader, LogStart, LogWriter, Stream};
use proptest::prelude::*;

use self::operations::{Op, op};
use self::recording::OutputSource;
use crate::pattern::{RESERVE, STREAMS};

const DRAIN_MARKS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Reader {
    offset: u64,
    /// The id and offset of its lease.
    lease: Option<(LeaseId, u64)>,
    epoch: u32,
}

/// A lease whose reader is lost.
#[derive(Clone, Copy, Debug)]
struct AbandonedLease {
    id: LeaseId,
    lease_offset: u64,
    /// How far its reader had read.
    read_to: u64,
}

struct World {
    writer: LogWriter,
    reader: LogReader,
    sources: [OutputSource; 2],
    /// Everything that was ever recorded.
    bytes: Vec<u8>,
    marks: Vec<(u64, Stream)>,
    readers: Vec<Reader>,
    abandoned: Vec<AbandonedLease>,
    epoch: u32,
    serial: u32,
    /// How far the writer's clock is ahead of the real one.
    clock_skew_ms: u64,
    mark_slots: u64,
    /// Up to this offset a drain may have overwritten leased bytes.
    drained_to: u64,
}

impl World {
    fn new(budget: u64) -> Self {
        let writer = LogWriter::create(budget, RESERVE, LogStart::default()).unwrap();
        let reader = LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap();
        let mark_slots = (reader.capacity() / 64).next_multiple_of(256);
        Self {
            writer,
            reader,
            sources: [OutputSource::new(), OutputSource::new()],
            bytes: Vec::new(),
            marks: Vec::new(),
            readers: Vec::new(),
            abandoned: Vec::new(),
            epoch: 1,
            serial: 1,
            clock_skew_ms: 0,
            mark_slots,
            drained_to: 0,
        }
    }

    /// Ids and offsets of all leases, held or abandoned.
    fn leases(&self) -> Vec<(LeaseId, u64)> {
        let held = self.readers.iter().filter_map(|reader| reader.lease);
        held.chain(self.abandoned.iter().map(|lease| (lease.id, lease.lease_offset))).collect()
    }

    /// Whether a lease at this offset blocks the writer now.
    fn is_blocked_by(&self, lease: u64) -> bool {
        // The marks are a ring as well, with some slots reserved for the drain.
        let discarded = (self.marks.len() + 1 + DRAIN_MARKS).saturating_sub(self.mark_slots as usize);
        let by_marks = discarded > 0 && self.marks.get(discarded).is_some_and(|(offset, _)| lease < *offset);
        lease + self.reader.window() <= self.bytes.len() as u64 || by_marks
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Print { stream, count } => self.sources[stream].print(STREAMS[stream], count),
            Op::Record { stream } => drop(self.record(stream)),
            Op::Flood { stream, count } => self.flood(stream, count),
            Op::Trickle { chunks, size } => self.trickle(chunks, size),
            Op::Drain { stream, count } => self.drain(stream, count),
            Op::RecordAfterTimeouts { stream } => self.record_after_timeouts(stream),
            Op::Attach { lossless, part } => self.attach(lossless, part),
            Op::Read { reader, max_bytes } => drop(self.read(reader, max_bytes)),
            Op::ReadAll { reader } => while self.read(reader, 1 << 20) > 0 {},
            Op::Advance { reader, lag } => {
                if let Some(Reader { offset, lease: Some((id, lease_offset)), .. }) = self.readers.get_mut(reader) {
                    let target = offset.saturating_sub(lag).max(*lease_offset);
                    assert!(self.reader.advance_lease(*id, target, *offset).is_some(), "revoked without a reason");
                    *lease_offset = target;
                }
            }
            Op::Abandon { reader } => self.abandon(reader),
            Op::Reclaim { abandoned, back } => {
                if let Some(lost) = self.abandoned.get(abandoned).copied()
                    && self.readers.len() < 4
                {
                    let offset = lost.read_to.saturating_sub(back).max(lost.lease_offset);
                    let lease = self.acquire_lease(offset, true);
                    self.check_reclaimed(offset);
                    self.readers.push(Reader { offset, lease, epoch: self.epoch });
                }
            }
            Op::Release { reader } => {
                if reader < self.readers.len()
                    && let Some((id, _)) = self.readers.remove(reader).lease
                {
                    self.reader.release_lease(id);
                    assert!(!self.reader.has_lease(id));
                }
            }
            Op::ServerDies => self.kill_server(),
            Op::ReopenReader => self.reader = self.reader.try_clone().unwrap(),
            Op::ReopenWriter => {
                self.writer = LogWriter::adopt(self.writer.file().try_clone_to_owned().unwrap()).unwrap();
            }
        }
        self.check_invariants();
    }

    fn kill_server(&mut self) {
        self.writer.abandon_leases_of(self.epoch);
        let (lost, remaining): (Vec<Reader>, _) = self.readers.drain(..).partition(|reader| reader.epoch == self.epoch);
        self.readers = remaining;
        self.abandoned.extend(lost.into_iter().filter_map(|reader| {
            let (id, lease_offset) = reader.lease?;
            Some(AbandonedLease { id, lease_offset, read_to: reader.offset })
        }));
        self.epoch += 1;
    }

    fn check_invariants(&self) {
        let (tail, head) = (self.reader.tail(), self.reader.head());
        assert_eq!(head, self.bytes.len() as u64);
        assert!(tail <= head);
        assert!(head - tail <= self.reader.capacity());
        let marks = self.reader.marks();
        assert_eq!(marks.end, self.marks.len() as u64);
        // Leased bytes stay, except after a drain beyond the reserve.
        for (id, offset) in self.leases() {
            assert!(self.reader.has_lease(id), "a lease vanished: {offset}");
            // A reader may acquire a lease on bytes that were overwritten before.
            assert!(tail <= offset.max(self.drained_to), "leased byte {offset} overwritten, tail {tail}");
        }
        // Bytes within the budget stay as long as there are marks for them.
        let due = head.saturating_sub(self.reader.budget());
        let short_of_marks = marks.end - marks.start + 16 >= self.mark_slots;
        assert!(tail <= due || short_of_marks || self.drained_to > 0, "budget not kept: {tail}..{head}");
        if head > tail {
            let first = self.reader.mark(marks.start).expect("a mark covers the tail");
            assert!(first.offset <= tail, "the oldest byte has a mark");
        }
        let count = marks.end - marks.start;
        for number in (0..16).map(|part| marks.start + count * part / 16).filter(|number| *number < marks.end) {
            let mark = self.reader.mark(number).unwrap();
            assert_eq!((mark.offset, mark.stream), self.marks[number as usize]);
            assert_eq!(mark.sequence, number + 1);
        }
        for offset in (0..8).map(|part| tail + (head - tail) * part / 8).filter(|offset| *offset < head) {
            let expected = self.marks.partition_point(|(start, _)| *start <= offset) as u64 - 1;
            assert_eq!(self.reader.mark_of(offset), Some(expected));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_log_behaves_like_a_naive_model(
        budget in prop_oneof![Just(1u64), Just(200_000), Just(600_000)],
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut world = World::new(budget);
        for op in &ops {
            world.apply(op);
        }
        // Every reader can read to the end, and a lossless one misses nothing.
        for index in 0..world.readers.len() {
            while world.read(index, 1 << 16) > 0 {}
        }
        world.check_invariants();
    }
}
