//! Marks in a log: how many units come before an offset. Pure; the tracker feeds it.

use std::collections::VecDeque;

use super::measure::{measure, units};

/// Bytes before `offset`, where a character begins, are `units` units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Mark {
    pub(in super::super) offset: u64,
    pub(in super::super) units: u64,
}

/// Counts a log from one place on.
#[derive(Clone, Debug)]
pub(super) struct Count {
    /// Behind the last whole character.
    now: Mark,
    /// What began behind `now`, at most three bytes.
    held: Vec<u8>,
}

impl Count {
    pub(super) fn from(now: Mark) -> Self {
        Self { now, held: Vec::new() }
    }

    pub(super) fn now(&self) -> Mark {
        self.now
    }

    /// Takes the bytes that follow, as far as they are needed to come to `until` units. True: it is there.
    pub(super) fn take(&mut self, bytes: &[u8], until: u64) -> bool {
        let joined;
        let bytes = if self.held.is_empty() {
            bytes
        } else {
            joined = [&self.held, bytes].concat();
            &joined
        };
        let done = measure(bytes, until - self.now.units);
        self.now = Mark { offset: self.now.offset + done.bytes as u64, units: self.now.units + done.units };
        self.held.clear();
        if self.now.units >= until {
            return true;
        }
        self.held.extend_from_slice(&bytes[done.bytes..]);
        false
    }

    /// Bytes up to here are gone, and nobody has seen them: one unit each.
    pub(super) fn skip_to(&mut self, offset: u64) {
        self.held.clear();
        self.now.units += offset.saturating_sub(self.now.offset);
        self.now.offset = self.now.offset.max(offset);
    }

    /// The program has ended: what was begun is not completed any more.
    pub(super) fn finish(&mut self) {
        if !self.held.is_empty() {
            self.now.offset += self.held.len() as u64;
            self.now.units += units(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]));
            self.held.clear();
        }
    }
}

/// The marks of one log, oldest first, and the place up to which it was counted.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    set: VecDeque<Mark>,
    pub(super) count: Count,
}

impl Marks {
    /// Beginning at a mark, or going on from those that were kept.
    pub(super) fn from(kept: Vec<Mark>) -> Self {
        let last = kept.last().copied().unwrap_or_default();
        let set = if kept.is_empty() { VecDeque::from([last]) } else { kept.into() };
        Self { set, count: Count::from(last) }
    }

    pub(super) fn last(&self) -> Mark {
        self.set.back().copied().unwrap_or_default()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Mark> + '_ {
        self.set.iter().copied()
    }

    /// Sets a mark where the count is.
    pub(super) fn set_here(&mut self) {
        if self.last() != self.count.now() {
            self.set.push_back(self.count.now());
        }
    }

    /// Marks before the oldest byte are of no use.
    pub(super) fn forget_before(&mut self, tail: u64) {
        while self.set.len() > 1 && self.set[0].offset < tail {
            self.set.pop_front();
        }
    }

    /// The last mark that is not behind a place.
    pub(super) fn before(&self, units: u64) -> Option<Mark> {
        let behind = self.set.partition_point(|mark| mark.units <= units);
        behind.checked_sub(1).map(|at| self.set[at])
    }

    /// The first place at an offset or behind it whose units are known; or the last one that there is.
    pub(super) fn behind(&self, offset: u64) -> Mark {
        self.all().find(|mark| mark.offset >= offset).unwrap_or_else(|| self.count.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_in_pieces_is_counting_at_once() {
        let bytes = "a😀é€\r\n".repeat(50).into_bytes();
        let mut whole = Count::from(Mark::default());
        whole.take(&bytes, u64::MAX);
        for size in 1..20 {
            let mut count = Count::from(Mark::default());
            for piece in bytes.chunks(size) {
                assert!(!count.take(piece, u64::MAX));
            }
            assert_eq!(count.now(), whole.now(), "{size}");
        }
        assert_eq!(whole.now(), Mark { offset: bytes.len() as u64, units: 7 * 50 });
    }

    #[test]
    fn an_end_inside_of_a_character_is_one_unit_and_what_is_gone_is_one_per_byte() {
        let mut count = Count::from(Mark::default());
        count.take(b"ab\xf0\x9f", u64::MAX);
        assert_eq!(count.now(), Mark { offset: 2, units: 2 });
        count.finish();
        assert_eq!(count.now(), Mark { offset: 4, units: 3 });
        count.skip_to(10);
        assert_eq!(count.now(), Mark { offset: 10, units: 9 });
    }

    #[test]
    fn marks_around_a_place() {
        let mark = |offset, units| Mark { offset, units };
        let mut marks = Marks::from(vec![mark(0, 0), mark(10, 8), mark(20, 15)]);
        marks.count.take(b"abc", u64::MAX);
        assert_eq!((marks.before(9), marks.behind(9)), (Some(mark(10, 8)), mark(10, 8)));
        assert_eq!((marks.before(15), marks.behind(21)), (Some(mark(20, 15)), mark(23, 18)));
        marks.forget_before(11);
        assert_eq!((marks.before(9), marks.behind(11)), (None, mark(20, 15)));
        marks.forget_before(1000);
        assert_eq!(marks.last(), mark(20, 15), "the last one stays");
    }
}
