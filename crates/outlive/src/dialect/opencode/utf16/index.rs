//! The index of one log: known pairs of byte offset and unit count. No I/O; the tracker feeds it.

use std::collections::VecDeque;

use super::count::{measure_prefix, units};

/// Positions of one log. They are stored together, again and again while the program prints.
const MAX_POSITIONS: usize = 256;

/// The bytes before `offset` are `units` UTF-16 units. A character starts at `offset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) offset: u64,
    pub(crate) units: u64,
}

/// Counts the units of a log from a known position.
#[derive(Clone, Debug)]
pub(super) struct UnitCounter {
    /// After the last whole character.
    position: Position,
    /// An incomplete character after `position`, at most three bytes.
    incomplete: Vec<u8>,
}

impl UnitCounter {
    pub(super) fn new(position: Position) -> Self {
        Self { position, incomplete: Vec::new() }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Counts the next bytes, up to `limit` units in all. Returns true when the limit is reached.
    pub(super) fn feed(&mut self, bytes: &[u8], limit: u64) -> bool {
        let joined;
        let bytes = if self.incomplete.is_empty() {
            bytes
        } else {
            joined = [&self.incomplete, bytes].concat();
            &joined
        };
        let done = measure_prefix(bytes, limit - self.position.units);
        self.position.offset += done.bytes as u64;
        self.position.units += done.units;
        self.incomplete.clear();
        if self.position.units >= limit {
            return true;
        }
        self.incomplete.extend_from_slice(&bytes[done.bytes..]);
        false
    }

    /// Skips bytes that were trimmed uncounted: one unit each.
    pub(super) fn skip_to(&mut self, offset: u64) {
        self.incomplete.clear();
        self.position.units += offset.saturating_sub(self.position.offset);
        self.position.offset = self.position.offset.max(offset);
    }

    /// The program has exited: an incomplete character stays incomplete and is one U+FFFD.
    pub(super) fn finish(&mut self) {
        if !self.incomplete.is_empty() {
            self.position.offset += self.incomplete.len() as u64;
            self.position.units += units(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]));
            self.incomplete.clear();
        }
    }
}

/// The known positions of one log, oldest first, and the counter at its end.
#[derive(Clone, Debug)]
pub(super) struct PositionIndex {
    positions: VecDeque<Position>,
    pub(super) counter: UnitCounter,
}

impl PositionIndex {
    /// Continues at the last of the stored positions, or at the start of the log.
    pub(super) fn new(stored: Vec<Position>) -> Self {
        let last = stored.last().copied().unwrap_or_default();
        let positions = if stored.is_empty() { VecDeque::from([last]) } else { stored.into() };
        Self { positions, counter: UnitCounter::new(last) }
    }

    pub(super) fn last(&self) -> Position {
        self.positions.back().copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        self.positions.iter().copied()
    }

    /// Adds the counter's position.
    pub(super) fn record(&mut self) {
        if self.last() != self.counter.position() {
            self.positions.push_back(self.counter.position());
        }
    }

    /// Drops positions before the oldest byte of the log, but never the last one.
    pub(super) fn drop_before(&mut self, tail: u64) {
        while self.positions.len() > 1 && self.positions[0].offset < tail {
            self.positions.pop_front();
        }
    }

    /// Limits the number of positions: with a history, a log has bytes far beyond its window. Those that stay are spread
    /// over the log; the first and the last one always stay.
    pub(super) fn thin_out(&mut self) {
        let (Some(first), last) = (self.positions.front().copied(), self.last()) else { return };
        if self.positions.len() <= MAX_POSITIONS {
            return;
        }
        let spacing = (last.offset - first.offset) / (MAX_POSITIONS as u64 / 2);
        let mut next = first.offset;
        self.positions.retain(|position| {
            let stays = position.offset >= next || *position == last;
            if stays {
                next = position.offset + spacing;
            }
            stays
        });
    }

