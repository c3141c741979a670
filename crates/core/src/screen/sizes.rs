//! Which sizes a model has to have on its way through a log.

use crate::attach::Size;
use crate::process::{Process, SizeChange};

/// Nobody has a larger window; a model of it would take all memory.
const LARGEST: Size = Size { cols: 640, rows: 240 };

/// Which size the terminal had at which byte.
pub(super) struct Sizes {
    born: Size,
    changes: Vec<SizeChange>,
}

impl Sizes {
    pub(super) fn of(process: &Process) -> Self {
        let (born, mut changes) = process.sizes();
        let within = |size: Size| Size { cols: size.cols.min(LARGEST.cols), rows: size.rows.min(LARGEST.rows) };
        for change in &mut changes {
            change.size = within(change.size);
        }
        Self { born: within(born.unwrap_or(Size { cols: 80, rows: 24 })), changes }
    }

    pub(super) fn at(&self, offset: u64) -> Size {
        self.changes.iter().rev().find(|change| change.offset <= offset).map_or(self.born, |change| change.size)
    }

    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &SizeChange> {
        self.changes.iter().filter(move |change| (from..to).contains(&change.offset))
    }
}
