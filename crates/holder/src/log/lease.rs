//! Reader leases: how a lossless reader keeps the writer from overwriting unread bytes, for a bounded time.
//!
//! ```text
//!            acquire               release, or revoked by the writer
//!   free ───────────────▶ held ───────────────────────────────────────▶ free
//!     ▲                   ▲ │ reader lost (socket cut, server died)
//!     │           reclaim │ ▼
//!     └─────────────── abandoned (for RECLAIM_TIMEOUT_MS)
//!        deadline passed: revoked by the writer, or the slot is acquired again
//! ```
//!
//! The state is part of the word that contains the lease id. Every transition is one compare-and-swap, so the loser of
//! a race notices that it lost.
//!
//! The writer looks at all leases before it reads the program's output. If a lease stops the program, its reader must
//! read half a window within [`STALL_TIMEOUT_MS`]. Otherwise the writer revokes the lease, and the reader finds out at
//! its next read.
//!
//! The server's history has leases of a second [kind](LeaseKind) with much shorter timeouts: a slow disk must not stop a
//! program for long, but a disk that makes progress may slow it down.

use std::sync::atomic::Ordering::SeqCst;

use super::map::Map;
use super::{AT_LEASES, LEASE_BYTES, LEASE_SLOTS};

/// How long the lease of a lost reader is kept for it.
pub const RECLAIM_TIMEOUT_MS: u64 = 10_000;
/// A reader whose lease stops the program must read half a window within this time.
pub const STALL_TIMEOUT_MS: u64 = 10_000;

/// As `STALL_TIMEOUT_MS`, for a lease of the history: the time without any progress.
pub const HISTORY_STALL_TIMEOUT_MS: u64 = 100;
/// As `RECLAIM_TIMEOUT_MS`, for a lease of the history.
pub const HISTORY_RECLAIM_TIMEOUT_MS: u64 = 1_000;

/// For whom a lease protects bytes; decides its timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// A client, which must read half a window within `STALL_TIMEOUT_MS`.
    Client,
    /// The history, which must make any progress within `HISTORY_STALL_TIMEOUT_MS`.
    History,
}

impl LeaseKind {
    fn reclaim_timeout_ms(self) -> u64 {
        match self {
            Self::Client => RECLAIM_TIMEOUT_MS,
            Self::History => HISTORY_RECLAIM_TIMEOUT_MS,
        }
    }

    fn stall_timeout_ms(self) -> u64 {
        match self {
            Self::Client => STALL_TIMEOUT_MS,
            Self::History => HISTORY_STALL_TIMEOUT_MS,
        }
    }

    /// Bytes that the reader must read to restart the stall timer.
    fn min_progress(self, half_window: u64) -> u64 {
        match self {
            Self::Client => half_window,
            Self::History => 1,
        }
    }
}

// Byte offsets of the 64-bit words in a slot.

/// The lease id, with the state in the two highest bits; 0 is free.
const ID: usize = 0;
/// Bytes from this offset on must not be overwritten.
const OFFSET: usize = 8;
/// Boot clock: when an abandoned lease ends.
const DEADLINE: usize = 16;
/// The writer's bookkeeping for the stall timeout. In the shared map, so that it survives a re-exec of the holder.
const STALL_START: usize = 24;
const STALL_START_READ_TO: usize = 32;
/// The lease that the bookkeeping belongs to: a new owner of the slot starts over.
const STALL_ID: usize = 40;
/// How far the reader has read; `OFFSET` may lag behind.
const READ_TO: usize = 48;
/// The id of the lease if it is one of the history. The id and not a flag: a server of an older version does not reset
/// the word when it reuses the slot. A holder of an older version ignores it.
const HISTORY_ID: usize = 56;

/// The reader is lost and may reclaim the lease.
const ABANDONED: u64 = 1 << 63;
/// The slot is being filled in. It protects nothing yet, unless it is an abandoned lease that is being reclaimed.
const CLAIMED: u64 = 1 << 62;

/// Identifies a lease: the epoch of the server that acquired it, and a serial number within that epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId(u64);

impl LeaseId {
    pub fn new(epoch: u32, serial: u32) -> Self {
        Self((u64::from(epoch) << 32 | u64::from(serial.max(1))) & !(ABANDONED | CLAIMED))
    }

    fn has_epoch(raw: u64, epoch: u32) -> bool {
        raw != 0 && (raw & !(ABANDONED | CLAIMED)) >> 32 == Self::new(epoch, 1).0 >> 32
    }
}

