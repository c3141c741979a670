//! The holder's own memory goes back to the system when a burst of spawns is over: what each child needed until its exec would
//! otherwise stay with the allocator for good.

/// Whoever spawns again so soon would only need it again.
const AFTER_MS: u64 = 1_000;

#[derive(Default)]
pub(super) struct GiveBack {
    due: Option<u64>,
}

impl GiveBack {
    /// Something was spawned; returns when to look.
    pub(super) fn later(&mut self, now: u64) -> u64 {
        *self.due.insert(now + AFTER_MS)
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    pub(super) fn give_back_if_due(&mut self, now: u64) {
        if self.due.take_if(|due| *due <= now).is_some() {
            give_back();
        }
    }
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: takes the allocator's own locks and touches only memory that is free.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}
