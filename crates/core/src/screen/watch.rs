//! Before a log forgets what its model has not seen, the model is brought up to date.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::behind::Behind;
use crate::process::Process;

/// What runs after a flood rests as many times longer than it works.
const RESTS: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Process {
    /// From now on the model misses nothing.
    pub(crate) fn watch_screen(self: &Arc<Self>) {
        if let Ok(log) = self.log() {
            self.watch_screen_from(log.head());
        }
    }

    /// Asks to be told before the log loses what the model has not seen, which is what comes after `offset`.
    fn watch_screen_from(self: &Arc<Self>, offset: u64) {
        if !self.is_terminal() {
            return;
        }
        let later = self.safe_mode_left();
        if !later.is_zero() {
            let process = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                if let Some(process) = process.upgrade() {
                    process.watch_screen();
                }
            });
            return;
        }
        if let Ok(log) = self.log() {
            self.screen.due.store(log.tell_at(offset), Relaxed);
        }
    }

    /// The log has news.
    pub(crate) fn keep_up_if_due(self: &Arc<Self>) {
        let due = self.screen.due.load(Relaxed);
        if due == 0 || self.log().is_ok_and(|log| log.head() < due) {
            return;
        }
        if self.screen.due.compare_exchange(due, 0, Relaxed, Relaxed).is_err() {
            return;
        }
        let process = Arc::clone(self);
        tokio::spawn(async move {
            let kept_up = process.keep_up().await;
            // Who deletes it meanwhile gets its memory back at once.
            let resting = Arc::downgrade(&process);
            drop(process);
            if let Some((_, worked)) = kept_up {
                tokio::time::sleep((worked * RESTS).min(LONGEST_REST)).await;
            }
            let Some(process) = resting.upgrade() else { return };
            match kept_up {
                Some((seen, _)) => process.watch_screen_from(seen),
                None => process.watch_screen(),
            }
            // It may have been there before anybody asked.
            process.keep_up_if_due();
        });
    }

    /// Brings the model to the end of the log, and keeps what it knows. Up to where that was, and how much work it was.
    async fn keep_up(self: &Arc<Self>) -> Option<(u64, Duration)> {
        let _turn = self.services.keep_up_turn.acquire().await.ok()?;
        let look = |behind: &Behind| (behind.checkpoint(), behind.offset, behind.worked);
        let (checkpoint, seen, worked) = self.with_screen(look).await.ok()?;
        self.store_checkpoint(&mut *self.screen.state.lock().await, &checkpoint);
        Some((seen, worked))
    }
}
