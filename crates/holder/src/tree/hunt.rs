//! One tree being killed.
//!
//! ```text
//!   freeze ──▶ a pass found nothing new ──▶ kill ──▶ two passes found nothing new ──▶ wait for the dying ──▶ Done
//!     │ SIGSTOP at sight   ▲      or too many passes   │ SIGKILL at sight    ▲                 │ 2 s
//!     └────────────────────┘                           └─────────────────────┘                 └──▶ survivors
//! ```
//!
//! Why freeze first: a frozen process neither forks nor replaces a killed child, and while it lives its
//! children can be found by their parent. Why it ends: a program that forks faster than it can be stopped
//! is only ended by SIGKILL, which also makes a fork under way fail (SIGSTOP does not). Once sent SIGKILL a
//! process cannot fork any more, so those that are merely slow to die need no further passes.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;

use super::forest::Root;
use super::killer::Done;
use super::scan::{Procs, Seen};
use super::target::Target;

/// How long processes that were sent SIGKILL may take to end (core dump, a disk, a hung mount) before they
/// count as survivors.
const LINGER: Duration = Duration::from_secs(2);

/// A tree that still grows after this has won: the answer says so, and a further kill tries again.
const LIMIT: Duration = Duration::from_secs(10);

/// Bounds of freezing: a tree of any size that can be frozen at all is frozen by two or three passes.
const FREEZE_PASSES: u32 = 6;
const FREEZE_TIME: Duration = Duration::from_millis(250);

/// How many passes are repeated because something was faster than the pass. It may well be somebody else's.
const OUTRUN_PASSES: u32 = 8;

/// Passes in a row without a new member that end the search. Two, because a pass can miss a child
/// whose pid wrapped around to below the place where the pass had come to.
const QUIET_PASSES: u32 = 2;

pub(super) struct Hunt {
    pub(super) ticket: u64,
    pub(super) root: Root,
    pub(super) cgroup: Option<PathBuf>,
    /// Marks that are only found in this tree: its own, and those of outlives that run in it.
    keys: Vec<u64>,
    prey: HashMap<i32, Seen>,
    /// Signalled during the pass under way.
    sighted: HashSet<i32>,
    killing: bool,
    signalled: u32,
    passes: u32,
    quiet: u32,
    outrun: u32,
    began: Instant,
    last_found: Instant,
}

impl Hunt {
    pub(super) fn new(ticket: u64, root: Root, cgroup: Option<PathBuf>, now: Instant) -> Self {
        let keys = Vec::from_iter((root.key != 0).then_some(root.key));
        Self {
            ticket,
            root,
            cgroup,
            keys,
            prey: HashMap::new(),
            sighted: HashSet::new(),
            killing: false,
            signalled: 0,
            passes: 0,
            quiet: 0,
            outrun: 0,
            began: now,
            last_found: now,
        }
    }

    /// The same tree is to be killed again: look once more, with the full time. What is dying already stays
    /// known.
    pub(super) fn renew(&mut self, root: Root, cgroup: Option<PathBuf>, now: Instant) {
        let cgroup = cgroup.or_else(|| self.cgroup.take());
        let known = std::mem::take(&mut self.prey);
        let signalled = self.signalled;
        let killing = self.killing;
        *self = Self { prey: known, signalled, killing, ..Self::new(self.ticket, root, cgroup, now) };
    }

    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// A process with one of the [`Hunt::keys`] came into sight. Signalled at once: it may not live until the
    /// pass is over.
    pub(super) fn sight(&mut self, pid: i32, key: u64) {
        if self.prey.contains_key(&pid) {
            return;
        }
        let Some(target) = Target::find_marked(pid, key) else {
            return;
        };
        // Without a pin a corpse would look alive here, and no pass would ever be quiet.
        if target.send(self.signal()).is_ok() && target.is_pinned() {
            self.sighted.insert(pid);
        }
    }

