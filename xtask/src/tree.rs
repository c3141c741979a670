//! Processes that this tool starts, and how it makes sure that they end.
//!
//! ```text
//! start ──> running ──(exits by itself | terminate)──> ended
//!              └────────(dropped, or timed out)────> whole tree killed
//! ```
//!
//! Everything is found and signalled by pid, below a process that we started ourselves; nothing is
//! ever looked up by name. Signals go through the shell's `kill`, because the standard library can
//! only send SIGKILL to a direct child.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Interval between two checks of a process: short for a person, and no load.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// A child can fork between the scan and the kill, so one pass is not enough. A tree that survives this many
/// passes forks faster than they can kill.
const MAX_KILL_PASSES: u32 = 50;

/// A process with its birth, so that a reused pid is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    birth: u64,
}

impl Identity {
    pub(crate) fn is_alive(self) -> bool {
        Entry::read(self.pid).is_some_and(|entry| entry.id == self && !entry.is_dead())
    }
}

/// The fields of `/proc/PID/stat` that are needed here.
struct Entry {
    id: Identity,
    parent: u32,
    state: char,
}

impl Entry {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in parentheses may contain anything, so the fields are counted from the last one.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Field 22 of the line; we have taken up to field 4.
        let birth = fields.nth(17)?.parse().ok()?;
        Some(Self { id: Identity { pid, birth }, parent, state })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// All living processes below `root`, without itself.
pub(crate) fn descendants(root: u32) -> Vec<Identity> {
    let Ok(directory) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all: Vec<Entry> =
        directory.filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok()).filter_map(Entry::read).collect();

    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|entry| entry.parent == parent) {
            parents.push(child.id.pid);
            if !child.is_dead() {
                found.push(child.id);
            }
        }
    }
    found
}

/// Waits, and returns the processes that are still alive after the limit.
pub(crate) fn wait_until_gone(mut waiting: Vec<Identity>, limit: Duration) -> Vec<Identity> {
    let deadline = Instant::now() + limit;
    loop {
        waiting.retain(|process| process.is_alive());
        if waiting.is_empty() || Instant::now() >= deadline {
            return waiting;
        }
        thread::sleep(TICK);
    }
}

/// Signals each process unless its pid now belongs to another one. One that ends meanwhile is no error.
pub(crate) fn signal(name: &str, targets: &[Identity]) {
    let pids: Vec<String> =
        targets.iter().filter(|target| target.is_alive()).map(|target| target.pid.to_string()).collect();
    if pids.is_empty() {
        return;
    }
    let sent = Command::new("sh").args(["-c", r#"kill -s "$0" "$@""#, name]).args(pids).stderr(Stdio::null()).status();
    if let Err(error) = sent {
        eprintln!("warning: cannot send SIG{name}: {error}");
    }
}

/// A started process. Dropping it kills it with all its descendants.
pub(crate) struct Running {
    child: Child,
    status: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        match command.spawn() {
            Ok(child) => Ok(Self { child, status: None }),
            Err(error) => Err(format!("cannot start `{program}`: {error}").into()),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            let status = self.poll()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(TICK);
        }
    }

    pub(crate) fn terminate(&mut self) -> Result<()> {
        // Not yet waited for, so the pid cannot belong to another process.
        if self.poll()?.is_none() {
            signal("TERM", self.identity().as_slice());
        }
        Ok(())
    }

    /// Stops the root first: one that restarts its children, or is about to start some, cannot any
    /// more.
    pub(crate) fn kill_tree(&mut self) {
        if self.status.is_some() {
            return;
        }
        signal("STOP", self.identity().as_slice());
        for _ in 0..MAX_KILL_PASSES {
            let below = descendants(self.pid());
            if below.is_empty() {
                break;
            }
            signal("KILL", &below);
            thread::sleep(TICK);
        }
        if let Err(error) = self.child.kill() {
            eprintln!("warning: cannot kill {}: {error}", self.pid());
        }
        self.status = self.child.wait().ok();
    }

    fn identity(&self) -> Option<Identity> {
        Entry::read(self.pid()).map(|entry| entry.id)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.poll(), Ok(Some(_))) {
            self.kill_tree();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Running {
        Running::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    fn wait_for_descendants(running: &Running, count: usize) -> Vec<Identity> {
        let deadline = Instant::now() + LONG;
        loop {
            let below = descendants(running.pid());
            if below.len() >= count {
                return below;
            }
            assert!(Instant::now() < deadline, "only {below:?} after {LONG:?}");
            thread::sleep(TICK);
        }
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) (b c) S 3 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let entry = Entry::parse(7, line).unwrap();
        assert_eq!((entry.state, entry.parent, entry.id.birth), ('S', 3, 4711));
    }

    #[test]
    fn dropping_kills_grandchildren_that_ignore_signals() {
        let running = shell("sh -c 'trap \"\" TERM HUP INT; sleep 600 & wait' & wait");
        let below = wait_for_descendants(&running, 2);
        drop(running);
        assert_eq!(wait_until_gone(below, LONG), []);
    }

    #[test]
    fn terminate_lets_the_process_choose_its_exit_code() {
        let mut running = shell("trap 'exit 3' TERM; sleep 600 & wait");
        wait_for_descendants(&running, 1);
        let below = descendants(running.pid());
        running.terminate().unwrap();
        let status = running.wait(LONG).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
        signal("KILL", &below);
    }

    #[test]
    fn wait_returns_none_after_its_limit() {
        let mut running = shell("sleep 600");
        assert!(running.wait(TICK).unwrap().is_none());
    }
}
