//! Stopping a running command after a cancel or a timeout, in steps that get harder.
//!
//! ```text
//! INT to the shell's group ─▶ TERM, then KILL to what the command started ─▶ KILL to the shell
//! ```
//!
//! An interactive shell survives the INT with its state, and its background jobs ignore it. Later steps do not signal
//! processes that are older than the command.
//!
//! After each step the interrupt is repeated: an INT to the shell, and to the processes that the first one should have
//! killed but missed. An INT is missed if it comes before the shell has read the command, or between fork and exec,
//! when the child still has the shell's handler. The repetition is also needed after TERM and KILL: a shell whose
//! program dies by them continues with the rest of the command; only an INT makes it abort.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::tree::scan::ScannedProcess;
use outlive_holder::tree::{TreeRoot, members, scan};
use outlive_holder::wire::SignalTarget;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::exec::{Exec, RunningRecord, StopReason};
use super::session::Session;
use crate::signal::{CONT, INT, KILL};
use crate::{Error, Result, lock};

/// A command runs at least this long before the first interrupt: a dash that gets one while it reads the command and
/// opens its files never reacts to another one (41 of 200 runs, without outlive; none of 150 after this time).
const MIN_RUN_MS: u64 = 50;
/// From a step to the repeated interrupt, and from there to the next step.
const REPEAT_AFTER_MS: u64 = 100;
const STEP_AFTER_MS: u64 = 400;
/// Unit of process start times in /proc.
const TICK_MS: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopStep {
    Interrupt,
    RepeatInterrupt,
    Terminate,
    Kill,
    KillShell,
}

/// Steps in order, each with the time until the next one.
const STOP_STEPS: [(StopStep, u64); 9] = [
    (StopStep::Interrupt, REPEAT_AFTER_MS),
    (StopStep::RepeatInterrupt, STEP_AFTER_MS),
    (StopStep::Terminate, REPEAT_AFTER_MS),
    (StopStep::RepeatInterrupt, STEP_AFTER_MS),
    (StopStep::Kill, REPEAT_AFTER_MS),
    (StopStep::RepeatInterrupt, STEP_AFTER_MS),
    // Kills programs that the shell started when the first ones were killed.
    (StopStep::Kill, REPEAT_AFTER_MS),
    (StopStep::RepeatInterrupt, STEP_AFTER_MS),
    (StopStep::KillShell, STEP_AFTER_MS),
];

/// Progress of stopping one command.
pub(super) struct StopSequence {
    /// `None`: the command does not have to stop yet.
    pub(super) reason: Option<StopReason>,
    steps_done: usize,
    due_at: Option<u64>,
}

impl StopSequence {
    pub(super) fn new(running: &RunningRecord) -> Self {
        // If the previous server was already stopping the command, the sequence starts over.
        let due_at = running.stop.map_or(running.deadline, |_| Some(0));
        let due_at = due_at.map(|due_at| due_at.max(running.started_at + MIN_RUN_MS));
        Self { reason: running.stop, steps_done: 0, due_at }
    }

    pub(super) fn cancel(&mut self, running: &RunningRecord) {
        self.reason = Some(StopReason::Cancelled);
        self.due_at = Some(running.started_at + MIN_RUN_MS);
    }

