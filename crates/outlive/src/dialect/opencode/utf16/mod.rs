//! Positions in a terminal's output as OpenCode's clients count them: UTF-16 code units of the decoded text since the
//! terminal started.
//!
//! The log counts bytes; this module maps units to byte offsets. Its rules:
//!
//! * **A tracker reads every terminal** ([`tracker`]) from its start to its exit and records a [`Position`] (offset and
//!   units) at intervals, so that a seek decodes the bytes after one position instead of the whole log. The positions
//!   inside the log's window, about 32 whatever its size, are stored with `Core::store`.
//! * **The tracker's lease is at its last stored position.** Uncounted bytes are therefore not trimmed: neither under
//!   heavy output nor right after the server's death, when the holder waits for the next server.
//! * **Before the oldest byte** the number of units is derived from the next position, by counting backwards. Decoding
//!   may start at every byte that does not continue a character: such a byte never belongs to the bytes before it, even
//!   where the output is not UTF-8.
//! * **Bytes that were trimmed uncounted** count one unit each. This happens to a terminal of another surface that was
//!   trimmed before its first OpenCode client, and to a tracker that stalled for more than ten seconds under heavy
//!   output. The result is stored, so a client's cursor keeps its meaning.
//! * **A cursor inside a character** means the next character: a surrogate pair is never split.

mod count;
mod index;
mod seek;
mod tracker;

pub(super) use self::count::{continuation_prefix, units as count};
pub(super) use self::index::Position;
#[cfg(any(fuzzing, test))]
pub(super) use self::index::fuzz;
pub(super) use self::seek::SeekTarget;
pub(super) use self::tracker::{Trackers, take_over, watch_removals};
