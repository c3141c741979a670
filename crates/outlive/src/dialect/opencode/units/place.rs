//! From a number of units to an offset.

use std::sync::Arc;

use bytes::Bytes;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

use super::marks::{Count, Mark, Marks};
use super::measure::continued;

const READ_BYTES: usize = 64 * 1024;

/// Where a client wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Wanted {
    /// Behind this many units, or at the oldest byte that is still there.
    Units(u64),
    /// With what comes from now on.
    Nothing,
}

/// What lies in a log.
pub(super) enum Piece {
    Bytes {
        offset: u64,
        bytes: Bytes,
    },
    /// Bytes before `to` were trimmed while we looked.
    Gone {
        to: u64,
    },
    /// The program ended here.
    End,
}

/// A log as far as it matters here.
pub(super) trait Readable {
    /// The oldest offset.
    fn tail(&self) -> u64;
    /// What is there from an offset on.
    fn pieces(&self, from: u64) -> impl Iterator<Item = Piece>;
}

impl Readable for Arc<Log> {
    fn tail(&self) -> u64 {
        Log::tail(self)
    }

    fn pieces(&self, from: u64) -> impl Iterator<Item = Piece> {
        let mut cursor = Cursor::new(Self::clone(self), Start::At(from), Flow::Live, StreamFilter::All);
        std::iter::from_fn(move || {
            loop {
                return Some(match cursor.try_next(READ_BYTES)? {
                    Item::Bytes { offset, bytes, .. } => Piece::Bytes { offset, bytes },
                    Item::Gap { to, .. } => Piece::Gone { to },
                    Item::Exit(_) => Piece::End,
                    Item::BecameLive => continue,
                });
            }
        })
    }
}

/// The place that is meant, where a character begins. Reads what lies between it and a mark, never more.
pub(super) fn find(log: &impl Readable, marks: &Marks, wanted: Wanted) -> Mark {
    let wanted = match wanted {
        Wanted::Units(units) => units,
        Wanted::Nothing => u64::MAX,
    };
    let start = match marks.before(wanted) {
        Some(mark) if mark.offset >= log.tail() => mark,
        _ => oldest(log, marks.behind(log.tail())),
    };
    walk(log, start, wanted)
}

/// The oldest place, by counting from there to a mark behind it.
fn oldest(log: &impl Readable, mark: Mark) -> Mark {
    let tail = log.tail();
    if tail >= mark.offset {
        // Nobody has counted what is gone.
        let mut count = Count::from(mark);
        count.skip_to(tail);
        return count.now();
    }
    let (mut begun, mut count) = (tail, Count::from(Mark::default()));
    let mut is_first = true;
    for piece in log.pieces(tail) {
        match piece {
            Piece::Bytes { offset, bytes } => {
                let skipped = if std::mem::take(&mut is_first) { continued(&bytes) } else { 0 };
                begun += skipped as u64;
                let end = usize::try_from(mark.offset.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
                count.take(&bytes[skipped.min(end)..end], u64::MAX);
                if offset + end as u64 >= mark.offset {
                    // A character begins there, so what was begun before it never became one.
                    count.finish();
                    break;
                }
            }
            Piece::Gone { to } => (begun, count, is_first) = (to, Count::from(Mark::default()), true),
            Piece::End => count.finish(),
        }
    }
    Mark { offset: begun, units: mark.units.saturating_sub(count.now().units) }
}

/// From a place to the one that is meant, or to the end.
fn walk(log: &impl Readable, start: Mark, until: u64) -> Mark {
    let mut count = Count::from(start);
    if start.units >= until {
        return start;
    }
    for piece in log.pieces(start.offset) {
        match piece {
            Piece::Bytes { bytes, .. } => {
                if count.take(&bytes, until) {
                    break;
                }
            }
            Piece::Gone { to } => count.skip_to(to),
            Piece::End => count.finish(),
        }
    }
    count.now()
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::mixed;
    use super::super::measure::units;
    use super::*;
    use crate::decoder::Decoder;

    /// A log that was trimmed, read in pieces of a size.
    struct Trimmed {
        bytes: Vec<u8>,
        tail: usize,
        piece: usize,
        has_ended: bool,
    }

    impl Readable for Trimmed {
        fn tail(&self) -> u64 {
            self.tail as u64
        }

        fn pieces(&self, from: u64) -> impl Iterator<Item = Piece> {
            let from = usize::try_from(from).unwrap().max(self.tail);
            let starts = (from..self.bytes.len()).step_by(self.piece);
            let pieces = starts.map(|at| {
                let end = (at + self.piece).min(self.bytes.len());
                Piece::Bytes { offset: at as u64, bytes: Bytes::copy_from_slice(&self.bytes[at..end]) }
            });
            pieces.chain(self.has_ended.then_some(Piece::End))
        }
    }

    /// What a client is given from a place on.
    fn shown(log: &Trimmed, from: Mark) -> String {
        let mut decoder = Decoder::default();
        let mut text = decoder.decode(&log.bytes[usize::try_from(from.offset).unwrap()..]);
        if log.has_ended {
            text.extend(decoder.finish());
        }
        text
    }

    #[test]
    fn wherever_a_client_comes_back_it_goes_on_there() {
        for seed in 1..40 {
            let bytes = mixed(seed, 400);
            let has_ended = seed % 2 == 0;
            // As the tracker did it: a mark now and then.
            let mut marks = Marks::from(vec![Mark::default()]);
            for (number, piece) in bytes.chunks(1 + seed as usize % 7).enumerate() {
                marks.count.take(piece, u64::MAX);
                if number % 9 == 0 {
                    marks.set_here();
                }
            }
            if has_ended {
                marks.count.finish();
            }
            let counted = marks.count.now();
            for tail in [0, 1, 57, 58, 59, 200, 398] {
                let log = Trimmed { bytes: bytes.clone(), tail, piece: 1 + seed as usize % 11, has_ended };
                let mut marks = marks.clone();
                marks.forget_before(log.tail());
                let oldest = find(&log, &marks, Wanted::Units(0));
                assert!(oldest.offset as usize - tail <= 3, "{seed} {tail}: {oldest:?}");
                for wanted in 0..counted.units + 3 {
                    let found = find(&log, &marks, Wanted::Units(wanted));
                    let expected = wanted.clamp(oldest.units, counted.units);
                    assert!(
                        found.units == expected || found.units == expected + 1,
                        "{seed} {tail} {wanted}: {found:?}"
                    );
                    assert_eq!(found.units + units(&shown(&log, found)), counted.units, "{seed} {tail} {wanted}");
                }
                assert_eq!(find(&log, &marks, Wanted::Nothing), counted);
            }
        }
    }
}
