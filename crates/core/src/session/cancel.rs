//! Waiting for the end of a command, and hastening it: a time limit or a cancel climbs a ladder.
//!
//! ```text
//! INT to the shell's group ─▶ TERM, then KILL to what the command started ─▶ KILL to the shell
//! ```
//!
//! An interactive shell survives the INT with its state, and its background jobs ignore it. The steps after it leave
//! alone what was there before the command.
//!
//! Between two steps is a *nudge*: an INT to the shell and to those who would have died of the first one, had it reached
//! them. It can come before the shell has read the command, or between a fork and its exec, when the child still has the
//! shell's own handler. A shell whose program dies of TERM or KILL takes that for the program's business and goes on with
//! what follows; only an INT makes it give up the rest.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::tree::scan::Seen;
use outlive_holder::tree::{Root, members, scan};
use outlive_holder::wire::Reach;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::exec::{Exec, Running};
use super::outcome::{Outcome, Stop};
use super::session::Session;
use super::status::Frames;
use crate::{Error, Result, lock};

/// No interrupt before a command has had this long to begin: a dash that is hit while it reads and opens never hears of
/// another one (41 of 200, without outlive; none of 150 after this time).
const BEGIN_MS: u64 = 50;
/// From a step to the nudge after it, and from there to the next step.
const NUDGE_AFTER_MS: u64 = 100;
const STEP_AFTER_MS: u64 = 400;
/// /proc counts the start of a process in these.
const TICK_MS: u64 = 10;

const INT: u8 = 2;
const KILL: u8 = 9;
const CONT: u8 = 18;

/// What is done to a command that has to stop, and how long it then has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Interrupt,
    Nudge,
    Terminate,
    Kill,
    KillShell,
}

const LADDER: [(Rung, u64); 9] = [
    (Rung::Interrupt, NUDGE_AFTER_MS),
    (Rung::Nudge, STEP_AFTER_MS),
    (Rung::Terminate, NUDGE_AFTER_MS),
    (Rung::Nudge, STEP_AFTER_MS),
    (Rung::Kill, NUDGE_AFTER_MS),
    (Rung::Nudge, STEP_AFTER_MS),
    // What began when the first ones were killed.
    (Rung::Kill, NUDGE_AFTER_MS),
    (Rung::Nudge, STEP_AFTER_MS),
    (Rung::KillShell, STEP_AFTER_MS),
];

/// How far a command has been pressed.
struct Ladder {
    stop: Option<Stop>,
    /// How many rungs are behind it.
    climbed: usize,
    /// Boot clock: when the next rung is due.
    due: Option<u64>,
}

impl Ladder {
    fn of(running: &Running) -> Self {
        // One that had to stop already when the server before died is pressed again from the beginning.
        let due = running.stop.map_or(running.deadline, |_| Some(0));
        Self { stop: running.stop, climbed: 0, due: due.map(|at| at.max(running.started_at + BEGIN_MS)) }
    }

    fn cancel(&mut self, running: &Running) {
        self.stop = Some(Stop::Cancelled);
        self.due = Some(running.started_at + BEGIN_MS);
    }

    /// The last rung stays the last.
    fn climb(&mut self, now: u64) -> Rung {
        let (rung, wait_ms) = LADDER[self.climbed.min(LADDER.len() - 1)];
        self.climbed += 1;
        self.due = Some(now.saturating_add(wait_ms));
        rung
    }
}

impl Session {
    /// Waits for the frames of a running command, or the end of its shell.
    pub(super) async fn await_end(self: &Arc<Self>, exec: &Arc<Exec>, probe: Option<&str>) -> Result<Outcome> {
        let Some(running) = lock(&exec.inner).record.running.clone() else { return Ok(Outcome::NeverSent) };
        let nonce = running.nonce.as_str();
        let mut frames = Frames::from(self.shell().log()?, running.status_from);
        let mut ladder = Ladder::of(&running);
        loop {
            if let Some(idle) = frames.idle(nonce) {
                return Ok(Outcome::Idle { done: frames.done(nonce), idle, stop: ladder.stop });
            }
            // An interrupt may have taken the last line from a shell that answers the probe.
            if ladder.stop.is_none() && probe.is_some_and(|probe| frames.is_probed(probe)) {
                return Ok(Outcome::NeverSent);
            }
            tokio::select! {
                more = frames.more() => {
                    if let Err(exit) = more {
                        // The shell itself has heard of it too before anybody is told.
                        self.shell().news();
                        return Ok(Outcome::ShellExited { exit, stop: ladder.stop });
                    }
                }
                () = exec.until(|exec| exec.wants_cancel().then_some(())), if ladder.stop.is_none() => {
                    ladder.cancel(&running);
                }
                () = until(ladder.due) => self.press(exec, &running, &mut ladder).await?,
                () = self.services.link.until_gone() => return Err(Error::holder_gone()),
                () = self.services.sessions.closed() => return Err(Error::server_replaced()),
            }
        }
    }