/// One slot of the lease table in the shared map.
#[derive(Clone, Copy)]
pub(super) struct LeaseSlot<'m> {
    map: &'m Map,
    at: usize,
}

impl<'m> LeaseSlot<'m> {
    pub(super) fn all(map: &'m Map) -> impl Iterator<Item = Self> {
        (0..LEASE_SLOTS).map(move |index| Self { map, at: AT_LEASES + index * LEASE_BYTES })
    }

    fn load(&self, field: usize) -> u64 {
        self.map.word(self.at + field).load(SeqCst)
    }

    fn store(&self, field: usize, value: u64) {
        self.map.word(self.at + field).store(value, SeqCst);
    }

    fn swap_id(&self, from: u64, to: u64) -> bool {
        self.map.word(self.at + ID).compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    fn kind_of(&self, id: u64) -> LeaseKind {
        let is_history = self.load(HISTORY_ID) == id & !(ABANDONED | CLAIMED);
        if is_history { LeaseKind::History } else { LeaseKind::Client }
    }

    /// The protected offset, if the slot contains a lease.
    pub(super) fn offset(&self) -> Option<u64> {
        let id = self.load(ID);
        (id != 0 && id & (CLAIMED | ABANDONED) != CLAIMED).then(|| self.load(OFFSET))
    }

    /// How far the reader has read.
    pub(super) fn read_to(&self) -> u64 {
        self.load(READ_TO)
    }

    /// Writer: checks whether a lease may keep stopping the program, and revokes it if its reader stalled or did not
    /// reclaim it in time.
    pub(super) fn check_or_revoke(&self, now: u64, half_window: u64) -> bool {
        let id = self.load(ID);
        if id & CLAIMED != 0 || id == 0 {
            return id & ABANDONED != 0;
        }
        let expired = if id & ABANDONED != 0 {
            now >= self.load(DEADLINE)
        } else {
            let (kind, read_to) = (self.kind_of(id), self.load(READ_TO));
            let progressed = read_to >= self.load(STALL_START_READ_TO).saturating_add(kind.min_progress(half_window));
            if self.load(STALL_ID) != id || progressed {
                self.store(STALL_START, now);
                self.store(STALL_START_READ_TO, read_to);
                self.store(STALL_ID, id);
            }
            now >= self.load(STALL_START) + kind.stall_timeout_ms()
        };
        !(expired && self.swap_id(id, 0))
    }

    /// Writer: the reader has caught up, so its next stall is timed from the start.
    pub(super) fn reset_stall_timer(&self) {
        if self.load(STALL_ID) != 0 {
            self.store(STALL_ID, 0);
        }
    }

    /// Writer: when `check_or_revoke` may return something else although the reader does nothing.
    pub(super) fn deadline(&self) -> Option<u64> {
        let id = self.load(ID);
        if id == 0 {
            None
        } else if id & ABANDONED != 0 {
            Some(self.load(DEADLINE))
        } else {
            (self.load(STALL_ID) == id).then(|| self.load(STALL_START) + self.kind_of(id).stall_timeout_ms())
        }
    }

    /// Whether the slot was abandoned by a reader of this kind that may have read up to `offset`.
    fn is_reclaimable_at(&self, offset: u64, kind: LeaseKind) -> bool {
        let id = self.load(ID);
        id & (ABANDONED | CLAIMED) == ABANDONED && self.kind_of(id) == kind && self.load(OFFSET) <= offset
    }

    /// Completes a claimed slot. The id is stored last: it makes the lease valid.
    fn fill_in(&self, id: LeaseId, kind: LeaseKind, offset: u64) {
        self.store(OFFSET, offset);
        self.store(READ_TO, offset);
        self.store(HISTORY_ID, if kind == LeaseKind::History { id.0 } else { 0 });
        self.store(ID, id.0);
    }

    pub(super) fn advance(&self, offset: u64, read_to: u64) {
        if self.load(OFFSET) < offset {
            self.store(OFFSET, offset);
        }
        self.store(READ_TO, read_to);
    }

    pub(super) fn release(&self, id: LeaseId) {
        self.swap_id(id.0, 0);
    }

    pub(super) fn abandon(&self, id: LeaseId, now: u64) {
        self.store(DEADLINE, now + self.kind_of(id.0).reclaim_timeout_ms());
        self.swap_id(id.0, id.0 | ABANDONED);
    }
}

/// Acquires a lease at `offset`. With `reclaim`, it replaces an abandoned lease, so that no byte from `offset` on is
/// overwritten in between. Readers have no identity: the nearest abandoned lease of this kind at or before `offset` is
/// taken for the one that this reader left. Without `reclaim`, abandoned leases are left alone until they expire.
/// `None` when all slots are in use: the reader is then live and may get gaps.
pub(super) fn acquire(map: &Map, id: LeaseId, kind: LeaseKind, offset: u64, reclaim: bool, now: u64) -> Option<()> {
    if reclaim {
        let abandoned = LeaseSlot::all(map).filter(|slot| slot.is_reclaimable_at(offset, kind));
        if let Some(slot) = abandoned.max_by_key(|slot| slot.load(OFFSET)) {
            let old = slot.load(ID);
            if old & (ABANDONED | CLAIMED) == ABANDONED && slot.swap_id(old, id.0 | CLAIMED | ABANDONED) {
                slot.fill_in(id, kind, offset);
                return Some(());
            }
        }
    }
    let free = LeaseSlot::all(map).find(|slot| slot.load(ID) == 0 && slot.swap_id(0, id.0 | CLAIMED));
    let slot = free.or_else(|| {
        LeaseSlot::all(map).find(|slot| {
            let old = slot.load(ID);
            let expired = old & (ABANDONED | CLAIMED) == ABANDONED && now >= slot.load(DEADLINE);
            expired && slot.swap_id(old, id.0 | CLAIMED)
        })
    })?;
    slot.fill_in(id, kind, offset);
    Some(())
}

/// Creates an abandoned lease for a reader that does not exist yet; the reader reclaims it.
pub(super) fn reserve(map: &Map, kind: LeaseKind, epoch: u32, offset: u64, now: u64) {
    let serial = match kind {
        LeaseKind::Client => u32::MAX,
        LeaseKind::History => u32::MAX - 1,
    };
    let id = LeaseId::new(epoch, serial);
    if acquire(map, id, kind, offset, false, now).is_some()
        && let Some(slot) = find(map, id)
    {
        slot.abandon(id, now);
    }
}

pub(super) fn find(map: &Map, id: LeaseId) -> Option<LeaseSlot<'_>> {
    LeaseSlot::all(map).find(|slot| slot.load(ID) == id.0)
}

