//! Where everything lies in the memfd, and how the packed words are read.
//!
//! The layout is shared by a holder and servers of different versions: fields are only ever added in unused
//! space, and `MAGIC` changes when an old reader would misread.

use super::CHUNK_BYTES;

pub(super) const MAGIC: u64 = 0x6f75_746c_6f67_0001;
pub(super) const PAGE: usize = 4096;

// Byte offsets of the 64-bit words in the header page.
pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_CAPACITY: usize = 8;
pub(super) const AT_MARK_SLOTS: usize = 16;
pub(super) const AT_BUDGET: usize = 24;
pub(super) const AT_RESERVE: usize = 32;
pub(super) const AT_HEAD: usize = 64;
pub(super) const AT_TAIL: usize = 72;
pub(super) const AT_MARKS: usize = 80;
pub(super) const AT_MARK_TAIL: usize = 88;
/// A reader sleeps at the head and wants a wake-up; the writer swaps it to 0 when it sends one.
pub(super) const AT_WAITING: usize = 128;
/// The writer stopped because of a hold; the reader that moves the hold swaps it to 0 and resumes the writer.
pub(super) const AT_BLOCKED: usize = 136;
/// The server wants to be told when the head has come this far; the writer swaps it to 0 when it does. 0: nobody wants to know.
pub(super) const AT_DUE: usize = 144;
pub(super) const AT_GENERATION: usize = 192;
pub(super) const AT_EXIT: usize = 200;
pub(super) const AT_EXIT_OFFSET: usize = 208;
pub(super) const AT_EXITED_AT: usize = 216;
/// Bytes of input that the kernel has taken; kept here so that it survives the server that counts them.
pub(super) const AT_INPUT: usize = 224;
/// Recorded descriptors that are open, plus one; 0 was left by a holder that did not count them.
pub(super) const AT_STREAMS: usize = 232;
/// Where readers go on that cannot say how far they have come; kept here so that it survives the server that raises it.
pub(super) const AT_RESUME: usize = 240;
pub(super) const AT_HOLDS: usize = 512;
pub(super) const HOLD_BYTES: usize = 64;
pub(super) const HOLD_SLOTS: usize = (PAGE - AT_HOLDS) / HOLD_BYTES;

pub(super) const MARK_BYTES: usize = 16;
/// One mark per this many bytes of ring: only a program whose chunks are smaller on average loses history early.
const BYTES_PER_MARK: usize = 64;
const SMALLEST_RING: usize = 256 * 1024;

/// Sizes of one log, computed once from its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) budget: u64,
    pub(super) capacity: u64,
    pub(super) mark_slots: u64,
    pub(super) reserve: u64,
}

impl Sizes {
    /// `reserve` is what the drain after an exit may need although a hold has stopped the writer.
    pub(super) fn for_budget(budget: u64, reserve: u64) -> Self {
        // One chunk more than the budget: the writer gives up a whole chunk of old bytes before each read.
        let wanted = (budget as usize).max(SMALLEST_RING) + CHUNK_BYTES + reserve as usize;
        let capacity = wanted.next_multiple_of(PAGE);
        let mark_slots = (capacity / BYTES_PER_MARK).next_multiple_of(PAGE / MARK_BYTES);
        Self { budget, capacity: capacity as u64, mark_slots: mark_slots as u64, reserve }
    }

    pub(super) fn data_start(self) -> usize {
        PAGE + self.mark_slots as usize * MARK_BYTES
    }

    pub(super) fn file_len(self) -> usize {
        self.data_start() + self.capacity as usize
    }

    pub(super) fn plausible(self) -> bool {
        const LIMIT: u64 = 1 << 40;
        self.capacity > 0
            && self.capacity < LIMIT
            && self.mark_slots > 0
            && self.mark_slots < LIMIT
            && self.reserve < self.capacity
    }
}

/// Where a log begins whose older part is elsewhere or gone: its first byte, its first mark, and the input
/// that had been counted by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
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
    /// A descriptor handed over by the server (session status, per-command sinks).
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
    /// By its own doing, or by a signal that outlive did not send.
    Itself = 1,
    /// A stop was asked for (TERM, and KILL after the grace time).
    Stopped = 2,
    Killed = 3,
    TimedOut = 4,
    OutOfMemory = 5,
    /// Nobody was attached for longer than the process allows.
    Detached = 6,
    /// The whole of outlive is shutting down.
    Shutdown = 7,
}

impl Cause {
    pub fn from_u8(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Itself,
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

/// How and when a process ended, and the offset up to which its output had been recorded by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Which of the process's lives ended.
    pub generation: u32,
    /// `Ok(code)` or `Err(signal)`.
    pub status: Result<u8, u8>,
    pub cause: Cause,
    pub offset: u64,
    pub at_ms: u64,
}

const EXITED: u64 = 1 << 32;
const SIGNALLED: u64 = 1 << 33;
/// The generation stands in the same word as the rest, so that no reader can pair an exit with the next life.
const GENERATION_SHIFT: u32 = 34;

pub(super) fn pack_exit(status: Result<u8, u8>, cause: Cause, generation: u32) -> u64 {
    let (flag, number) = match status {
        Ok(code) => (0, code),
        Err(signal) => (SIGNALLED, signal),
    };
    EXITED | flag | u64::from(number) | (cause as u64) << 8 | u64::from(generation) << GENERATION_SHIFT
}

pub(super) fn unpack_exit(word: u64) -> Option<(Result<u8, u8>, Cause, u32)> {
    if word & EXITED == 0 {
        return None;
    }
    let number = word as u8;
    let status = if word & SIGNALLED == 0 { Ok(number) } else { Err(number) };
    let cause = Cause::from_u8((word >> 8) as u8).unwrap_or(Cause::Itself);
    Some((status, cause, (word >> GENERATION_SHIFT) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_words_round_trip() {
        for status in [Ok(0), Ok(255), Err(9), Err(64)] {
            for cause in [Cause::Itself, Cause::TimedOut, Cause::Shutdown] {
                for generation in [0, 1, (1 << 30) - 1] {
                    let word = pack_exit(status, cause, generation);
                    assert_eq!(unpack_exit(word), Some((status, cause, generation)));
                }
            }
        }
        assert_eq!(unpack_exit(0), None);
    }

    #[test]
    fn a_ring_keeps_its_budget_beside_chunk_and_reserve() {
        for budget in [1, 4096, 10 << 20] {
            let sizes = Sizes::for_budget(budget, 128 * 1024);
            assert!(sizes.capacity >= budget + CHUNK_BYTES as u64 + sizes.reserve);
            assert_eq!(sizes.data_start() % PAGE, 0);
            assert!(sizes.plausible());
        }
    }
}
