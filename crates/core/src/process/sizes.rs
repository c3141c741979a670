//! Which sizes a terminal has had, and from which byte of its log on: a recording tells it, and whoever draws a screen from the
//! log needs it.

use serde::{Deserialize, Serialize};

use crate::attach::Size;

/// Somebody who drags the corner of a window makes hundreds; the oldest of so many are forgotten.
const MOST: usize = 256;

/// A new size, and where in the log it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeChange {
    pub offset: u64,
    pub at_ms: u64,
    pub size: Size,
}

/// The changes since the beginning of the log, oldest first. One that is older than the log itself says which size it begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SizeHistory(Vec<SizeChange>);

impl SizeHistory {
    /// `oldest` is the first byte that the log still has.
    pub(super) fn note(&mut self, change: SizeChange, oldest: u64) {
        // Nothing was printed in between: nobody has seen the one before.
        if self.0.last().is_some_and(|last| last.offset == change.offset) {
            self.0.pop();
        }
        self.0.push(change);
        let before = self.0.iter().take_while(|change| change.offset <= oldest).count();
        self.0.drain(..before.saturating_sub(1).max(self.0.len().saturating_sub(MOST)));
    }

    pub(super) fn changes(&self) -> &[SizeChange] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(offset: u64, cols: u16) -> SizeChange {
        SizeChange { offset, at_ms: offset, size: Size { cols, rows: 24 } }
    }

    fn cols(history: &SizeHistory) -> Vec<(u64, u16)> {
        history.changes().iter().map(|change| (change.offset, change.size.cols)).collect()
    }

    #[test]
    fn only_what_a_reader_of_the_log_needs_is_kept() {
        let mut history = SizeHistory::default();
        for (offset, cols) in [(10, 90), (10, 91), (20, 100), (30, 110)] {
            history.note(change(offset, cols), 0);
        }
        assert_eq!(cols(&history), [(10, 91), (20, 100), (30, 110)]);
        // The log begins at 25 by now: it begins with 100 columns.
        history.note(change(40, 120), 25);
        assert_eq!(cols(&history), [(20, 100), (30, 110), (40, 120)]);
    }

    #[test]
    fn a_window_that_is_dragged_all_day_takes_no_room() {
        let mut history = SizeHistory::default();
        for offset in 1..10_000 {
            history.note(change(offset, offset as u16), 0);
        }
        assert_eq!(history.changes().len(), MOST);
        assert_eq!(history.changes().last(), Some(&change(9_999, 9_999)));
    }
}
