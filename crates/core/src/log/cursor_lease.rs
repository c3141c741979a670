//! The lease of a lossless cursor.
//!
//! A lease stops the ring from overwriting bytes, so it is of use only while the cursor reads memory. A cursor at a cold
//! offset has none: what it reads is stored, and the history's own lease protects what is not stored yet. The cursor
//! acquires its lease when it has read up to the memory. If the history gave its lease up in the meantime, the cursor
//! gets a gap.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use outlive_holder::log::LogReader;
use outlive_holder::log::lease::LeaseId;

use super::Log;

static NEXT_LEASE_SERIAL: AtomicU32 = AtomicU32::new(1);

enum State {
    /// The program does not wait for this reader.
    Live,
    /// Lossless, and at a cold offset.
    Deferred,
    Held(LeaseId),
}

pub(super) struct CursorLease {
    state: State,
    /// Offset that the reader has acknowledged. `None`: the reader sends no acknowledgements.
    acknowledged: Option<u64>,
    /// Offset of the lease when it was last moved; it is not moved for every read.
    lease_offset: u64,
    /// Progress of the reader when it was last written to the lease.
    reported_read_to: u64,
}

impl CursorLease {
    pub(super) fn live() -> Self {
        Self { state: State::Live, acknowledged: None, lease_offset: 0, reported_read_to: 0 }
    }

    /// The lease of a lossless reader at `offset`; live if all lease slots are in use. `reclaim`: take the place of the
    /// lease that this reader abandoned earlier.
    pub(super) fn acquire(log: &Log, offset: u64, reclaim: bool) -> Self {
        let mut lease = Self { state: State::Deferred, ..Self::live() };
        if !log.is_cold(offset) {
            lease.hold(log, offset, reclaim);
        }
        lease
    }

    /// Acquires a lease in memory, unless the ring overwrites the bytes at `offset` first and the history has them.
    fn hold(&mut self, log: &Log, offset: u64, reclaim: bool) {
        (self.lease_offset, self.reported_read_to) = (offset, offset);
        self.state = log.acquire_lease(offset, reclaim).map_or(State::Live, State::Held);
        if log.is_cold(offset) {
            self.defer(log);
        }
    }

    pub(super) fn is_lossless(&self) -> bool {
        !matches!(self.state, State::Live)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    /// The reader at `offset` has received everything before `acknowledged`.
    pub(super) fn acknowledge(&mut self, acknowledged: u64, offset: u64) {
        let acknowledged = acknowledged.min(offset);
        if self.acknowledged.is_none_or(|before| acknowledged > before) {
            self.acknowledged = Some(acknowledged);
        }
    }

    /// From now on the lease follows the acknowledgements and not the bytes yielded.
    pub(super) fn expect_acknowledgements(&mut self, offset: u64) {
        self.acknowledged.get_or_insert(offset);
    }

    /// The reader needs no acknowledgement for what is before `offset`.
    pub(super) fn skip_to(&mut self, offset: u64) {
        self.acknowledged = self.acknowledged.map(|before| before.max(offset));
    }

    /// Moves the lease behind a reader at `offset`. False: the reader was lossless and is live from now on.
    pub(super) fn follow(&mut self, log: &Log, offset: u64) -> bool {
        let lease = match self.state {
            State::Live => return true,
            State::Deferred => {
                if offset >= log.memory_tail() {
                    self.hold(log, offset, false);
                }
                return self.is_lossless();
            }
            State::Held(lease) => lease,
        };
        // Without acknowledgements, bytes written to a socket may still be lost with it: the lease stays behind.
        let target = self.acknowledged.unwrap_or_else(|| log.lease_target(offset));
        let read_to = self.acknowledged.unwrap_or(offset);
        let step = log.min_lease_step();
        if target < self.lease_offset + step && read_to < self.reported_read_to + step && log.has_lease(lease) {
            return true;
        }
        self.lease_offset = target.max(self.lease_offset);
        self.reported_read_to = read_to;
        if !log.advance_lease(lease, self.lease_offset, read_to) {
            self.state = State::Live;
        }
        self.is_lossless()
    }

    /// The reader continues in the history: the program must not wait for it there.
    pub(super) fn defer(&mut self, log: &Log) {
        if let State::Held(lease) = self.state {
            log.release_lease(lease);
            self.state = State::Deferred;
        }
    }

    /// The reader continues at `offset` in another log. The lease on the log before had no effect, so it need not be
    /// released. False: the reader was lossless and is live from now on.
    pub(super) fn move_to(&mut self, log: &Log, offset: u64) -> bool {
        if !self.is_lossless() {
            return true;
        }
        *self = Self { acknowledged: self.acknowledged, ..Self::acquire(log, offset, false) };
        self.is_lossless()
    }

    /// Releases the lease at once, or leaves it for a while for a reader that may reconnect.
    pub(super) fn end(&self, log: &Log, may_reconnect: bool) {
        match self.state {
            State::Held(lease) if may_reconnect => log.abandon_lease(lease),
            State::Held(lease) => log.release_lease(lease),
            State::Live | State::Deferred => {}
        }
    }
}

impl Log {
    /// Stops the ring from overwriting what follows `offset`. `reclaim`: take the place of the lease that this reader
    /// abandoned earlier. `None`: all lease slots are in use.
    fn acquire_lease(&self, offset: u64, reclaim: bool) -> Option<LeaseId> {
        let lease = LeaseId::new(self.link.epoch(), NEXT_LEASE_SERIAL.fetch_add(1, Relaxed));
        if let Some(ring) = self.ring() {
            let must_resume = ring.acquire_lease(lease, offset, reclaim)?;
            self.resume_writer_if(must_resume);
        }
        Some(lease)
    }