    /// Waits until the next step is due; forever if there is none.
    pub(super) async fn wait_due(&self) {
        match self.due_at {
            Some(due_at) => {
                tokio::time::sleep(Duration::from_millis(due_at.saturating_sub(clock::boot_ms()))).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Advances by one step; the last one repeats.
    fn advance(&mut self, now: u64) -> StopStep {
        let (step, wait_ms) = STOP_STEPS[self.steps_done.min(STOP_STEPS.len() - 1)];
        self.steps_done += 1;
        self.due_at = Some(now.saturating_add(wait_ms));
        step
    }
}

impl Session {
    pub(super) async fn run_stop_step(
        &self,
        exec: &Arc<Exec>,
        running: &RunningRecord,
        sequence: &mut StopSequence,
    ) -> Result<()> {
        let reason = *sequence.reason.get_or_insert(StopReason::TimedOut);
        if sequence.steps_done == 0 {
            self.save_stop_reason(exec, reason)?;
        }
        let step = sequence.advance(clock::boot_ms());
        let shell = self.shell();
        let (key, pid, link) = (shell.key(), shell.pid().unwrap_or(0), &self.services.link);
        match step {
            StopStep::Interrupt => {
                link.signal_to(key, INT, SignalTarget::Group).await?;
                // A stopped process handles the INT only after a CONT.
                link.signal_to(key, CONT, SignalTarget::Group).await?;
                crate::crash_point::reach("exec_interrupted");
            }
            StopStep::RepeatInterrupt => {
                link.signal_to(key, INT, SignalTarget::Command).await?;
                signal_members(pid, key, running.clone(), SignalSelection::MissedInterrupt).await;
            }
            StopStep::Terminate => {
                signal_members(pid, key, running.clone(), SignalSelection::All(Signal::TERM)).await;
            }
            StopStep::Kill => signal_members(pid, key, running.clone(), SignalSelection::All(Signal::KILL)).await,
            StopStep::KillShell => {
                link.signal_to(key, KILL, SignalTarget::Command).await?;
                return Ok(());
            }
        }
        // The interrupt may have made the shell discard the second line.
        self.resend_second_line(exec).await;
        Ok(())
    }

    /// Must come before the first signal: the next server must not take an interrupted command for one whose lines
    /// never arrived.
    fn save_stop_reason(&self, exec: &Exec, reason: StopReason) -> Result<()> {
        if let Some(running) = &mut lock(&exec.inner).record.running {
            running.stop = Some(reason);
        }
        match self.save_exec(exec) {
            Err(error @ Error::Unavailable { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, exec = exec.id, "cannot save the stop of a command for the next server");
            }
            Ok(()) => {}
        }
        Ok(())
    }
}

/// Which processes younger than the command get which signal.
#[derive(Clone, Copy)]
enum SignalSelection {
    All(Signal),
    /// INT to those in the shell's group that die by an INT by default. They are alive, so they missed the first one.
    MissedInterrupt,
}

impl SignalSelection {
    fn signal(self, shell: i32, process: &ScannedProcess) -> Option<Signal> {
        match self {
            Self::All(signal) => Some(signal),
            Self::MissedInterrupt if process.pgrp == shell && dies_by_interrupt(process.pid) => Some(Signal::INT),
            Self::MissedInterrupt => None,
        }
    }
}

/// Signals the members of the shell's tree that are younger than the command, but not the shell.
async fn signal_members(shell: u32, key: u64, running: RunningRecord, selection: SignalSelection) {
    let work = move || {
        let shell = shell as i32;
        let root = TreeRoot { environ_id: None, ..TreeRoot::from_running(shell, key, "") };
        // `members` leaves out this process, but not the holder, which is our parent.
        let holder = std::os::unix::process::parent_id() as i32;
        let processes = scan::all().unwrap_or_default();
        for process in members(&root, &processes, &[holder]) {
            if process.pid == shell || !is_younger(&running, process.start_time, process.pid) {
                continue;
            }
            let Some(signal) = selection.signal(shell, &process) else { continue };
            let pidfd =
                Pid::from_raw(process.pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
            let Some(pidfd) = pidfd else { continue };
            // The pid may have been reused before the pidfd was opened.
            let is_same = TreeRoot::from_running(process.pid, key, "").start_time == process.start_time;
            if is_same {
                let _ = rustix::process::pidfd_send_signal(&pidfd, signal);
            }
        }
    };
    let _ = tokio::task::spawn_blocking(work).await;
}

/// Whether a process with this start time (in ticks) and pid is younger than the command.
fn is_younger(running: &RunningRecord, start_time: u64, pid: i32) -> bool {
    /// More pids than are assigned in one tick: a pid smaller by more than this comes after a wrap-around.
    const WRAP_DISTANCE: i32 = 16_384;
    let tick = running.started_at / TICK_MS;
    start_time > tick || start_time == tick && (pid > running.last_pid || pid < running.last_pid - WRAP_DISTANCE)
}

/// Whether a process neither ignores nor catches SIGINT. False if that is unknown.
fn dies_by_interrupt(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let contains_int = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & (1 << (INT - 1)) != 0)
    };
    contains_int("SigIgn:") == Some(false) && contains_int("SigCgt:") == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stop_step_kills_the_shell() {
        let mut sequence = StopSequence::new(&RunningRecord { deadline: Some(700), ..RunningRecord::default() });
        assert_eq!((sequence.reason, sequence.due_at), (None, Some(700)));
        let steps: Vec<StopStep> = (0..=STOP_STEPS.len()).map(|_| sequence.advance(1_000)).collect();
        assert_eq!((steps[0], sequence.due_at), (StopStep::Interrupt, Some(1_000 + STEP_AFTER_MS)));
        assert_eq!(steps[STOP_STEPS.len() - 1..], [StopStep::KillShell, StopStep::KillShell]);
    }

    #[test]
    fn a_process_with_default_disposition_dies_by_interrupt() {
        // The test runner may ignore SIGINT, which children inherit.
        let mut sleep = std::process::Command::new("env");
        let mut sleep = sleep.args(["--default-signal=INT", "sleep", "1000"]).spawn().unwrap();
        let pid = sleep.id() as i32;
        // Between clone and exec it is still a copy of the test program.
        while std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {}
        assert!(dies_by_interrupt(pid));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(!dies_by_interrupt(pid), "the process does not exist");
    }

    // Regression: an older job that was started in the same tick was taken for a process of the command.
    #[test]
    fn processes_of_the_same_tick_are_ordered_by_pid() {
        let running = RunningRecord { started_at: 5_005, last_pid: 30_000, ..RunningRecord::default() };
        for (start_time, pid, younger) in
            [(499, 40_000, false), (500, 29_999, false), (500, 30_001, true), (500, 301, true), (501, 5, true)]
        {
            assert_eq!(is_younger(&running, start_time, pid), younger, "{start_time} {pid}");
        }
    }
}
