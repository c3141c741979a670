//! From a number of units to an offset.

use std::sync::Arc;

use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

use super::decode::continued;
use super::marks::{Count, Mark, Marks};

const READ_BYTES: usize = 64 * 1024;

/// Where a client wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Wanted {
    /// Behind this many units, or at the oldest byte that is still there.
    Units(u64),
    /// With what comes from now on.
    Nothing,
}

/// The place that is meant, where a character begins. Reads what lies between it and a mark, never more.
pub(super) fn find(log: &Arc<Log>, marks: &Marks, wanted: Wanted) -> Mark {
    let wanted = match wanted {
        Wanted::Units(units) => units,
        Wanted::Nothing => u64::MAX,
    };
    let (before, after) = marks.around(wanted);
    let start = match before {
        Some(mark) if mark.offset >= log.tail() => mark,
        _ => oldest(log, after),
    };
    walk(log, start, wanted)
}

/// The oldest place, by counting from there to a mark behind it.
fn oldest(log: &Arc<Log>, mark: Mark) -> Mark {
    let tail = log.tail();
    if tail >= mark.offset {
        // Nobody has counted what is gone.
        let mut count = Count::from(mark);
        count.skip_to(tail);
        return count.now();
    }
    let mut cursor = reader(log, tail);
    let (mut count, mut begun) = (Count::from(Mark { offset: tail, units: 0 }), tail);
    let mut is_first = true;
    while let Some(item) = cursor.try_next(READ_BYTES) {
        match item {
            Item::Bytes { offset, bytes, .. } => {
                let skipped = if std::mem::take(&mut is_first) { continued(&bytes) } else { 0 };
                if skipped > 0 {
                    begun = offset + skipped as u64;
                    count = Count::from(Mark { offset: begun, units: 0 });
                }
                let end = usize::try_from(mark.offset.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
                count.take(&bytes[skipped.min(end)..end], u64::MAX);
                if offset + bytes.len() as u64 >= mark.offset {
                    break;
                }
            }
            // Trimmed under our eyes: what is oldest now is further on.
            Item::Gap { to, .. } => {
                (count, begun, is_first) = (Count::from(Mark { offset: to, units: 0 }), to, true);
            }
            Item::Exit(_) => count.finish(),
            Item::BecameLive => {}
        }
    }
    Mark { offset: begun, units: mark.units.saturating_sub(count.now().units) }
}

/// From a place to the one that is meant, or to the end.
fn walk(log: &Arc<Log>, start: Mark, until: u64) -> Mark {
    let mut count = Count::from(start);
    if start.units >= until {
        return start;
    }
    let mut cursor = reader(log, start.offset);
    while let Some(item) = cursor.try_next(READ_BYTES) {
        match item {
            Item::Bytes { bytes, .. } => {
                if count.take(&bytes, until) {
                    break;
                }
            }
            Item::Gap { to, .. } => count.skip_to(to),
            Item::Exit(_) => count.finish(),
            Item::BecameLive => {}
        }
    }
    count.now()
}

fn reader(log: &Arc<Log>, offset: u64) -> Cursor {
    Cursor::new(Arc::clone(log), Start::At(offset), Flow::Live, StreamFilter::All)
}