/// Whether the lease exists, held or abandoned.
pub(super) fn exists(map: &Map, id: LeaseId) -> bool {
    LeaseSlot::all(map).any(|slot| slot.load(ID) & !ABANDONED == id.0)
}

/// Abandons all leases of a dead server, for its clients to reclaim.
pub(super) fn abandon_epoch(map: &Map, epoch: u32, now: u64) {
    for slot in LeaseSlot::all(map) {
        let id = slot.load(ID);
        if !LeaseId::has_epoch(id, epoch) {
            continue;
        }
        match id & (ABANDONED | CLAIMED) {
            0 => slot.abandon(LeaseId(id), now),
            // The server died while it filled in the slot.
            CLAIMED => drop(slot.swap_id(id, 0)),
            ABANDONED => {}
            _ => {
                slot.store(DEADLINE, now + slot.kind_of(id).reclaim_timeout_ms());
                slot.swap_id(id, id & !CLAIMED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;
    use crate::clock;
    use crate::log::{LogReader, LogStart, LogWriter, RecordOutcome, Stream};

    /// A program that prints without end, its log, and a reader.
    struct Flood {
        writer: LogWriter,
        reader: LogReader,
        output: OwnedFd,
        program: OwnedFd,
    }

    impl Flood {
        fn new() -> Self {
            let writer = LogWriter::create(64 * 1024, 0, LogStart::default()).unwrap();
            let reader = LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap();
            let (output, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
            Self { writer, reader, output, program }
        }

        fn acquire(&self, kind: LeaseKind, serial: u32) -> LeaseId {
            let id = LeaseId::new(7, serial);
            assert_eq!(self.reader.acquire_lease_of(kind, id, self.reader.head(), false), Some(false));
            id
        }

        fn record(&self, now: u64) -> RecordOutcome {
            while rustix::io::write(&self.program, &[b'x'; 4096]).is_ok() {}
            self.writer.record_at(now, self.output.as_fd(), Stream::Stdout)
        }

        fn record_until_blocked(&self, now: u64) {
            while self.record(now) != RecordOutcome::Blocked {}
        }
    }

    #[test]
    fn a_history_lease_is_revoked_after_its_own_timeout_without_progress() {
        let flood = Flood::new();
        let id = flood.acquire(LeaseKind::History, 1);
        flood.record_until_blocked(1_000);
        assert_eq!(flood.writer.next_lease_deadline(), Some(1_000 + HISTORY_STALL_TIMEOUT_MS));
        assert_eq!(flood.record(1_000 + HISTORY_STALL_TIMEOUT_MS - 1), RecordOutcome::Blocked);
        assert_ne!(flood.record(1_000 + HISTORY_STALL_TIMEOUT_MS), RecordOutcome::Blocked);
        assert_eq!(flood.reader.advance_lease(id, 1, 1), None, "the lease is revoked");
    }

    #[test]
    fn a_history_lease_with_any_progress_is_kept() {
        let flood = Flood::new();
        let id = flood.acquire(LeaseKind::History, 1);
        flood.record_until_blocked(1_000);
        for step in 1..50 {
            let now = 1_000 + step * (HISTORY_STALL_TIMEOUT_MS - 1);
            assert!(flood.reader.advance_lease(id, step, step).is_some(), "the lease is kept at step {step}");
            flood.record_until_blocked(now);
        }
    }

    #[test]
    fn a_client_lease_keeps_its_timeout_beside_one_of_the_history() {
        let flood = Flood::new();
        let client = flood.acquire(LeaseKind::Client, 1);
        flood.acquire(LeaseKind::History, 2);
        flood.record_until_blocked(1_000);
        assert_eq!(flood.record(1_000 + HISTORY_STALL_TIMEOUT_MS), RecordOutcome::Blocked);
        assert_eq!(flood.writer.next_lease_deadline(), Some(1_000 + STALL_TIMEOUT_MS));
        assert!(flood.reader.has_lease(client));
        assert!(!flood.reader.has_lease(LeaseId::new(7, 2)));
    }

    #[test]
    fn the_history_lease_of_a_dead_server_is_kept_for_a_second_and_only_the_history_reclaims_it() {
        let flood = Flood::new();
        flood.acquire(LeaseKind::History, 1);
        flood.writer.abandon_leases_of(7);
        let deadline = flood.writer.next_lease_deadline().unwrap();
        assert!(deadline <= clock::boot_ms() + HISTORY_RECLAIM_TIMEOUT_MS);
        let occupied = || LeaseSlot::all(flood.writer.map()).filter(|slot| slot.offset().is_some()).count();
        let acquire = |kind, serial| flood.reader.acquire_lease_of(kind, LeaseId::new(8, serial), 0, true);
        assert!(acquire(LeaseKind::Client, 1).is_some());
        assert_eq!(occupied(), 2, "a client gets a lease of its own");
        assert!(acquire(LeaseKind::History, 2).is_some());
        assert_eq!(occupied(), 2, "the history reclaims its lease");
    }

    // Regression: the ring could overwrite the first bytes before the history had its lease.
    #[test]
    fn a_lease_reserved_for_the_history_keeps_the_first_bytes_until_it_reads() {
        let flood = Flood::new();
        flood.writer.reserve_lease(LeaseKind::History, 7);
        flood.writer.reserve_lease(LeaseKind::Client, 7);
        let now = clock::boot_ms();
        flood.record_until_blocked(now);
        assert_eq!(flood.reader.tail(), 0);
        let acquired = flood.reader.acquire_lease_of(LeaseKind::History, LeaseId::new(7, 1), 0, true);
        assert!(acquired.is_some(), "the history reclaims its lease");
        // The client never came.
        flood.record_until_blocked(now + RECLAIM_TIMEOUT_MS + 1_000);
        assert_eq!(flood.reader.tail(), 0, "the history has not read them");
    }

    // A server of an older version leaves the word of the kind as it is.
    #[test]
    fn a_slot_that_an_older_server_reuses_has_the_timeouts_of_a_client() {
        let flood = Flood::new();
        let id = flood.acquire(LeaseKind::History, 1);
        flood.reader.release_lease(id);
        let slot = LeaseSlot::all(flood.writer.map()).next().unwrap();
        assert_eq!(slot.load(HISTORY_ID), id.0);
        assert_eq!(slot.kind_of(LeaseId::new(9, 1).0), LeaseKind::Client);
    }
}
