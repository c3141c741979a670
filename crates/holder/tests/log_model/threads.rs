//! One writer, and readers of every kind on other threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive_holder::log::lease::LeaseId;
use outlive_holder::log::{CHUNK_BYTES, LogReader, LogStart, LogWriter, RecordOutcome};

use crate::pattern::{RESERVE, STREAMS, pattern, pipe, write_all};

/// Counts notifications. A wait that times out means that a wake-up was lost.
#[derive(Default)]
struct Notifier {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Notifier {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    fn count(&self) -> u64 {
        *self.lock()
    }

    fn wait_after(&self, count: u64, waiter: &str) {
        let timeout = Duration::from_secs(5);
        let (_count, result) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |current| *current == count)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!result.timed_out(), "{waiter}: no wake-up");
    }
}

struct Shared {
    file: OwnedFd,
    finished: AtomicBool,
    /// A reader advanced its lease while the writer was blocked.
    resumed: Notifier,
    /// The writer found the wake-up request of a sleeping reader.
    woken: Notifier,
    serial: AtomicU64,
}

impl Shared {
    fn reader(&self) -> LogReader {
        LogReader::open(self.file.try_clone().unwrap()).unwrap()
    }

    fn lease_id(&self) -> LeaseId {
        LeaseId::new(1, self.serial.fetch_add(1, SeqCst) as u32)
    }

    fn resume_if(&self, was_blocked: bool) {
        if was_blocked {
            self.resumed.notify();
        }
    }
}

/// Reads and checks the bytes at `offset`. Returns the next offset, and whether there was a gap.
fn read_and_check(log: &LogReader, offset: u64, max_bytes: usize) -> (u64, bool) {
    let mut bytes = Vec::new();
    match log.read_at(offset, max_bytes, &mut bytes) {
        Ok(count) => {
            assert_eq!(count, bytes.len());
            for (at, byte) in (offset..).zip(&bytes) {
                assert_eq!(*byte, pattern(at), "torn read at {at}");
            }
            if count > 0
                && let Some(number) = log.mark_of(offset)
                && let Some(mark) = log.mark(number)
            {
                assert!(mark.offset <= offset);
                assert_eq!(mark.stream, STREAMS[(number % 2) as usize], "stream of mark {number}");
            }
            (offset + count as u64, false)
        }
        Err(overwritten) => {
            assert!(overwritten.oldest > offset);
            (overwritten.oldest, true)
        }
    }
}

fn sleep_at_head(shared: &Shared, log: &LogReader, offset: u64) {
    let count = shared.woken.count();
    log.request_wakeup();
    if log.head() <= offset && !shared.finished.load(SeqCst) {
        shared.woken.wait_after(count, "a sleeping reader");
    }
}

/// Reads everything under a lease that lags a little behind. Never misses a byte.
fn read_lossless(shared: &Shared, lag: u64, piece: usize) -> u64 {
    let log = shared.reader();
    let id = shared.lease_id();
    assert!(log.acquire_lease(id, 0, false).is_some());
    let mut offset = log.tail();
    assert_eq!(offset, 0, "the writer waits for its readers");
    loop {
        let finished = shared.finished.load(SeqCst);
        let (next, gap) = read_and_check(&log, offset, piece);
        assert!(!gap, "leased bytes were overwritten: {offset}..{next}");
        if next == offset {
            if finished {
                log.release_lease(id);
                return offset;
            }
            sleep_at_head(shared, &log, offset);
        }
        offset = next;
        let was_blocked = log.advance_lease(id, offset.saturating_sub(lag), offset);
        shared.resume_if(was_blocked.expect("the lease of an active reader is not revoked"));
    }
}

/// Repeatedly acquires a lease at the head, reads for a moment, and releases or abandons it. Returns the number of
/// rounds.
fn read_in_rounds(shared: &Shared, abandons: bool) -> u64 {
    let log = shared.reader();
    let mut rounds = 0;
    while !shared.finished.load(SeqCst) {
        let id = shared.lease_id();
        let requested = log.head();
        let was_blocked = log.acquire_lease(id, requested, false);
        shared.resume_if(was_blocked.expect("there are free slots"));
        let offset = read_a_moment(shared, &log, id, requested);
        if abandons && rounds % 3 == 0 {
            abandon_and_reclaim(shared, &log, id, offset);
        } else {
            shared.resume_if(log.release_lease(id));
        }
        rounds += 1;
    }
    rounds
}

const PIECE: usize = 10_000;

fn read_a_moment(shared: &Shared, log: &LogReader, id: LeaseId, requested: u64) -> u64 {
    let tail = log.tail();
    let mut offset = requested.max(tail);
    // A writer that has already checked the leases may record one more chunk. So a reader of the oldest bytes may see one
    // gap. A reader that was suspended between its look at the head and its lease is one.
    let is_oldest = requested < tail + CHUNK_BYTES as u64;
    for turn in 0..3 {
        let (next, gap) = read_and_check(log, offset, PIECE);
        assert!(!gap || (is_oldest && turn == 0), "leased bytes were overwritten: {offset}..{next}");
        offset = next;
        let was_blocked = log.advance_lease(id, requested, offset);
        shared.resume_if(was_blocked.expect("a new lease is not revoked"));
    }
    offset
}

