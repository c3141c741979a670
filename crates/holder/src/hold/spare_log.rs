//! A log that lies ready for the next process.
//!
//! It is that of a brief process which is over, or made when a process was forgotten; not when one was started: a new program
//! often waits for the processor that the holder is on.

use crate::log::{Beginning, LogWriter};

#[derive(Default)]
pub(super) struct SpareLog {
    spare: Option<LogWriter>,
    /// Sizes of the last one that was asked for: the next process is most likely like it.
    wanted: Option<(u64, u64)>,
}

impl SpareLog {
    /// The spare one, if it is of these sizes.
    pub(super) fn take(&mut self, budget: u64, reserve: u64, beginning: Beginning) -> Option<LogWriter> {
        self.wanted = Some((budget, reserve));
        if beginning != Beginning::default() {
            return None;
        }
        self.spare.take_if(|spare| spare.is_for(budget, reserve))
    }

    /// A log that nobody but the holder has ever known.
    pub(super) fn take_back(&mut self, log: LogWriter) {
        let is_wanted = |log: &LogWriter| self.wanted.is_some_and(|(budget, reserve)| log.is_for(budget, reserve));
        if is_wanted(&log) && !self.spare.as_ref().is_some_and(is_wanted) {
            log.begin_again();
            self.spare = Some(log);
        }
    }

    /// Makes one unless it is there.
    pub(super) fn make(&mut self) {
        let Some((budget, reserve)) = self.wanted else { return };
        if self.spare.as_ref().is_none_or(|spare| !spare.is_for(budget, reserve)) {
            // Without descriptors or memory there is none, and whoever needs a log learns why.
            self.spare = LogWriter::create(budget, reserve, Beginning::default()).ok();
        }
    }
}
