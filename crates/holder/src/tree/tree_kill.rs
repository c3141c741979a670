//! The kill of one tree.
//!
//! ```text
//!   freeze ──▶ a pass found no new member ──▶ kill ──▶ one more pass found none ──────▶ wait for exits ──▶ result
//!     │ SIGSTOP on discovery ▲   or too many passes    │ SIGKILL on discovery ▲                  │ 2 s
//!     └──────────────────────┘                         └──────────────────────┘                  └──▶ survivors
//! ```
//!
//! Why freeze first: a frozen process neither forks nor replaces a killed child, and while it lives its children can be
//! found by their parent. Why it terminates: a program that forks faster than it can be stopped is ended only by
//! SIGKILL, which also makes a fork in progress fail (SIGSTOP does not). A process that was sent SIGKILL can no
//! longer fork, so processes that are merely slow to exit need no further passes.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::killer::JobResult;
use super::membership::TreeRoot;
use super::scan::{ProcFs, ScannedProcess};
use super::tag;

/// Time for processes to exit after SIGKILL (core dump, slow disk, hung mount) before they count as survivors.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A tree that still grows after this time is reported with survivors; a further kill tries again.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds of the freeze: two or three passes freeze any tree that can be frozen at all.
const MAX_FREEZE_PASSES: u32 = 6;
const MAX_FREEZE_TIME: Duration = Duration::from_millis(250);

/// Incomplete passes that are repeated. The processes that forked too fast may belong to another tree.
const MAX_INCOMPLETE_PASSES: u32 = 8;

/// The search ends after this many passes in a row without a new member; the last pass of the freeze counts. Two, because
/// a pass can miss a child whose pid wrapped around to below the current position of the pass.
const QUIET_PASSES: u32 = 2;

pub(super) struct TreeKill {
    pub(super) job_id: u64,
    pub(super) root: TreeRoot,
    pub(super) cgroup: Option<PathBuf>,
    /// Tags that occur only in this tree: its own, and those of holders that run inside it.
    keys: Vec<u64>,
    members: HashMap<i32, ScannedProcess>,
    /// Signalled on discovery in the current pass.
    signalled_in_pass: HashSet<i32>,
    killing: bool,
    signalled: u32,
    passes: u32,
    quiet_passes: u32,
    incomplete_passes: u32,
    started: Instant,
    last_found: Instant,
}

impl TreeKill {
    pub(super) fn new(job_id: u64, root: TreeRoot, cgroup: Option<PathBuf>, now: Instant) -> Self {
        let keys = Vec::from_iter((root.key != 0).then_some(root.key));
        Self {
            job_id,
            root,
            cgroup,
            keys,
            members: HashMap::new(),
            signalled_in_pass: HashSet::new(),
            killing: false,
            signalled: 0,
            passes: 0,
            quiet_passes: 0,
            incomplete_passes: 0,
            started: now,
            last_found: now,
        }
    }

    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The running pass has found a process with one of our keys. It is signalled at once: it may not live until the
    /// end of the pass.
    pub(super) fn on_tagged_process(&mut self, pid: i32, key: u64) {
        if self.members.contains_key(&pid) {
            return;
        }
        let Some(process) = PinnedProcess::find_tagged(pid, key) else {
            return;
        };
        // Without a pidfd a zombie looks alive here, and every pass would find it again.
        if process.send(self.signal()).is_ok() && process.is_pinned() {
            self.signalled_in_pass.insert(pid);
        }
    }

    /// Adds tags found on members, for `on_tagged_process` in the next pass.
    pub(super) fn add_keys(&mut self, keys: impl Iterator<Item = u64>) {
        for key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
    }

    fn signal(&self) -> Signal {
        if self.killing { Signal::KILL } else { Signal::STOP }
    }

