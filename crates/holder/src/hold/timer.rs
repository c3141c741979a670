//! Deadlines of processes, servers and the holder itself.
//!
//! For each key only its earliest moment is armed, however often a deadline moves. That one may no longer matter:
//! whoever is due looks at its own state, and its next moment is armed.

use std::collections::{BTreeSet, HashMap};

use super::Holder;
use super::process::Process;
use super::shutdown::Stopping;
use crate::clock;
use crate::log::Cause;

/// Key of moments that concern servers, the shutdown or the holder's memory; no process has it.
const HOUSEKEEPING: u64 = 0;

#[derive(Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(u64, u64)>,
    by_key: HashMap<u64, u64>,
}

impl Timers {
    /// Wakes `key` at this moment, or earlier if it has an earlier one; 0 = never.
    pub(super) fn arm(&mut self, at: u64, key: u64) {
        let armed = self.by_key.get(&key).copied();
        if at == 0 || armed.is_some_and(|earlier| earlier <= at) {
            return;
        }
        self.disarm(key);
        self.by_time.insert((at, key));
        self.by_key.insert(key, at);
    }

    pub(super) fn disarm(&mut self, key: u64) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    pub(super) fn arm_housekeeping(&mut self, at: u64) {
        self.arm(at, HOUSEKEEPING);
    }

    pub(super) fn timeout(&self, now: u64) -> Option<u64> {
        self.by_time.first().map(|(at, _)| at.saturating_sub(now))
    }

    fn take_due(&mut self, now: u64) -> Option<u64> {
        let (at, key) = *self.by_time.first()?;
        (at <= now).then(|| {
            self.disarm(key);
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

    /// The moments of a process have changed: short processes must not pile up long deadlines.
    pub(super) fn rearm(&mut self, key: u64) {
        self.rearm_after(key, 0);
    }

    fn rearm_after(&mut self, key: u64, now: u64) {
        self.timers.disarm(key);
        let moments = self.processes.get(&key).map(Process::deadlines).unwrap_or_default();
        for at in moments {
            // What is still due after its turn gets the next one, not this one again.
            self.timers.arm(at.max(now + 1), key);
        }
    }

    fn housekeeping(&mut self, now: u64) {
        self.servers_due(now);
        self.stopping_due(now);
        self.give_back.give_back_if_due(now);
        let stopping = self.stopping.as_ref().and_then(Stopping::due);
        for at in self.servers_moments().chain(stopping).chain(self.give_back.due()).collect::<Vec<_>>() {
            self.timers.arm_housekeeping(at.max(now + 1));
        }
    }

    fn process_due(&mut self, key: u64, now: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.launch_is_stuck(now) {
            self.give_up_launch(key);
            self.rearm_after(key, now);
            return;
        }
        if process.untold.as_ref().is_some_and(|untold| now >= untold.tell_at) {
            self.tell(key);
        }
        let Some(process) = self.processes.get_mut(&key) else { return };
        let due = process.take_end_due(now);
        let blocked = process.blocked_streams();
        match due {
            Some(cause) => self.kill_tree(key, cause, None),
            // A hold's time may be over: try the blocked streams again.
            None => blocked.into_iter().for_each(|index| self.record(key, index)),
        }
        self.rearm_after(key, now);
    }
}

/// The two deadlines that a server can arm.
pub(super) fn armable(cause: u8) -> Option<Cause> {
    Cause::from_u8(cause).filter(|cause| matches!(cause, Cause::TimedOut | Cause::Detached))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_is_set_again_and_again_takes_no_room() {
        let mut timers = Timers::default();
        for at in (1000..2000).chain((500..1500).rev()) {
            timers.arm(at, 7);
            timers.arm_housekeeping(at + 1);
        }
        assert_eq!((timers.by_time.len(), timers.by_key.len()), (2, 2));
        assert_eq!(timers.timeout(100), Some(400));
        assert_eq!(timers.take_due(499), None);
        assert_eq!(timers.take_due(501), Some(7));
        assert_eq!(timers.take_due(501), Some(HOUSEKEEPING));
        assert_eq!(timers.timeout(0), None);
    }

    #[test]
    fn never_is_no_moment() {
        let mut timers = Timers::default();
        timers.arm(0, 7);
        assert_eq!(timers.timeout(0), None);
        timers.arm(9, 7);
        timers.disarm(7);
        assert_eq!(timers.timeout(0), None);
    }
}