    async fn press(&self, exec: &Arc<Exec>, running: &Running, ladder: &mut Ladder) -> Result<()> {
        let stop = *ladder.stop.get_or_insert(Stop::TimedOut);
        if ladder.climbed == 0 {
            // Written down first: whoever takes over must not take an interrupted command for one that never began.
            if let Some(running) = &mut lock(&exec.inner).record.running {
                running.stop = Some(stop);
            }
            match self.save_exec(exec) {
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                Err(error) => tracing::warn!(%error, exec = exec.id, "a stop is not known to the next server"),
                Ok(()) => {}
            }
        }
        let rung = ladder.climb(clock::boot_ms());
        let shell = self.shell();
        let (key, pid, link) = (shell.key(), shell.pid().unwrap_or(0), &self.services.link);
        match rung {
            Rung::Interrupt => {
                link.signal_to(key, INT, Reach::Group).await?;
                // One that stopped itself would not hear it.
                link.signal_to(key, CONT, Reach::Group).await?;
                crate::hooks::reach("exec_interrupted");
            }
            Rung::Nudge => {
                link.signal_to(key, INT, Reach::Command).await?;
                hunt(pid, key, running.clone(), Prey::MissedInterrupt).await;
            }
            Rung::Terminate => hunt(pid, key, running.clone(), Prey::All(Signal::TERM)).await,
            Rung::Kill => hunt(pid, key, running.clone(), Prey::All(Signal::KILL)).await,
            Rung::KillShell => {
                link.signal_to(key, KILL, Reach::Command).await?;
                return Ok(());
            }
        }
        // It may have thrown away what it had read ahead.
        let _ = shell.input(self.closing_line(exec).as_bytes()).await;
        Ok(())
    }
}

async fn until(due: Option<u64>) {
    match due {
        Some(at) => tokio::time::sleep(Duration::from_millis(at.saturating_sub(clock::boot_ms()))).await,
        None => std::future::pending().await,
    }
}

/// Whether a process that began in this tick with this number is younger than the command.
fn is_younger(running: &Running, start_time: u64, pid: i32) -> bool {
    /// Far more than are started in a tick: a number so much smaller is of the next round.
    const ROUND: i32 = 16_384;
    let tick = running.started_at / TICK_MS;
    start_time > tick || start_time == tick && (pid > running.last_pid || pid < running.last_pid - ROUND)
}

/// Which of the processes that the shell has had since the command began.
#[derive(Clone, Copy)]
enum Prey {
    All(Signal),
    /// Those of its group that an INT would end, and that live after one: it did not reach them.
    MissedInterrupt,
}

impl Prey {
    fn signal(self, shell: i32, one: &Seen) -> Option<Signal> {
        match self {
            Self::All(signal) => Some(signal),
            Self::MissedInterrupt if one.pgrp == shell && dies_of_interrupt(one.pid) => Some(Signal::INT),
            Self::MissedInterrupt => None,
        }
    }
}

/// Neither ignores nor catches it. No, if the system does not tell.
fn dies_of_interrupt(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has_it = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & (1 << (INT - 1)) != 0)
    };
    has_it("SigIgn:") == Some(false) && has_it("SigCgt:") == Some(false)
}

/// Signals what the shell's tree has had since the command began, but not the shell.
async fn hunt(shell: u32, key: u64, running: Running, prey: Prey) {
    let work = move || {
        let shell = shell as i32;
        let root = Root { environ_id: None, ..Root::of(shell, key, "") };
        // Beside ourselves the holder, our parent, must not be taken for a member.
        let holder = std::os::unix::process::parent_id() as i32;
        let seen = scan::all().unwrap_or_default();
        for one in members(&root, &seen, &[holder]) {
            if one.pid == shell || !is_younger(&running, one.start_time, one.pid) {
                continue;
            }
            let Some(signal) = prey.signal(shell, &one) else { continue };
            let pin = Pid::from_raw(one.pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
            let Some(pin) = pin else { continue };
            // Pinned now; is it still the one that was seen?
            let same = Root::of(one.pid, key, "").start_time == one.start_time;
            if same {
                let _ = rustix::process::pidfd_send_signal(&pin, signal);
            }
        }
    };
    let _ = tokio::task::spawn_blocking(work).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_ends_with_the_shell() {
        let mut ladder = Ladder::of(&Running { deadline: Some(700), ..Running::default() });
        assert_eq!((ladder.stop, ladder.due), (None, Some(700)));
        let rungs: Vec<Rung> = (0..=LADDER.len()).map(|_| ladder.climb(1_000)).collect();
        assert_eq!((rungs[0], ladder.due), (Rung::Interrupt, Some(1_000 + STEP_AFTER_MS)));
        assert_eq!(rungs[LADDER.len() - 1..], [Rung::KillShell, Rung::KillShell]);
    }

    #[test]
    fn who_would_die_of_an_interrupt_is_known() {
        // Whoever runs the tests in the background of a shell makes them ignore it.
        let mut sleep = std::process::Command::new("env");
        let mut sleep = sleep.args(["--default-signal=INT", "sleep", "1000"]).spawn().unwrap();
        let pid = sleep.id() as i32;
        // Between clone and exec it may still be a copy of this program.
        while std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {}
        assert!(dies_of_interrupt(pid));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(!dies_of_interrupt(pid), "gone");
    }

    #[test]
    fn a_job_from_the_same_tick_was_taken_for_the_command() {
        let running = Running { started_at: 5_005, last_pid: 30_000, ..Running::default() };
        for (start_time, pid, younger) in
            [(499, 40_000, false), (500, 29_999, false), (500, 30_001, true), (500, 301, true), (501, 5, true)]
        {
            assert_eq!(is_younger(&running, start_time, pid), younger, "{start_time} {pid}");
        }
    }
}
