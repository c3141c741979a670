//! Finds the byte offset for a number of units.

use std::sync::Arc;

use bytes::Bytes;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

use super::count::continuation_prefix;
use super::index::{Position, PositionIndex, UnitCounter};

const READ_BYTES: usize = 64 * 1024;

/// Where a client wants to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekTarget {
    /// After this many units, or at the oldest byte if that one was trimmed.
    Units(u64),
    /// At the end of the output: no replay.
    End,
}

pub(super) enum LogItem {
    Bytes {
        offset: u64,
        bytes: Bytes,
    },
    /// Bytes before `to` were trimmed while the log was read.
    Gap {
        to: u64,
    },
    Exit,
}

/// The part of a log that a seek needs; a trait, so that tests can use a fake.
pub(super) trait ReadLog {
    /// The offset of the oldest byte.
    fn tail(&self) -> u64;
    /// The items from an offset to the current end. Waits for the disk at most.
    fn items(&self, from: u64) -> impl Iterator<Item = LogItem>;
}

impl ReadLog for Arc<Log> {
    fn tail(&self) -> u64 {
        Log::tail(self)
    }

    fn items(&self, from: u64) -> impl Iterator<Item = LogItem> {
        let mut cursor = Cursor::new(Self::clone(self), Start::At(from), Flow::Live, StreamFilter::All);
        std::iter::from_fn(move || {
            loop {
                return Some(match cursor.next_now_blocking(READ_BYTES)? {
                    Item::Bytes { offset, bytes, .. } => LogItem::Bytes { offset, bytes },
                    Item::Gap { to_offset: to, .. } => LogItem::Gap { to },
                    Item::Exit(_) => LogItem::Exit,
                    Item::BecameLive | Item::End => continue,
                });
            }
        })
    }
}

/// The position of a target, at the start of a character. Reads only the bytes between it and the nearest indexed
/// position.
pub(super) fn seek(log: &impl ReadLog, index: &PositionIndex, target: SeekTarget) -> Position {
    let units = match target {
        SeekTarget::Units(units) => units,
        SeekTarget::End => u64::MAX,
    };
    let start = match index.at_or_before(units) {
        Some(position) if position.offset >= log.tail() => position,
        _ => oldest_position(log, index.at_or_after(log.tail())),
    };
    read_forward(log, start, units)
}

/// The position of the oldest byte, by counting from there to `known`, the next indexed position.
fn oldest_position(log: &impl ReadLog, known: Position) -> Position {
    let tail = log.tail();
    if tail >= known.offset {
        // The bytes between were trimmed uncounted.
        let mut counter = UnitCounter::new(known);
        counter.skip_to(tail);
        return counter.position();
    }
    let (mut start, mut counter) = (tail, UnitCounter::new(Position::default()));
    let mut is_first = true;
    for item in log.items(tail) {
        match item {
            LogItem::Bytes { offset, bytes } => {
                let skipped = if std::mem::take(&mut is_first) { continuation_prefix(&bytes) } else { 0 };
                start += skipped as u64;
                let end = usize::try_from(known.offset.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
                counter.feed(&bytes[skipped.min(end)..end], u64::MAX);
                if offset + end as u64 >= known.offset {
                    // A character starts at `known`, so an incomplete one before it was never completed.
                    counter.finish();
                    break;
                }
            }
            LogItem::Gap { to } => (start, counter, is_first) = (to, UnitCounter::new(Position::default()), true),
            LogItem::Exit => counter.finish(),
        }
    }
    Position { offset: start, units: known.units.saturating_sub(counter.position().units) }
}

/// The position `limit` units into the log, or the end, found by decoding from `start`.
fn read_forward(log: &impl ReadLog, start: Position, limit: u64) -> Position {
    let mut counter = UnitCounter::new(start);
    if start.units >= limit {
        return start;
    }
    for item in log.items(start.offset) {
        match item {
            LogItem::Bytes { bytes, .. } => {
                if counter.feed(&bytes, limit) {
                    break;
                }
            }
            LogItem::Gap { to } => counter.skip_to(to),
            LogItem::Exit => counter.finish(),
        }
    }
    counter.position()
}

#[cfg(test)]
mod tests {
    use super::super::count::tests::mixed_bytes;
    use super::super::count::units;
    use super::*;
    use crate::utf8_decoder::Utf8Decoder;

    /// A trimmed log that is read in chunks of a fixed size.
    struct TrimmedLog {
        bytes: Vec<u8>,
        tail: usize,
        chunk_size: usize,
        has_exited: bool,
    }

    impl ReadLog for TrimmedLog {
        fn tail(&self) -> u64 {
            self.tail as u64
        }

        fn items(&self, from: u64) -> impl Iterator<Item = LogItem> {
            let from = usize::try_from(from).unwrap().max(self.tail);
            let starts = (from..self.bytes.len()).step_by(self.chunk_size);
            let items = starts.map(|at| {
                let end = (at + self.chunk_size).min(self.bytes.len());
                LogItem::Bytes { offset: at as u64, bytes: Bytes::copy_from_slice(&self.bytes[at..end]) }
            });
            items.chain(self.has_exited.then_some(LogItem::Exit))
        }
    }

    /// The text that a client receives from a position on.
    fn text_from(log: &TrimmedLog, from: Position) -> String {
        let mut decoder = Utf8Decoder::default();
        let mut text = decoder.decode(&log.bytes[usize::try_from(from.offset).unwrap()..]);
        if log.has_exited {
            text.extend(decoder.finish());
        }
        text
    }

    #[test]
    fn a_client_resumes_exactly_at_its_cursor() {
        for seed in 1..40 {
            let bytes = mixed_bytes(seed, 400);
            let has_exited = seed % 2 == 0;
            // Positions at intervals, as the tracker records them.
            let mut index = PositionIndex::new(vec![Position::default()]);
            for (number, chunk) in bytes.chunks(1 + seed as usize % 7).enumerate() {
                index.counter.feed(chunk, u64::MAX);
                if number % 9 == 0 {
                    index.record();
                }
            }
            if has_exited {
                index.counter.finish();
            }
            let counted = index.counter.position();
            for tail in [0, 1, 57, 58, 59, 200, 398] {
                let log = TrimmedLog { bytes: bytes.clone(), tail, chunk_size: 1 + seed as usize % 11, has_exited };
                let mut index = index.clone();
                index.drop_before(log.tail());
                let oldest = seek(&log, &index, SeekTarget::Units(0));
                assert!(oldest.offset as usize - tail <= 3, "{seed} {tail}: {oldest:?}");
                for target in 0..counted.units + 3 {
                    let found = seek(&log, &index, SeekTarget::Units(target));
                    let expected = target.clamp(oldest.units, counted.units);
                    assert!(
                        found.units == expected || found.units == expected + 1,
                        "{seed} {tail} {target}: {found:?}"
                    );
                    assert_eq!(found.units + units(&text_from(&log, found)), counted.units, "{seed} {tail} {target}");
                }
                assert_eq!(seek(&log, &index, SeekTarget::End), counted);
            }
        }
    }
}
