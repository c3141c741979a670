//! What survives of a model: a repaint and the offset it is true for, in the journal.

use std::sync::atomic::Ordering::Relaxed;

use super::behind::Repaint;
use super::kept::State;
use crate::process::Process;

/// The name under which what is known of a screen survives the server.
fn stored_as(id: &str) -> String {
    format!("screen/{id}")
}

impl Process {
    /// What this or an earlier server has kept.
    pub(super) fn checkpoint(&self) -> Option<Repaint> {
        let kept = self.services.stored.get(&stored_as(self.id()))?;
        serde_json::from_slice(&kept).ok()
    }

    /// For the next one who asks, or the next server.
    pub(super) fn store_checkpoint(&self, state: &mut State, checkpoint: &Repaint) {
        let value = serde_json::to_vec(checkpoint).unwrap_or_default();
        // Without memory for it, the screen will be worked out from what the log still has.
        if self.is_removed() || self.services.stored.put(&stored_as(self.id()), Some(value)).is_err() {
            return;
        }
        state.known = checkpoint.offset;
        self.services.screen_checkpoints.fetch_add(1, Relaxed);
        if self.is_removed() {
            // Just now: who removed it may have found nothing to give up yet.
            self.forget_checkpoint();
        }
    }

    /// It is over with the process.
    pub(crate) fn forget_checkpoint(&self) {
        if self.services.stored.get(&stored_as(self.id())).is_some() {
            let _ = self.services.stored.put(&stored_as(self.id()), None);
        }
    }
}