    /// Handles the result of a pass. `incomplete`: processes forked faster than the pass could read them.
    pub(super) fn on_pass_done(&mut self, members: &[ScannedProcess], incomplete: bool, procfs: &ProcFs, now: Instant) {
        self.passes += 1;
        let found_new = self.signal_new_members(members, procfs);
        if found_new {
            self.last_found = now;
        }
        let repeat = incomplete && self.incomplete_passes < MAX_INCOMPLETE_PASSES;
        self.incomplete_passes += u32::from(repeat);
        self.quiet_passes = if found_new || repeat { 0 } else { self.quiet_passes + 1 };
        let frozen = self.quiet_passes > 0 || self.passes >= MAX_FREEZE_PASSES || now - self.started >= MAX_FREEZE_TIME;
        if !self.killing && frozen {
            self.killing = true;
            self.kill_members(procfs);
        }
    }

    /// A pass failed. If passes keep failing, only the timeout ends this job.
    pub(super) fn on_pass_failed(&mut self) {
        self.quiet_passes = 0;
    }

    /// Returns whether there were new members.
    fn signal_new_members(&mut self, members: &[ScannedProcess], procfs: &ProcFs) -> bool {
        let mut signalled_in_pass = std::mem::take(&mut self.signalled_in_pass);
        let signal = self.signal();
        let mut found_new = false;
        for process in members {
            let known = self.members.get(&process.pid);
            if known.is_some_and(|known| known.start_time == process.start_time) {
                continue;
            }
            found_new = true;
            let already_sent = signalled_in_pass.remove(&process.pid);
            let sent = if already_sent { Ok(()) } else { send_signal(procfs, process, signal) };
            self.signalled += u32::from(sent.is_ok());
            if sent != Err(Errno::SRCH) {
                self.members.insert(process.pid, *process);
            }
        }
        // The rest ended by our signal before the pass could read them.
        self.signalled += signalled_in_pass.len() as u32;
        found_new || !signalled_in_pass.is_empty()
    }

    /// Kills children before parents: when a parent ends, the kernel wakes its stopped orphans (SIGHUP and SIGCONT to
    /// an orphaned group), which must have got their SIGKILL by then.
    fn kill_members(&self, procfs: &ProcFs) {
        let mut youngest_first: Vec<&ScannedProcess> = self.members.values().collect();
        youngest_first.sort_by_key(|process| std::cmp::Reverse((process.start_time, process.pid)));
        for process in youngest_first {
            // A process that cannot be signalled is counted as a survivor later.
            let _ = send_signal(procfs, process, Signal::KILL);
        }
    }

    pub(super) fn needs_pass(&self) -> bool {
        self.quiet_passes < QUIET_PASSES
    }

    /// Members that were signalled and may not have exited.
    pub(super) fn members(&self) -> impl Iterator<Item = &ScannedProcess> {
        self.members.values()
    }

    pub(super) fn deadline(&self) -> Instant {
        let deadline = self.started + KILL_TIMEOUT;
        if self.needs_pass() { deadline } else { deadline.min(self.last_found + EXIT_TIMEOUT) }
    }

    /// The result, if all members have exited or the deadline has passed.
    pub(super) fn result(&mut self, procfs: &ProcFs, now: Instant) -> Option<JobResult> {
        let timed_out = now >= self.deadline();
        if self.needs_pass() && !timed_out {
            return None;
        }
        self.members.retain(|_, process| PinnedProcess::find(procfs, process).is_some());
        let mut survivors = self.members.len() as u32;
        if survivors > 0 && !timed_out {
            return None;
        }
        if self.needs_pass() {
            // The search did not finish, so there may be members that no pass has seen.
            survivors = survivors.max(1);
        }
        Some(JobResult { id: self.job_id, signalled: self.signalled, survivors })
    }
}

/// Signals 32 to 34 are reserved by the C libraries.
const FIRST_FREE_REALTIME: i32 = 35;
const LAST_REALTIME: i32 = 64;

/// A signal by number, if it may be sent to a program.
pub(super) fn signal_from_number(number: i32) -> Option<Signal> {
    if (FIRST_FREE_REALTIME..=LAST_REALTIME).contains(&number) {
        // SAFETY: a valid number that no C library reserves, checked above. It is only sent, never handled.
        return Some(unsafe { Signal::from_raw_unchecked(number) });
    }
    Signal::from_named_raw(number)
}

