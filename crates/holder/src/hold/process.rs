//! One held process: its streams, its log, its deadlines, and the way from launch (launch.rs) to exit.
//!
//! ```text
//!  spawn ─▶ launching ─gate closed─▶ running ─reaped, drained─▶ exited ─forget─▶ gone
//!              │ failed / stuck > 1 s       │ untold (brief.rs)  │ spawn with the next generation
//!              └─▶ gone (or exited again,   └─▶ gone             └─▶ launching
//!                        if it was a restart)
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use super::Holder;
use super::brief::Untold;
use super::command::{Asker, Errand};
use super::event::{Poll, Source};
use super::launch::{Child, Launching};
use super::setup;
use crate::clock;
use crate::log::{Cause, LogWriter, Recorded, Stream};
use crate::tree::Root;
use crate::tree::killer::{Action, Job};
use crate::wire::{Held, Spawned};

/// What the drain of a terminal takes at most; more than its kernel buffers hold.
const TERMINAL_DRAIN_BYTES: usize = 64 * 1024;

pub(super) struct Process {
    pub(super) key: u64,
    pub(super) generation: u32,
    /// 0 when there is no running command; while `launching`, one may run without our knowing.
    pub(super) pid: i32,
    /// The same, but stays when the command has ended: others may know it by nothing else.
    pub(super) last_pid: i32,
    pub(super) started_at_ms: u64,
    pub(super) log: LogWriter,
    pub(super) streams: Vec<StreamEnd>,
    pub(super) input: Option<OwnedFd>,
    pub(super) cgroup: Option<PathBuf>,
    pub(super) kill_at: u64,
    pub(super) time_limit_at: u64,
    pub(super) detach_at: u64,
    /// Why it is being ended, once somebody asked for it.
    pub(super) cause: Option<Cause>,
    pub(super) launching: Option<Launching>,
    pub(super) untold: Option<Untold>,
    /// How to find the tree where marks cannot be set (some sandboxes lack that limit).
    pub(super) unmarked: Option<Root>,
    /// `Forget` came while the tree's end was still under way.
    pub(super) forget: bool,
}

/// A descriptor that is recorded. Its place in the list is its epoll index, so ended ones leave a hole.
pub(super) struct StreamEnd {
    pub(super) fd: Option<OwnedFd>,
    pub(super) stream: Stream,
    pub(super) blocked: bool,
}

impl StreamEnd {
    /// It has ended. A pipe leaves the poll set with its one descriptor; a terminal has another one, for the input.
    fn leave(&mut self, poll: &Poll) {
        if let Some(fd) = self.fd.take().filter(|_| self.stream == Stream::Terminal) {
            poll.remove(&fd);
        }
        self.blocked = false;
    }
}

impl Process {
    pub(super) fn new(key: u64, log: LogWriter) -> Self {
        Self {
            key,
            generation: 0,
            pid: 0,
            last_pid: 0,
            started_at_ms: 0,
            log,
            streams: Vec::new(),
            input: None,
            cgroup: None,
            kill_at: 0,
            time_limit_at: 0,
            detach_at: 0,
            cause: None,
            launching: None,
            untold: None,
            unmarked: None,
            forget: false,
        }
    }

    pub(super) fn is_launching(&self) -> bool {
        self.launching.is_some()
    }

    pub(super) fn launch_is_stuck(&self, now: u64) -> bool {
        self.launching.as_ref().and_then(Launching::stuck_at).is_some_and(|at| now >= at)
    }

    pub(super) fn root(&self) -> Root {
        self.unmarked.clone().unwrap_or(Root { pid: self.pid, start_time: 0, key: self.key, environ_id: None })
    }

    /// The reason to kill the tree now, if one of its moments has come.
    pub(super) fn take_end_due(&mut self, now: u64) -> Option<Cause> {
        let due = |at: &mut u64| *at != 0 && *at <= now && std::mem::take(at) != 0;
        if due(&mut self.kill_at) {
            return Some(self.cause.unwrap_or(Cause::Killed));
        }
        if self.pid == 0 {
            return None;
        }
        if due(&mut self.time_limit_at) {
            return Some(Cause::TimedOut);
        }
        due(&mut self.detach_at).then_some(Cause::Detached)
    }