/// The reader is lost, and another one reclaims its lease and reads on.
fn abandon_and_reclaim(shared: &Shared, log: &LogReader, id: LeaseId, offset: u64) {
    log.abandon_lease(id);
    let successor = shared.lease_id();
    shared.resume_if(log.acquire_lease(successor, offset, true).expect("there are free slots"));
    let (_, gap) = read_and_check(log, offset, PIECE);
    assert!(!gap, "bytes of an abandoned lease were overwritten");
    shared.resume_if(log.release_lease(successor));
}

/// Reads without a lease. Returns the number of bytes read, and the number of bytes in gaps.
fn read_live(shared: &Shared, piece: usize) -> (u64, u64) {
    let log = shared.reader();
    let (mut offset, mut read, mut missed) = (0, 0, 0);
    loop {
        let finished = shared.finished.load(SeqCst);
        let (next, gap) = read_and_check(&log, offset, piece);
        if next == offset {
            if finished {
                assert_eq!(read + missed, offset, "every byte was read or reported as a gap");
                return (read, missed);
            }
            sleep_at_head(shared, &log, offset);
        }
        if gap {
            missed += next - offset;
        } else {
            read += next - offset;
        }
        offset = next;
    }
}

/// Records `total` bytes, alternating between the streams, so that byte and stream follow from the offset.
fn write(shared: &Shared, writer: &LogWriter, total: u64) {
    let sources = [pipe(), pipe()];
    let mut chunk = 0usize;
    let mut random = 1u64;
    while writer.head() < total {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Mostly large chunks, sometimes many small ones, so that the rings of bytes and of marks both wrap.
        let count = if random >> 62 == 0 { random >> 56 & 15 } else { random >> 45 & 0xffff } + 1;
        let mut rest: Vec<u8> = (writer.head()..writer.head() + count).map(pattern).collect();
        while !rest.is_empty() {
            let (read, write) = &sources[chunk % 2];
            write_all(write, &rest);
            let before = writer.head();
            while writer.head() == before {
                let count = shared.resumed.count();
                if writer.record(read.as_fd(), STREAMS[chunk % 2]) == RecordOutcome::Blocked {
                    shared.resumed.wait_after(count, "a blocked writer");
                }
            }
            if writer.take_wakeup_request() {
                shared.woken.notify();
            }
            // The next stream continues with the bytes that a lease kept out of this one.
            chunk += 1;
            rest.drain(..(writer.head() - before) as usize);
            if !rest.is_empty() {
                let count = rustix::io::read(read, &mut vec![0u8; rest.len()]).unwrap();
                assert_eq!(count, rest.len());
            }
        }
    }
}

fn wait_for_leases(shared: &Shared, log: &LogReader, count: u32) {
    let serials = 1..=count;
    while !serials.clone().all(|serial| log.has_lease(LeaseId::new(1, serial))) {
        assert!(!shared.finished.load(SeqCst));
        std::thread::yield_now();
    }
}

#[test]
fn concurrent_readers_see_every_byte_or_an_exact_gap() {
    const TOTAL: u64 = 192 << 20;
    let started = Instant::now();
    let writer = LogWriter::create(1, RESERVE, LogStart::default()).unwrap();
    let shared = &Shared {
        file: writer.file().try_clone_to_owned().unwrap(),
        finished: AtomicBool::new(false),
        resumed: Notifier::default(),
        woken: Notifier::default(),
        serial: AtomicU64::new(1),
    };
    std::thread::scope(|scope| {
        let lossless =
            [(0, 65_536), (100_000, 8_192)].map(|(lag, piece)| scope.spawn(move || read_lossless(shared, lag, piece)));
        // Both have acquired their leases before the first byte.
        wait_for_leases(shared, &shared.reader(), 2);
        let live = [1_000, 40_000].map(|piece| scope.spawn(move || read_live(shared, piece)));
        let rounds = [true, false].map(|abandons| scope.spawn(move || read_in_rounds(shared, abandons)));
        let result = scope.spawn(|| write(shared, &writer, TOTAL)).join();
        shared.finished.store(true, SeqCst);
        shared.woken.notify();
        result.unwrap();
        for reader in lossless {
            assert!(reader.join().unwrap() >= TOTAL);
        }
        for reader in live {
            let (read, missed) = reader.join().unwrap();
            println!("a live reader got {read} bytes, and gaps of {missed} bytes");
        }
        for reader in rounds {
            println!("a reader attached {} times", reader.join().unwrap());
        }
    });
    println!("{} MiB in {:?}", TOTAL >> 20, started.elapsed());
}
