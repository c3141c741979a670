//! Places in a terminal's output as OpenCode's clients count them: UTF-16 units of the decoded text since the terminal began.
//!
//! The log counts bytes and is the only truth; this is a view of it. What was decided:
//!
//! * **A tracker reads along** ([`track`]) from a terminal's start to its exit and sets a *mark* (offset, units) now and then, so that a
//!   place is found by decoding the bytes after one mark and not the whole log. The marks of what the log still has are kept with
//!   `Core::store`; there are about 32 of them, however large the log is.
//! * **The tracker holds the log at its last kept mark**, so what has not been counted is not trimmed away before it is: not under a flood, and not in
//!   the moment after the death of the server, for which the holder waits.
//! * **Before the oldest byte** the number of units comes from the next mark, by counting backwards. Decoding may begin at every byte that does not
//!   continue a character: such a byte never belongs to what came before it, also where the output is no UTF-8 at all.
//! * **What nobody could count** (a terminal of another surface, trimmed before its first client of OpenCode came; a tracker that was stopped for more than ten
//!   seconds under a flood) counts one unit per byte. That is written down like everything else, so a client's number means the same place ever after.
//! * **A place inside of a character** means the next one: a surrogate pair is never cut.

mod marks;
mod measure;
mod place;
mod track;

pub(super) use self::marks::Mark;
pub(super) use self::measure::{continued, units as count};
pub(super) use self::place::Wanted;
pub(super) use self::track::{Trackers, take_over, watch_removals};