    /// Tells readers how many descriptors can still write to the log.
    pub(super) fn count_streams(&self) {
        self.log.set_open_streams(self.streams.iter().filter(|end| end.fd.is_some()).count());
    }

    pub(super) fn blocked_streams(&self) -> Vec<u8> {
        (0u8..).zip(&self.streams).filter(|(_, end)| end.blocked).map(|(index, _)| index).collect()
    }

    /// Every moment at which this process wants to be looked at.
    pub(super) fn deadlines(&self) -> Vec<u64> {
        let launch = self.launching.as_ref().and_then(Launching::stuck_at).unwrap_or(0);
        let blocked = if self.streams.iter().any(|end| end.blocked) { self.log.due().unwrap_or(0) } else { 0 };
        let (limit, detach) = if self.pid == 0 { (0, 0) } else { (self.time_limit_at, self.detach_at) };
        let tell = self.untold.as_ref().map_or(0, |untold| untold.tell_at);
        [launch, tell, blocked, self.kill_at, limit, detach].into_iter().filter(|at| *at != 0).collect()
    }

    pub(super) fn held(&self) -> Held {
        Held {
            key: self.key,
            generation: self.generation,
            pid: self.pid as u32,
            started_at_ms: self.started_at_ms,
            has_input: self.input.is_some(),
            kill_at: self.kill_at,
            detach_at: self.detach_at,
            time_limit_at: self.time_limit_at,
            last_pid: self.last_pid as u32,
        }
    }
}

