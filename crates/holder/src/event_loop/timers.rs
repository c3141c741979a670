//! Deadlines of processes, of servers and of the holder itself.
//!
//! Only the earliest deadline of each key is armed, however often deadlines change. An armed deadline may be obsolete
//! when it fires: the handler looks at the actual state and arms the next one.

use std::collections::{BTreeSet, HashMap};

use super::Holder;
use super::process::Process;
use super::shutdown::Shutdown;
use crate::clock;

/// Key of deadlines that concern servers, the shutdown or the holder's memory; no process has it.
const HOUSEKEEPING: u64 = 0;

#[derive(Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(u64, u64)>,
    by_key: HashMap<u64, u64>,
}

impl Timers {
    /// Arms a deadline unless the key has an earlier one; 0 = never.
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

    /// Milliseconds until the next deadline.
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
                self.on_housekeeping_deadline(now);
            } else {
                self.on_process_deadline(key, now);
            }
        }
    }

    /// Call when the deadlines of a process have changed. Obsolete ones are disarmed, or the long deadlines of many
    /// short processes would accumulate.
    pub(super) fn rearm(&mut self, key: u64) {
        self.rearm_after(key, 0);
    }

    fn rearm_after(&mut self, key: u64, now: u64) {
        self.timers.disarm(key);
        let deadlines = self.processes.get(&key).map(Process::deadlines).unwrap_or_default();
        for at in deadlines {
            // Not again in this turn: a deadline that stays due would keep `fire_timers` from returning.
            self.timers.arm(at.max(now + 1), key);
        }
    }

    fn on_housekeeping_deadline(&mut self, now: u64) {
        self.check_server_deadlines(now);
        self.advance_shutdown(now);
        self.memory_trim.trim_if_due(now);
        let shutdown = self.shutdown.as_ref().and_then(Shutdown::deadline);
        for at in self.server_deadlines().chain(shutdown).chain(self.memory_trim.due_at).collect::<Vec<_>>() {
            self.timers.arm_housekeeping(at.max(now + 1));
        }
    }

    fn on_process_deadline(&mut self, key: u64, now: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.launch_is_stuck(now) {
            self.abort_launch(key);
            self.rearm_after(key, now);
            return;
        }
        if process.unreported.as_ref().is_some_and(|run| now >= run.report_at) {
            self.report_as_process(key);
        }
        let Some(process) = self.processes.get_mut(&key) else { return };
        let cause = process.take_due_kill(now);
        let blocked = process.blocked_streams();
        match cause {
            Some(cause) => self.kill_tree(key, cause, None),
            // A lease may have expired: try the blocked streams again.
            None => blocked.into_iter().for_each(|index| self.record_stream(key, index)),
        }
        self.rearm_after(key, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_earliest_deadline_of_a_key_is_armed() {
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
    fn a_deadline_of_zero_is_never_armed() {
        let mut timers = Timers::default();
        timers.arm(0, 7);
        assert_eq!(timers.timeout(0), None);
        timers.arm(9, 7);
        timers.disarm(7);
        assert_eq!(timers.timeout(0), None);
    }
}
