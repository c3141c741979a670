//! The output log: a ring of bytes of fixed size in a sealed memfd, with absolute offsets.
//!
//! ```text
//! memfd:  | header page | chunk marks: (offset, time+stream) ... | data ring ............ |
//!             ^ the holder writes head, tail, marks and exit; the server writes wake-up requests, the input offset
//!               and the resume offset; both write leases
//! ```
//!
//! * The holder is the only writer of bytes ([`LogWriter`]). It reads a program's descriptor straight into the ring and
//!   publishes the new head with one atomic store.
//! * Any number of readers ([`LogReader`]) pull by offset. They map only header and marks and copy the bytes with
//!   `pread`, so a ring costs a reader no memory and no unsafe access to racing bytes. After each copy they check
//!   `tail`, which the writer raises *before* it overwrites.
//! * One [`ChunkMark`] per recorded chunk contains its stream and time. Its number + 1 is the sequence number that
//!   clients see.
//! * A *lease* protects the bytes from some offset on for a reader: the writer does not read the program's output past
//!   `lease + capacity - reserve`. See [`lease`].
//! * A log that can no longer be written to (exited, no recorded descriptor open) may be archived and dropped. A later
//!   ring of the same process then starts where it ended ([`LogStart`]).
//!
//! Holders and servers of different versions share the layout of the memfd, which this file defines: fields are only
//! added in unused space, and `MAGIC` changes when an old reader would misread a log. Unsafe code is confined to `map`.

pub mod lease;
mod map;
mod reader;
mod writer;

pub use reader::{ChunkMark, LogReader, OverwrittenError, find_mark};
pub use writer::{LogWriter, RecordOutcome};

/// Upper bound of bytes read from one descriptor per wake-up, so that a flooding program cannot starve the others.
pub const CHUNK_BYTES: usize = 64 * 1024;

const MAGIC: u64 = 0x6f75_746c_6f67_0001;
const PAGE: usize = 4096;

// Byte offsets of the 64-bit words in the header page.
const AT_MAGIC: usize = 0;
const AT_CAPACITY: usize = 8;
const AT_MARK_SLOTS: usize = 16;
const AT_BUDGET: usize = 24;
const AT_RESERVE: usize = 32;
const AT_HEAD: usize = 64;
const AT_TAIL: usize = 72;
const AT_MARK_HEAD: usize = 80;
const AT_MARK_TAIL: usize = 88;
/// 1 while a reader sleeps at the head; the writer resets it when it sends the wake-up.
const AT_WAKEUP_REQUESTED: usize = 128;
/// 1 while a lease blocks the writer; the reader that advances the lease resets it and resumes the writer.
const AT_BLOCKED: usize = 136;
/// The server requests a wake-up when the head reaches this offset; the writer resets it then. 0 = none.
const AT_WAKEUP_OFFSET: usize = 144;
const AT_GENERATION: usize = 192;
const AT_EXIT: usize = 200;
const AT_EXIT_OFFSET: usize = 208;
const AT_EXITED_AT: usize = 216;
/// Bytes of input that the kernel has accepted. Here, so that the count survives the server that maintains it.
const AT_INPUT_OFFSET: usize = 224;
/// Number of open recorded descriptors plus one; 0 = written by an old holder that did not count them.
const AT_OPEN_STREAMS: usize = 232;
/// Where readers that keep no offset continue. Here, so that it survives the server that raises it.
const AT_RESUME_OFFSET: usize = 240;
const AT_LEASES: usize = 512;
const LEASE_BYTES: usize = 64;
const LEASE_SLOTS: usize = (PAGE - AT_LEASES) / LEASE_BYTES;

const MARK_BYTES: usize = 16;
/// There is one chunk mark per this many bytes of ring. If the chunks of a program are
/// smaller on average, its oldest bytes are dropped before the ring is full.
const BYTES_PER_MARK: usize = 64;
const MIN_RING_BYTES: usize = 256 * 1024;

/// Sizes of a log, computed from its budget.
///
/// ```text
/// ├──────────────────────────── capacity: bytes of the ring ─────────────────────────────┤
/// ├────── window: how far the program may run ahead of a lease ──────┤├──── reserve ─────┤
/// ├─────── budget: bytes kept without a lease ───────┤├─ one chunk ──┤  drain after exit
///
/// mark slots: one per 64 bytes of capacity. Small chunks use them up before the bytes.
/// ```
///
/// A small budget is less than the window minus a chunk: the ring has a minimum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    budget: u64,
    capacity: u64,
    mark_slots: u64,
    reserve: u64,
}

