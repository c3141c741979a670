//! Waiting for the end of a command, and hastening it: a time limit or a cancel climbs a ladder.
//!
//! ```text
//! INT to the shell's group ─▶ TERM, then KILL to what the command started ─▶ KILL to the shell
//! ```
//!
//! An interactive shell survives the INT with its state, and its background jobs ignore it. The steps after it leave
//! alone what was there before the command.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::Exit;
use outlive_holder::tree::{Root, members, scan};
use outlive_holder::wire::Reach;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::exec::{Exec, Running};
use super::session::Session;
use super::status::{Frames, Idle};
use crate::{Error, Result, lock};

/// Between two steps of the ladder.
const STEP_MS: u64 = 500;
/// /proc counts the start of a process in these.
const TICK_MS: u64 = 10;

/// Why a command is made to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    TimedOut,
    Cancelled,
}

impl Stop {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }
}

/// What became of a command that was sent.
pub(super) enum Outcome {
    /// The shell is idle again. Without `done` the line was aborted.
    Idle {
        done: Option<u8>,
        idle: Idle,
        stop: Option<Stop>,
    },
    ShellExited {
        exit: Exit,
        stop: Option<Stop>,
    },
    /// Its lines never reached the shell.
    NeverSent,
}

impl Outcome {
    pub(super) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Idle { stop, .. } | Self::ShellExited { stop, .. } => *stop,
            Self::NeverSent => None,
        }
    }
}

/// How far a command has been pressed.
struct Ladder {
    stop: Option<Stop>,
    step: u32,
    /// Boot clock: when the next step is due.
    due: Option<u64>,
}

impl Session {
    /// Waits for the frames of a running command, or the end of its shell.
    pub(super) async fn await_end(self: &Arc<Self>, exec: &Arc<Exec>, probe: Option<&str>) -> Result<Outcome> {
        let Some(running) = lock(&exec.inner).record.running.clone() else { return Ok(Outcome::NeverSent) };
        let nonce = running.nonce.as_str();
        let mut frames = Frames::from(self.shell().log()?, running.status_from);
        let mut ladder = Ladder { stop: None, step: 0, due: running.deadline };
        loop {
            if let Some(idle) = frames.idle(nonce) {
                return Ok(Outcome::Idle { done: frames.done(nonce), idle, stop: ladder.stop });
            }
            if probe.is_some_and(|probe| frames.is_probed(probe)) && ladder.step == 0 {
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
                    ladder.stop = Some(Stop::Cancelled);
                    ladder.due = Some(0);
                }
                () = until(ladder.due) => self.press(exec, &running, &mut ladder).await?,
                () = self.services.link.until_gone() => return Err(Error::holder_gone()),
                () = self.services.sessions.closed() => return Err(Error::server_replaced()),
            }
        }
    }

    /// The next step.
    async fn press(&self, exec: &Arc<Exec>, running: &Running, ladder: &mut Ladder) -> Result<()> {
        ladder.stop.get_or_insert(Stop::TimedOut);
        ladder.step += 1;
        ladder.due = Some(clock::boot_ms() + STEP_MS);
        let shell = self.shell();
        let (key, pid) = (shell.key(), shell.pid().unwrap_or(0));
        match ladder.step {
            1 => drop(self.services.link.signal_to(key, 2, Reach::Group).await?),
            2 => hunt(pid, key, running.clone(), Signal::TERM).await,
            3 | 4 => hunt(pid, key, running.clone(), Signal::KILL).await,
            _ => drop(self.services.link.signal_to(key, 9, Reach::Command).await?),
        }
        if ladder.step <= 4 {
            // It may have thrown away what it had read ahead.
            let _ = shell.input(self.closing_line(exec).as_bytes()).await;
        }
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

/// Signals everything that the shell's tree has had since the command began, but not the shell.
async fn hunt(shell: u32, key: u64, running: Running, signal: Signal) {
    let work = move || {
        let root = Root { environ_id: None, ..Root::of(shell as i32, key, "") };
        // Beside ourselves the holder, our parent, must not be taken for a member.
        let holder = std::os::unix::process::parent_id() as i32;
        let seen = scan::all().unwrap_or_default();
        for one in members(&root, &seen, &[holder]) {
            if one.pid == shell as i32 || !is_younger(&running, one.start_time, one.pid) {
                continue;
            }
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
    fn a_job_from_the_same_tick_was_taken_for_the_command() {
        let running = Running { started_at: 5_005, last_pid: 30_000, ..Running::default() };
        for (start_time, pid, younger) in
            [(499, 40_000, false), (500, 29_999, false), (500, 30_001, true), (500, 301, true), (501, 5, true)]
        {
            assert_eq!(is_younger(&running, start_time, pid), younger, "{start_time} {pid}");
        }
    }
}