    /// False: the lease was revoked because its reader stalled.
    fn advance_lease(&self, lease: LeaseId, offset: u64, read_to: u64) -> bool {
        let Some(ring) = self.ring() else { return true };
        let Some(must_resume) = ring.advance_lease(lease, offset, read_to) else { return false };
        self.resume_writer_if(must_resume);
        true
    }

    fn release_lease(&self, lease: LeaseId) {
        if let Some(ring) = self.ring() {
            self.resume_writer_if(ring.release_lease(lease));
        }
    }

    /// Leaves the lease for a while, for a reader that may reconnect.
    fn abandon_lease(&self, lease: LeaseId) {
        if let Some(ring) = self.ring() {
            ring.abandon_lease(lease);
        }
    }

    fn has_lease(&self, lease: LeaseId) -> bool {
        self.ring().is_none_or(|ring| ring.has_lease(lease))
    }

    /// Where the lease of a reader at `offset` belongs.
    fn lease_target(&self, offset: u64) -> u64 {
        self.ring().map_or(offset, |ring| ring.lease_target(offset))
    }

    /// A lease is moved by at least this many bytes.
    fn min_lease_step(&self) -> u64 {
        self.ring().map_or(u64::MAX / 2, LogReader::min_lease_step)
    }

    /// The holder stopped reading the program's output because of a lease that has moved now.
    fn resume_writer_if(&self, must_resume: bool) {
        if must_resume {
            self.link.resume(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::fake_history::{World, block_on};
    use super::super::{Cursor, Flow, Item, Start, Stream, StreamFilter};

    /// Output of 20 lines, the first half of it only in the history.
    fn half_cold() -> World {
        let mut world = World::new(100, false);
        (0..20).for_each(|_| world.print(10, Stream::Stdout));
        world.store(0, 64);
        world.print(10, Stream::Stdout);
        assert!((100..200).contains(&world.log.memory_tail()));
        world
    }

    #[test]
    fn a_lossless_reader_of_the_history_acquires_its_lease_in_memory() {
        block_on(async {
            let mut world = half_cold();
            let mut cursor = Cursor::new(Arc::clone(&world.log), Start::At(0), Flow::Lossless, StreamFilter::All);
            assert!(cursor.is_lossless() && !cursor.lease.is_held());
            assert_eq!(cursor.try_next(64), None, "the block is not loaded yet");
            while cursor.offset() < world.log.memory_tail() {
                assert!(!cursor.lease.is_held());
                assert!(matches!(cursor.next(1000).await, Item::Bytes { .. }));
            }
            cursor.try_next(1);
            assert!(cursor.lease.is_held());
            let offset = cursor.offset();
            (0..50).for_each(|_| world.print(10, Stream::Stdout));
            assert!(world.log.memory_tail() <= offset, "the lease protects what is unread");
            assert!(matches!(cursor.next(10).await, Item::Bytes { offset: at, .. } if at == offset));
            cursor.close();
        });
    }

    #[test]
    fn a_reader_of_overwritten_bytes_continues_in_the_history() {
        block_on(async {
            let mut world = half_cold();
            let mut cursor = Cursor::new(Arc::clone(&world.log), Start::Head, Flow::Live, StreamFilter::All);
            let mut without_history =
                Cursor::new(Arc::clone(&world.log), Start::Head, Flow::Live, StreamFilter::All).memory_only();
            let start = cursor.offset();
            (0..50).for_each(|_| world.print(10, Stream::Stdout));
            world.store(0, 1000);
            assert!(world.log.memory_tail() > start);
            assert!(
                matches!(without_history.try_next(10), Some(Item::Gap { from_offset, .. }) if from_offset == start)
            );
            assert_eq!(cursor.try_next(10), None);
            assert!(matches!(cursor.next_now(10).await, Some(Item::Bytes { offset, .. }) if offset == start));
        });
    }
}
