//! A log that lies ready for the next process.
//!
//! It is made when a process was forgotten and not when one was started: a new program often waits for the processor that
//! the holder is on.

use crate::log::{Beginning, LogWriter};

#[derive(Default)]
pub(super) struct SpareLog {
    spare: Option<Spare>,
    /// Sizes of the last one that was asked for: the next process is most likely like it.
    wanted: Option<(u64, u64)>,
}

struct Spare {
    budget: u64,
    reserve: u64,
    log: LogWriter,
}

impl SpareLog {
    /// The spare one, if it is of these sizes.
    pub(super) fn take(&mut self, budget: u64, reserve: u64, beginning: Beginning) -> Option<LogWriter> {
        self.wanted = Some((budget, reserve));
        let fits = |spare: &mut Spare| (spare.budget, spare.reserve) == (budget, reserve);
        if beginning != Beginning::default() {
            return None;
        }
        self.spare.take_if(fits).map(|spare| spare.log)
    }

    /// Makes one unless it is there.
    pub(super) fn make(&mut self) {
        let Some((budget, reserve)) = self.wanted else { return };
        let there = self.spare.as_ref().is_some_and(|spare| (spare.budget, spare.reserve) == (budget, reserve));
        if !there {
            // Without descriptors or memory there is none, and whoever needs a log learns why.
            self.spare =
                LogWriter::create(budget, reserve, Beginning::default()).ok().map(|log| Spare { budget, reserve, log });
        }
    }
}