impl Sizes {
    /// `reserve` is the space for the drain after an exit when a lease blocks the writer.
    fn for_budget(budget: u64, reserve: u64) -> Self {
        // One chunk more than the budget: the writer discards a whole chunk of old bytes before each read.
        let min_capacity = (budget as usize).max(MIN_RING_BYTES) + CHUNK_BYTES + reserve as usize;
        let capacity = min_capacity.next_multiple_of(PAGE);
        let mark_slots = (capacity / BYTES_PER_MARK).next_multiple_of(PAGE / MARK_BYTES);
        Self { budget, capacity: capacity as u64, mark_slots: mark_slots as u64, reserve }
    }

    fn data_start(self) -> usize {
        PAGE + self.mark_slots as usize * MARK_BYTES
    }

    fn file_len(self) -> usize {
        self.data_start() + self.capacity as usize
    }

    fn is_plausible(self) -> bool {
        const LIMIT: u64 = 1 << 40;
        self.capacity > 0
            && self.capacity < LIMIT
            && self.mark_slots > 0
            && self.mark_slots < LIMIT
            && self.reserve < self.capacity
    }
}

/// Where a log starts whose earlier part was archived or dropped: its first byte, its first chunk mark, and the input
/// accepted before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    pub offset: u64,
    pub mark: u64,
    pub input: u64,
}

/// Which descriptor of a process a byte came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stream {
    Stdout = 1,
    Stderr = 2,
    Terminal = 3,
    /// No longer written; kept so that logs of older holders can be read.
    Extra = 4,
}

impl Stream {
    pub fn from_u8(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            3 => Some(Self::Terminal),
            4 => Some(Self::Extra),
            _ => None,
        }
    }
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// It exited on its own, or was ended by a signal that outlive did not send.
    SelfExit = 1,
    /// A stop was requested: TERM, and KILL after the grace time.
    Stopped = 2,
    Killed = 3,
    TimedOut = 4,
    OutOfMemory = 5,
    /// No client was attached for longer than the process allows.
    Detached = 6,
    /// outlive is shutting down.
    Shutdown = 7,
}

impl Cause {
    pub fn from_u8(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::SelfExit,
            2 => Self::Stopped,
            3 => Self::Killed,
            4 => Self::TimedOut,
            5 => Self::OutOfMemory,
            6 => Self::Detached,
            7 => Self::Shutdown,
            _ => return None,
        })
    }
}

/// How and when a process ended, and the offset of the end of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub generation: u32,
    /// `Ok(code)` or `Err(signal)`.
    pub status: Result<u8, u8>,
    pub cause: Cause,
    pub offset: u64,
    pub at_ms: u64,
}

const EXITED: u64 = 1 << 32;
const SIGNALLED: u64 = 1 << 33;
/// The generation is in the same word, so that no reader can pair an exit with the next generation.
const GENERATION_SHIFT: u32 = 34;

fn pack_exit(status: Result<u8, u8>, cause: Cause, generation: u32) -> u64 {
    let (flag, number) = match status {
        Ok(code) => (0, code),
        Err(signal) => (SIGNALLED, signal),
    };
    EXITED | flag | u64::from(number) | (cause as u64) << 8 | u64::from(generation) << GENERATION_SHIFT
}

fn unpack_exit(word: u64) -> Option<(Result<u8, u8>, Cause, u32)> {
    if word & EXITED == 0 {
        return None;
    }
    let number = word as u8;
    let status = if word & SIGNALLED == 0 { Ok(number) } else { Err(number) };
    let cause = Cause::from_u8((word >> 8) as u8).unwrap_or(Cause::SelfExit);
    Some((status, cause, (word >> GENERATION_SHIFT) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_words_round_trip() {
        for status in [Ok(0), Ok(255), Err(9), Err(64)] {
            for cause in [Cause::SelfExit, Cause::TimedOut, Cause::Shutdown] {
                for generation in [0, 1, (1 << 30) - 1] {
                    let word = pack_exit(status, cause, generation);
                    assert_eq!(unpack_exit(word), Some((status, cause, generation)));
                }
            }
        }
        assert_eq!(unpack_exit(0), None);
    }

    #[test]
    fn a_ring_has_space_for_budget_chunk_and_reserve() {
        for budget in [1, 4096, 10 << 20] {
            let sizes = Sizes::for_budget(budget, 128 * 1024);
            assert!(sizes.capacity >= budget + CHUNK_BYTES as u64 + sizes.reserve);
            assert_eq!(sizes.data_start() % PAGE, 0);
            assert!(sizes.is_plausible());
        }
    }
}
