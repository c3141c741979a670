//! Deadlines of processes, servers and the holder itself.
//!
//! The set may hold moments that no longer matter: whoever is due looks at its own state.

use std::collections::BTreeSet;

use super::Holder;
use crate::clock;
use crate::log::Cause;

/// Key of moments that concern servers or the shutdown; no process has it.
const HOUSEKEEPING: u64 = 0;

#[derive(Default)]
pub(super) struct Timers(BTreeSet<(u64, u64)>);

impl Timers {
    pub(super) fn arm(&mut self, at: u64, key: u64) {
        if at != 0 {
            self.0.insert((at, key));
        }
    }

    fn disarm(&mut self, at: u64, key: u64) {
        self.0.remove(&(at, key));
    }

    pub(super) fn arm_housekeeping(&mut self, at: u64) {
        self.arm(at, HOUSEKEEPING);
    }

    pub(super) fn timeout(&self, now: u64) -> Option<u64> {
        self.0.first().map(|(at, _)| at.saturating_sub(now))
    }

    fn take_due(&mut self, now: u64) -> Option<u64> {
        let (at, key) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            key
        })
    }
}

impl Holder {
    pub(super) fn fire_timers(&mut self) {
        let now = clock::boot_ms();
        while let Some(key) = self.timers.take_due(now) {
            if key == HOUSEKEEPING {
                self.housekeeping(now);
            } else {
                self.process_due(key, now);
            }
        }
    }

    /// These moments of a process no longer matter: short processes must not pile up long deadlines.
    pub(super) fn disarm(&mut self, key: u64, moments: [u64; 2]) {
        for at in moments {
            self.timers.disarm(at, key);
        }
        // One of them may also be the moment of something that does matter.
        if let Some(process) = self.processes.get(&key) {
            for at in process.deadlines() {
                self.timers.arm(at, key);
            }
        }
    }

    fn housekeeping(&mut self, now: u64) {
        self.servers_due(now);
        self.stopping_due(now);
    }

    fn process_due(&mut self, key: u64, now: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.launch_is_stuck(now) {
            self.give_up_launch(key);
            return;
        }
        let due = process.take_end_due(now);
        let blocked = process.blocked_streams();
        match due {
            Some(cause) => self.kill_tree(key, cause, None),
            // A hold's time may be over: try the blocked streams again.
            None => blocked.into_iter().for_each(|index| self.record(key, index)),
        }
        if let Some(process) = self.processes.get(&key) {
            for at in process.deadlines() {
                self.timers.arm(at.max(now + 1), key);
            }
        }
    }
}

/// The two deadlines that a server can arm.
pub(super) fn armable(cause: u8) -> Option<Cause> {
    Cause::from_u8(cause).filter(|cause| matches!(cause, Cause::TimedOut | Cause::Detached))
}
