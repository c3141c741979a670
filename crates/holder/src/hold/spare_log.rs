//! A log that lies ready for the next process: made while nobody waits for it.

use crate::log::{Beginning, LogWriter};

#[derive(Default)]
pub(super) struct SpareLog(Option<Spare>);

struct Spare {
    budget: u64,
    reserve: u64,
    log: LogWriter,
}

impl SpareLog {
    /// The spare one, if it is of these sizes.
    pub(super) fn take(&mut self, budget: u64, reserve: u64, beginning: Beginning) -> Option<LogWriter> {
        let fits = |spare: &mut Spare| (spare.budget, spare.reserve) == (budget, reserve);
        if beginning != Beginning::default() {
            return None;
        }
        self.0.take_if(fits).map(|spare| spare.log)
    }

    /// Makes one of these sizes: the next process is most likely like the last one.
    pub(super) fn make(&mut self, budget: u64, reserve: u64) {
        let there = self.0.as_ref().is_some_and(|spare| (spare.budget, spare.reserve) == (budget, reserve));
        if !there {
            // Without descriptors or memory there is none, and whoever needs a log learns why.
            self.0 =
                LogWriter::create(budget, reserve, Beginning::default()).ok().map(|log| Spare { budget, reserve, log });
        }
    }
}