    /// Marks found on members, for [`Hunt::sight`] in the next pass.
    pub(super) fn learn(&mut self, keys: impl Iterator<Item = u64>) {
        for key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
    }

    fn signal(&self) -> Signal {
        if self.killing { Signal::KILL } else { Signal::STOP }
    }

    /// Takes the result of a pass. `outrun`: something forked faster than the pass could look.
    pub(super) fn close_in(&mut self, members: &[Seen], outrun: bool, procs: &Procs, now: Instant) {
        self.passes += 1;
        let found = self.take_new(members, procs);
        if found {
            self.last_found = now;
        }
        let complete = !outrun || self.outrun >= OUTRUN_PASSES;
        self.outrun += u32::from(!complete);
        self.quiet = if found || !complete { 0 } else { self.quiet + 1 };
        let frozen = self.quiet > 0 || self.passes >= FREEZE_PASSES || now - self.began >= FREEZE_TIME;
        if !self.killing && frozen {
            self.killing = true;
            self.kill_all(procs);
        }
    }

    /// No pass could be made; only time ends this.
    pub(super) fn miss(&mut self) {
        self.quiet = 0;
    }

    /// Signals the new members; whether there were any.
    fn take_new(&mut self, members: &[Seen], procs: &Procs) -> bool {
        let mut sighted = std::mem::take(&mut self.sighted);
        let signal = self.signal();
        let mut found = false;
        for seen in members {
            let known = self.prey.get(&seen.pid);
            if known.is_some_and(|known| known.start_time == seen.start_time) {
                continue;
            }
            found = true;
            let sent = if sighted.remove(&seen.pid) { Ok(()) } else { send(procs, seen, signal) };
            self.signalled += u32::from(sent.is_ok());
            if sent != Err(Errno::SRCH) {
                self.prey.insert(seen.pid, *seen);
            }
        }
        // Ended by our signal before the pass came to read them.
        self.signalled += sighted.len() as u32;
        found || !sighted.is_empty()
    }

    /// Youngest first, children before parents: the end of a parent makes the kernel wake its stopped
    /// orphans (SIGHUP and SIGCONT to an orphaned group), which by then must have their SIGKILL.
    fn kill_all(&self, procs: &Procs) {
        let mut all: Vec<&Seen> = self.prey.values().collect();
        all.sort_by_key(|seen| std::cmp::Reverse((seen.start_time, seen.pid)));
        for seen in all {
            // Gone already, or not ours to signal: it shows when the survivors are counted.
            let _ = send(procs, seen, Signal::KILL);
        }
    }

    pub(super) fn needs_pass(&self) -> bool {
        self.quiet < QUIET_PASSES
    }

    /// Those that were signalled and may still be dying.
    pub(super) fn dying(&self) -> impl Iterator<Item = &Seen> {
        self.prey.values()
    }

    /// When waiting, or hunting on, ends at the latest.
    pub(super) fn deadline(&self) -> Instant {
        let limit = self.began + LIMIT;
        if self.needs_pass() { limit } else { limit.min(self.last_found + LINGER) }
    }

    /// The answer, if there is nothing more to do or to wait for.
    pub(super) fn outcome(&mut self, procs: &Procs, now: Instant) -> Option<Done> {
        let late = now >= self.deadline();
        if self.needs_pass() && !late {
            return None;
        }
        self.prey.retain(|_, seen| Target::find(procs, seen).is_some());
        let mut survivors = self.prey.len() as u32;
        if survivors > 0 && !late {
            return None;
        }
        if self.needs_pass() {
            // Stopped in the middle of it: what the last pass could not see, or was too late for, counts too.
            survivors = survivors.max(1);
        }
        Some(Done { ticket: self.ticket, signalled: self.signalled, survivors })
    }
}

/// ESRCH if it is not there any more.
pub(super) fn send(procs: &Procs, seen: &Seen, signal: Signal) -> Result<(), Errno> {
    Target::find(procs, seen).ok_or(Errno::SRCH)?.send(signal)
}
