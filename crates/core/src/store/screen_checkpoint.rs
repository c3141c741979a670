//! Screen checkpoints: a repaint of a terminal and the log offset it is valid for, as the value `screen/<process>`.

use std::sync::atomic::Ordering::Relaxed;

use crate::process::Process;
use crate::screen::{Repaint, ScreenState};

fn checkpoint_name(process: &str) -> String {
    format!("screen/{process}")
}

impl Process {
    /// The latest checkpoint, written by this or an earlier server.
    pub(crate) fn read_checkpoint(&self) -> Option<Repaint> {
        let value = self.services.values.get(&checkpoint_name(self.id()))?;
        serde_json::from_slice(&value).ok()
    }

    pub(crate) fn write_checkpoint(&self, state: &mut ScreenState, checkpoint: &Repaint) {
        let value = serde_json::to_vec(checkpoint).unwrap_or_default();
        // Without memory for a checkpoint, the screen is computed from the part of the log that still exists.
        if self.is_removed() || self.services.values.set(&checkpoint_name(self.id()), Some(value)).is_err() {
            return;
        }
        state.checkpoint_offset = checkpoint.offset;
        self.services.model_cache.checkpoints_written.fetch_add(1, Relaxed);
        if self.is_removed() {
            // Removed between the check and the write: the removal may have found no checkpoint to delete.
            self.delete_checkpoint();
        }
    }

    pub(crate) fn delete_checkpoint(&self) {
        if self.services.values.get(&checkpoint_name(self.id())).is_some() {
            let _ = self.services.values.set(&checkpoint_name(self.id()), None);
        }
    }
}