/// Signals a scanned process; ESRCH if it no longer exists.
pub(super) fn send_signal(procfs: &ProcFs, process: &ScannedProcess, signal: Signal) -> Result<(), Errno> {
    PinnedProcess::find(procfs, process).ok_or(Errno::SRCH)?.send(signal)
}

/// A process whose pid cannot be reused while its pidfd is open: signals reach exactly the process that was scanned, or
/// none.
///
/// A pid may belong to another process by the time a signal is sent. Therefore the pid is pinned by a pidfd, the pinned
/// process is compared with the scanned one, and the signal is sent through the pidfd. Without a pidfd (no descriptor
/// left, a sandbox kernel without the call) the comparison is made right before kill(2), which leaves a window of
/// microseconds.
pub(super) struct PinnedProcess {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl PinnedProcess {
    /// Fails if the process does not exist. Never pins init or the holder itself.
    fn pin(pid: i32) -> Result<Self, Errno> {
        if pid <= 1 || pid == std::process::id() as i32 {
            return Err(Errno::SRCH);
        }
        let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { pid, pidfd: Some(pidfd) }),
            Err(Errno::SRCH) => Err(Errno::SRCH),
            Err(_) => Ok(Self { pid, pidfd: None }),
        }
    }

    /// The scanned process, if it still runs.
    pub(super) fn find(procfs: &ProcFs, scanned: &ScannedProcess) -> Option<Self> {
        let process = Self::pin(scanned.pid).ok()?;
        still_runs(procfs, scanned).then_some(process)
    }

    /// A running process with this tag. Faster than [`find`](Self::find), for use during a pass.
    pub(super) fn find_tagged(pid: i32, key: u64) -> Option<Self> {
        let process = Self::pin(pid).ok()?;
        (!process.has_exited() && tag::key_of(pid) == Some(key)).then_some(process)
    }

    pub(super) fn send(&self, signal: Signal) -> Result<(), Errno> {
        match &self.pidfd {
            Some(pidfd) => match rustix::process::pidfd_send_signal(pidfd, signal) {
                Err(Errno::NOSYS) => rustix::process::kill_process(self.pid, signal),
                result => result,
            },
            None => rustix::process::kill_process(self.pid, signal),
        }
    }

    /// Becomes readable when all threads of the process have exited, even if it is not reaped.
    pub(super) fn into_pidfd(self) -> Option<OwnedFd> {
        self.pidfd
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pidfd.is_some()
    }

    fn has_exited(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return false };
        let mut polled = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut polled, Some(&no_wait)), Ok(count) if count > 0)
    }
}

/// Whether the pid still belongs to the scanned process and that process runs. Membership in a tree does not change, so
/// it need not be checked again.
fn still_runs(procfs: &ProcFs, scanned: &ScannedProcess) -> bool {
    let Ok(now) = procfs.stat(scanned.pid) else {
        return false;
    };
    let same = if scanned.start_time != 0 && now.start_time != 0 {
        now.start_time == scanned.start_time
    } else {
        // No descriptor was left for `stat`, then or now: the tag is the only proof.
        scanned.key != 0 && tag::key_of(scanned.pid) == Some(scanned.key)
    };
    same && !now.is_dead()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_and_this_process_cannot_be_pinned() {
        for pid in [i32::MIN, -1, 0, 1, std::process::id() as i32] {
            assert!(PinnedProcess::pin(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn reserved_and_invalid_signal_numbers_are_rejected() {
        for number in [1, 9, 15, 18, 31, 35, 64] {
            assert_eq!(signal_from_number(number).map(Signal::as_raw), Some(number));
        }
        for number in [i32::MIN, -9, 0, 32, 33, 34, 65, i32::MAX] {
            assert_eq!(signal_from_number(number), None);
        }
    }
}
