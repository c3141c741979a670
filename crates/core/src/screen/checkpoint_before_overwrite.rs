//! Checkpoints of screens that no client requests: before the ring overwrites output that the model has not read, the
//! model is brought up to date and checkpointed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::model_reader::ModelReader;
use crate::process::Process;

/// After an update the screen pauses this many times longer than the update took, so that a process that prints without
/// end costs at most a tenth of a CPU.
const BACKOFF_FACTOR: u32 = 9;
const MAX_BACKOFF: Duration = Duration::from_secs(10);

impl Process {
    /// Requests a wake-up before the log overwrites output from now on. The program does not wait for the model: if it
    /// prints faster than the model reads, output is overwritten unread.
    pub(crate) fn arm_screen_checkpoint(self: &Arc<Self>) {
        if let Ok(log) = self.log() {
            self.arm_screen_checkpoint_from(log.head());
        }
    }

    /// Requests a wake-up before the log overwrites what follows `offset`, which the model has not read.
    fn arm_screen_checkpoint_from(self: &Arc<Self>, offset: u64) {
        if !self.is_terminal() {
            return;
        }
        let delay = self.safe_mode_left();
        if !delay.is_zero() {
            let process = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                if let Some(process) = process.upgrade() {
                    process.arm_screen_checkpoint();
                }
            });
            return;
        }
        if let Ok(log) = self.log() {
            self.screen.update_due.store(log.wake_before_overwrite(offset), Relaxed);
        }
    }

    /// Called when the log has grown: starts an update if the requested offset is reached.
    pub(crate) fn checkpoint_before_overwrite(self: &Arc<Self>) {
        let due = self.screen.update_due.load(Relaxed);
        if due == 0 || self.log().is_ok_and(|log| log.head() < due) {
            return;
        }
        if self.screen.update_due.compare_exchange(due, 0, Relaxed, Relaxed).is_err() {
            return;
        }
        let process = Arc::clone(self);
        tokio::spawn(async move {
            let updated = process.update_and_checkpoint().await;
            // No strong reference during the pause: a process that is deleted in the meantime frees its memory at once.
            let weak = Arc::downgrade(&process);
            drop(process);
            if let Some((_, cpu_time)) = updated {
                tokio::time::sleep((cpu_time * BACKOFF_FACTOR).min(MAX_BACKOFF)).await;
            }
            let Some(process) = weak.upgrade() else { return };
            match updated {
                Some((read_until, _)) => process.arm_screen_checkpoint_from(read_until),
                None => process.arm_screen_checkpoint(),
            }
            // The offset may have been reached before the wake-up was requested.
            process.checkpoint_before_overwrite();
        });
    }

    /// Returns how far the model has read, and the CPU time that took.
    async fn update_and_checkpoint(self: &Arc<Self>) -> Option<(u64, Duration)> {
        let _permit = self.services.model_cache.background_updates.acquire().await.ok()?;
        let read = |reader: &ModelReader| (reader.checkpoint(), reader.offset, reader.cpu_time);
        let (checkpoint, read_until, cpu_time) = self.with_model(read).await.ok()?;
        self.write_checkpoint(&mut *self.screen.state().lock().await, &checkpoint);
        Some((read_until, cpu_time))
    }
}