impl Holder {
    pub(super) fn add_stream(&mut self, key: u64, fd: OwnedFd, stream: Stream) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        // Holes of ended streams are used again, so that restarts do not make the list grow.
        let hole = process.streams.iter().position(|end| end.fd.is_none());
        let index = hole.unwrap_or(process.streams.len());
        let Ok(small) = u8::try_from(index) else { return };
        let added = self.poll.add(&fd, Source::Stream { key, index: small });
        let end = StreamEnd { fd: Some(fd), stream, blocked: added.is_err() };
        match hole {
            Some(index) => process.streams[index] = end,
            None => process.streams.push(end),
        }
        process.count_streams();
    }

    /// A program that lasts gets pipes with room for a burst.
    pub(super) fn widen_pipes(&self, key: u64) {
        let streams = self.processes.get(&key).map(|process| process.streams.as_slice()).unwrap_or_default();
        for end in streams.iter().filter(|end| end.stream != Stream::Terminal) {
            end.fd.iter().for_each(|fd| crate::spawn::widen(fd.as_fd()));
        }
    }

    /// Moves what a descriptor has into its log.
    pub(super) fn record(&mut self, key: u64, index: u8) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(end) = process.streams.get_mut(usize::from(index)) else { return };
        let Some(fd) = &end.fd else { return };
        let outcome = process.log.record(fd.as_fd(), end.stream);
        let mut blocked = false;
        match outcome {
            Recorded::Idle | Recorded::More if end.blocked => {
                end.blocked = self.poll.add(fd, Source::Stream { key, index }).is_err();
            }
            Recorded::Idle | Recorded::More => {}
            Recorded::Blocked => {
                // Out of the poll set altogether: a hang-up would be reported again and again.
                if !end.blocked {
                    self.poll.remove(fd);
                    end.blocked = true;
                }
                blocked = true;
                if let Some(at) = process.log.due() {
                    self.timers.arm(at, key);
                }
            }
            Recorded::Ended => {
                end.leave(&self.poll);
                process.count_streams();
            }
        }
        let prints_much = process.prints_much_untold();
        // A full ring wakes even the readers that sleep until the exit: they hold it.
        if process.log.take_waiting() | process.log.take_due() || blocked {
            self.wake(key);
        }
        if prints_much {
            self.tell(key);
        }
    }

    /// A reader moved its hold.
    pub(super) fn resume_streams(&mut self, key: u64) {
        let blocked = self.processes.get(&key).map(Process::blocked_streams).unwrap_or_default();
        for index in blocked {
            self.record(key, index);
        }
    }

    /// Takes what the descriptors have at this moment, and from each at least an attempt at `least` bytes.
    pub(super) fn drain_streams(&mut self, key: u64, least: usize) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        for end in &mut process.streams {
            let Some(fd) = &end.fd else { continue };
            let waiting = match end.stream {
                Stream::Terminal => TERMINAL_DRAIN_BYTES,
                _ => (rustix::io::ioctl_fionread(fd).unwrap_or(0) as usize).max(least),
            };
            let ended = waiting > 0 && process.log.drain(fd.as_fd(), end.stream, waiting) == Recorded::Ended;
            if ended {
                end.leave(&self.poll);
            }
        }
        process.count_streams();
    }

    /// A command ended: take what it had written, then say so.
    pub(super) fn exited(&mut self, key: u64, status: Result<u8, u8>) {
        self.launched(key, Child::Reaped);
        let oom = status == Err(9) && self.was_out_of_memory(key);
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.pid == 0 {
            return;
        }
        self.drain_streams(key, 0);
        let Some(process) = self.processes.get_mut(&key) else { return };
        let cause = match process.cause {
            Some(cause) => cause,
            None if oom => Cause::OutOfMemory,
            None => Cause::Itself,
        };
        process.pid = 0;
        process.input = None;
        if self.end_untold(key, status, cause) {
            return;
        }
        let Some(process) = self.processes.get_mut(&key) else { return };
        process.log.set_exit(status, cause, clock::wall_ms());
        process.log.take_waiting();
        self.rearm(key);
        self.wake(key);
        self.forget_if_over(key);
    }

    /// A KILL that nobody here sent: was it the kernel, for lack of memory?
    pub(super) fn was_out_of_memory(&mut self, key: u64) -> bool {
        let asked = self.processes.get(&key).is_none_or(|process| process.cause.is_some());
        if asked {
            return false;
        }
        let before = std::mem::replace(&mut self.oom_kills, setup::oom_kills());
        self.oom_kills > before
    }

    /// Ends a tree for good.
    pub(super) fn kill_tree(&mut self, key: u64, cause: Cause, asker: Option<Asker>) {
        self.signal_tree(key, Action::Kill, asker);
        if let Some(process) = self.processes.get_mut(&key) {
            process.kill_at = 0;
            process.cause.get_or_insert(cause);
        }
    }

    /// Also of a process that was forgotten: its mark is all that is needed.
    pub(super) fn signal_tree(&mut self, key: u64, action: Action, asker: Option<Asker>) {
        let process = self.processes.get(&key);
        let root = process.map_or_else(|| Root::marked(key), Process::root);
        let cgroup = process.and_then(|process| process.cgroup.clone());
        self.submit(Errand { key, asker }, root, cgroup, action);
    }

    pub(super) fn submit(&mut self, errand: Errand, root: Root, cgroup: Option<PathBuf>, action: Action) {
        self.last_ticket += 1;
        self.jobs.insert(self.last_ticket, errand);
        self.killer.signal(Job { ticket: self.last_ticket, root, cgroup, action });
    }

    pub(super) fn spawned(&self, request: u32, key: u64) -> Option<Spawned> {
        let process = self.processes.get(&key)?;
        Some(Spawned {
            request,
            key,
            pid: process.last_pid as u32,
            started_at_ms: process.started_at_ms,
            has_input: process.input.is_some(),
        })
    }

    /// Not by closing alone: a child that was just cloned may have them too.
    pub(super) fn leave_poll(&self, process: &Process) {
        process.streams.iter().filter_map(|end| end.fd.as_ref()).for_each(|fd| self.poll.remove(fd));
    }

    pub(super) fn remove(&mut self, key: u64) {
        let Some(process) = self.processes.remove(&key) else { return };
        self.timers.disarm(key);
        self.leave_poll(&process);
        if let Some(path) = process.cgroup {
            self.remove_cgroup(path);
        }
    }
}