    /// The last position with at most this many units.
    pub(super) fn at_or_before(&self, units: u64) -> Option<Position> {
        let after = self.positions.partition_point(|position| position.units <= units);
        after.checked_sub(1).map(|at| self.positions[at])
    }

    /// The first position at or after an offset, or the counter's position if there is none.
    pub(super) fn at_or_after(&self, offset: u64) -> Position {
        self.iter().find(|position| position.offset >= offset).unwrap_or_else(|| self.counter.position())
    }
}

/// Counts the input in two chunks up to every unit count: the position separates whole characters, and its units are
/// those of the text before it.
#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(data: &[u8]) {
    /// Every count decodes the whole input.
    const MAX_COUNTS: u64 = 64;
    let whole = String::from_utf8_lossy(data);
    for limit in 1..=units(&whole).min(MAX_COUNTS) {
        let mut counter = UnitCounter::new(Position::default());
        let (first, second) = data.split_at(data.len() / 2);
        if !counter.feed(first, limit) && !counter.feed(second, limit) {
            counter.finish();
        }
        let position = counter.position();
        let (before, after) = data.split_at(usize::try_from(position.offset).expect("an offset in the input"));
        let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
        assert_eq!((position.units, format!("{before}{after}")), (units(&before), whole.to_string()));
        assert!((limit..=limit + 1).contains(&position.units), "{} units instead of {limit}", position.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_positions_is_bounded() {
        let mut index = PositionIndex::new(Vec::new());
        for _ in 0..5_000 {
            index.counter.feed(b"abc", u64::MAX);
            index.record();
            index.thin_out();
            assert!(index.positions.len() <= MAX_POSITIONS);
        }
        assert_eq!((index.positions[0].offset, index.last().offset), (0, 15_000));
        assert!(index.iter().zip(index.iter().skip(1)).all(|(one, next)| next.offset - one.offset < 15_000 / 30));
    }

    #[test]
    fn counting_in_chunks_equals_counting_at_once() {
        let bytes = "a😀é€\r\n".repeat(50).into_bytes();
        let mut whole = UnitCounter::new(Position::default());
        whole.feed(&bytes, u64::MAX);
        for size in 1..20 {
            let mut counter = UnitCounter::new(Position::default());
            for chunk in bytes.chunks(size) {
                assert!(!counter.feed(chunk, u64::MAX));
            }
            assert_eq!(counter.position(), whole.position(), "{size}");
        }
        assert_eq!(whole.position(), Position { offset: bytes.len() as u64, units: 7 * 50 });
    }

    #[test]
    fn an_incomplete_character_at_exit_is_one_unit_and_trimmed_bytes_are_one_unit_each() {
        let mut counter = UnitCounter::new(Position::default());
        counter.feed(b"ab\xf0\x9f", u64::MAX);
        assert_eq!(counter.position(), Position { offset: 2, units: 2 });
        counter.finish();
        assert_eq!(counter.position(), Position { offset: 4, units: 3 });
        counter.skip_to(10);
        assert_eq!(counter.position(), Position { offset: 10, units: 9 });
    }

    #[test]
    fn the_index_finds_the_positions_around_a_seek_target() {
        let at = |offset, units| Position { offset, units };
        let mut index = PositionIndex::new(vec![at(0, 0), at(10, 8), at(20, 15)]);
        index.counter.feed(b"abc", u64::MAX);
        assert_eq!((index.at_or_before(9), index.at_or_after(9)), (Some(at(10, 8)), at(10, 8)));
        assert_eq!((index.at_or_before(15), index.at_or_after(21)), (Some(at(20, 15)), at(23, 18)));
        index.drop_before(11);
        assert_eq!((index.at_or_before(9), index.at_or_after(11)), (None, at(20, 15)));
        index.drop_before(1000);
        assert_eq!(index.last(), at(20, 15), "the last position stays");
    }
}
