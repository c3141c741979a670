//! One process: its streams, its log, its deadlines, and its life from launch (launch.rs) to exit.
//!
//! ```text
//!  spawn ─▶ launching ─exec─▶ running ─reaped, drained─▶ exited ─forget─▶ removed
//!              │ failed, or stuck > 1 s  │ brief run       │ spawn with the next generation
//!              └─▶ removed (or exited,   └─▶ removed       └─▶ launching
//!                  if it was a restart)
//! ```
//!
//! A *sink* is a process without a program: it has only descriptors that the holder records for the server.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::brief_run::UnreportedRun;
use super::launch::{ChildState, PendingLaunch};
use super::{Holder, Poll, Source, setup};
use crate::clock;
use crate::log::{Cause, LogWriter, RecordOutcome, Stream};
use crate::tree::TreeRoot;
use crate::wire::{HeldProcessInfo, Spawned};

/// Upper bound for draining a terminal; more than its kernel buffers contain.
const TERMINAL_DRAIN_BYTES: usize = 64 * 1024;

/// What a drain does with a pipe that contains no bytes.
#[derive(Clone, Copy)]
pub(super) enum EmptyPipes {
    /// It stays open: processes that outlive the command may write to it later.
    Skip,
    /// Tries to read one byte: a pipe without writers then reports end of file and is closed.
    Read,
}

pub(super) struct Process {
    pub(super) key: u64,
    pub(super) generation: u32,
    /// 0 when no command runs. While launching, a command may run although this is 0.
    pub(super) pid: i32,
    /// As `pid`, but not reset when the command ends: some clients identify processes by pid only.
    pub(super) last_pid: i32,
    pub(super) started_at_ms: u64,
    pub(super) log: LogWriter,
    pub(super) streams: Vec<RecordedStream>,
    pub(super) input: Option<OwnedFd>,
    pub(super) cgroup: Option<PathBuf>,
    /// Deadlines on the boot clock; 0 = none.
    pub(super) kill_at: u64,
    pub(super) time_limit_at: u64,
    pub(super) detach_at: u64,
    /// Why the holder is ending it, if it is.
    pub(super) cause: Option<Cause>,
    pub(super) launching: Option<PendingLaunch>,
    pub(super) unreported: Option<UnreportedRun>,
    /// How to find the tree if the kernel refused the tree tag (some sandboxes lack that limit), or if the command was
    /// reaped before the tag could be checked. `None`: by key and pid.
    pub(super) fallback_root: Option<TreeRoot>,
    /// `Forget` arrived before the tree had ended.
    pub(super) forget_requested: bool,
}

/// A descriptor that is recorded. Its position in the list is its epoll index, so a closed stream leaves a free slot.
pub(super) struct RecordedStream {
    pub(super) fd: Option<OwnedFd>,
    pub(super) stream: Stream,
    /// Removed from the poll set because a lease stops the program.
    pub(super) blocked: bool,
}

impl RecordedStream {
    /// Closes an ended stream. A pipe leaves the poll set with its only descriptor. A terminal has a second descriptor,
    /// for the input, so it must be removed.
    fn close(&mut self, poll: &Poll) {
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
            unreported: None,
            fallback_root: None,
            forget_requested: false,
        }
    }

    pub(super) fn is_launching(&self) -> bool {
        self.launching.is_some()
    }

    pub(super) fn launch_is_stuck(&self, now: u64) -> bool {
        self.launching.as_ref().and_then(PendingLaunch::stuck_at).is_some_and(|at| now >= at)
    }

    pub(super) fn root(&self) -> TreeRoot {
        self.fallback_root.clone().unwrap_or(TreeRoot { pid: self.pid, start_time: 0, key: self.key, environ_id: None })
    }

    /// The cause to kill the tree with, if one of its deadlines has passed. Clears that deadline.
    pub(super) fn take_due_kill(&mut self, now: u64) -> Option<Cause> {
        let take_if_due = |at: &mut u64| *at != 0 && *at <= now && std::mem::take(at) != 0;
        if take_if_due(&mut self.kill_at) {
            return Some(self.cause.unwrap_or(Cause::Killed));
        }
        if self.pid == 0 {
            return None;
        }
        if take_if_due(&mut self.time_limit_at) {
            return Some(Cause::TimedOut);
        }
        take_if_due(&mut self.detach_at).then_some(Cause::Detached)
    }

    /// Publishes how many descriptors can still write to the log.
    pub(super) fn publish_open_streams(&self) {
        self.log.set_open_streams(self.streams.iter().filter(|stream| stream.fd.is_some()).count());
    }

    pub(super) fn blocked_streams(&self) -> Vec<u8> {
        (0u8..).zip(&self.streams).filter(|(_, stream)| stream.blocked).map(|(index, _)| index).collect()
    }

    /// All times at which `on_process_deadline` has something to do.
    pub(super) fn deadlines(&self) -> Vec<u64> {
        let launch = self.launching.as_ref().and_then(PendingLaunch::stuck_at).unwrap_or(0);
        let is_blocked = self.streams.iter().any(|stream| stream.blocked);
        let blocked = if is_blocked { self.log.next_lease_deadline().unwrap_or(0) } else { 0 };
        let (limit, detach) = if self.pid == 0 { (0, 0) } else { (self.time_limit_at, self.detach_at) };
        let report = self.unreported.as_ref().map_or(0, |run| run.report_at);
        [launch, report, blocked, self.kill_at, limit, detach].into_iter().filter(|at| *at != 0).collect()
    }

    /// The hand-over message for this process.
    pub(super) fn held_info(&self) -> HeldProcessInfo {
        HeldProcessInfo {
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

    pub(super) fn spawned(&self, request: u32) -> Spawned {
        Spawned {
            request,
            key: self.key,
            pid: self.last_pid as u32,
            started_at_ms: self.started_at_ms,
            has_input: self.input.is_some(),
        }
    }
}

impl Holder {
    pub(super) fn add_stream(&mut self, key: u64, fd: OwnedFd, stream: Stream) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        // Slots of closed streams are reused, so that restarts do not make the list grow.
        let free = process.streams.iter().position(|stream| stream.fd.is_none());
        let Ok(index) = u8::try_from(free.unwrap_or(process.streams.len())) else { return };
        let added = self.poll.add(&fd, Source::Stream { key, index });
        let recorded = RecordedStream { fd: Some(fd), stream, blocked: added.is_err() };
        match free {
            Some(slot) => process.streams[slot] = recorded,
            None => process.streams.push(recorded),
        }
        process.publish_open_streams();
    }

    /// Widens the output pipes of a program that is reported as a process.
    pub(super) fn widen_pipes(&self, key: u64) {
        let streams = self.processes.get(&key).map(|process| process.streams.as_slice()).unwrap_or_default();
        for stream in streams.iter().filter(|stream| stream.stream != Stream::Terminal) {
            stream.fd.iter().for_each(|fd| crate::spawn::widen_pipe(fd.as_fd()));
        }
    }

    /// Moves the available bytes of a descriptor into the log, and wakes readers that wait for them.
    pub(super) fn record_stream(&mut self, key: u64, index: u8) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(stream) = process.streams.get_mut(usize::from(index)) else { return };
        let Some(fd) = &stream.fd else { return };
        let outcome = process.log.record(fd.as_fd(), stream.stream);
        match outcome {
            RecordOutcome::Idle | RecordOutcome::More if stream.blocked => {
                stream.blocked = self.poll.add(fd, Source::Stream { key, index }).is_err();
            }
            RecordOutcome::Idle | RecordOutcome::More => {}
            RecordOutcome::Blocked => {
                // Removed from the poll set altogether: epoll would report a hang-up again and again.
                if !stream.blocked {
                    self.poll.remove(fd);
                    stream.blocked = true;
                }
                if let Some(at) = process.log.next_lease_deadline() {
                    self.timers.arm(at, key);
                }
            }
            RecordOutcome::Ended => {
                stream.close(&self.poll);
                process.publish_open_streams();
            }
        }
        let exceeds_brief_output = process.exceeds_brief_output();
        // Without short-circuit: both requests must be taken.
        let wakeup_requested = process.log.take_wakeup_request() | process.log.take_offset_request();
        // A full ring wakes even readers that sleep until the exit: their lease is what blocks it.
        if wakeup_requested || outcome == RecordOutcome::Blocked {
            self.wake(key);
        }
        if exceeds_brief_output {
            self.report_as_process(key);
        }
    }

    /// A reader advanced its lease: tries the blocked streams again.
    pub(super) fn resume_streams(&mut self, key: u64) {
        let blocked = self.processes.get(&key).map(Process::blocked_streams).unwrap_or_default();
        for index in blocked {
            self.record_stream(key, index);
        }
    }

    /// Records everything that the descriptors contain now.
    pub(super) fn drain_streams(&mut self, key: u64, empty_pipes: EmptyPipes) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        for stream in &mut process.streams {
            let Some(fd) = &stream.fd else { continue };
            let available = match stream.stream {
                Stream::Terminal => TERMINAL_DRAIN_BYTES,
                _ => match (rustix::io::ioctl_fionread(fd).unwrap_or(0) as usize, empty_pipes) {
                    (0, EmptyPipes::Read) => 1,
                    (buffered, _) => buffered,
                },
            };
            if available > 0 && process.log.drain(fd.as_fd(), stream.stream, available) == RecordOutcome::Ended {
                stream.close(&self.poll);
            }
        }
        process.publish_open_streams();
    }

    /// Reaps every child that ended: commands, servers, and orphans that were reparented to the holder.
    pub(super) fn reap(&mut self) {
        loop {
            let mut raw = 0;
            // SAFETY: waitpid on any child, without blocking, writing to a local.
            let pid = unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) };
            if pid <= 0 {
                break;
            }
            let status =
                if libc::WIFSIGNALED(raw) { Err(libc::WTERMSIG(raw) as u8) } else { Ok(libc::WEXITSTATUS(raw) as u8) };
            if let Some(key) = self.pids.remove(&pid) {
                self.on_command_exit(key, status);
            } else if let Some(position) = self.servers.iter().position(|server| server.pid == pid) {
                self.on_server_exit(position, status);
            }
        }
        self.advance_shutdown(clock::boot_ms());
    }

    /// A command was reaped: records the rest of its output, then its exit.
    pub(super) fn on_command_exit(&mut self, key: u64, status: Result<u8, u8>) {
        self.finish_launch(key, ChildState::Reaped);
        let oom_killed = status == Err(9) && self.was_oom_killed(key);
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.pid == 0 {
            // The launch of a restart has failed. A launch that succeeded has set the pid.
            return;
        }
        self.drain_streams(key, EmptyPipes::Skip);
        let Some(process) = self.processes.get_mut(&key) else { return };
        let cause = match process.cause {
            Some(cause) => cause,
            None if oom_killed => Cause::OutOfMemory,
            None => Cause::SelfExit,
        };
        process.pid = 0;
        process.input = None;
        if self.finish_brief_run(key, status, cause) {
            return;
        }
        let Some(process) = self.processes.get_mut(&key) else { return };
        process.log.set_exit(status, cause, clock::wall_ms());
        // Cleared, because the wake below satisfies it.
        process.log.take_wakeup_request();
        self.rearm(key);
        self.wake(key);
        self.retry_forget(key);
    }

    /// Whether a SIGKILL that the holder did not send came from the kernel's OOM killer.
    fn was_oom_killed(&mut self, key: u64) -> bool {
        let killed_by_us = self.processes.get(&key).is_none_or(|process| process.cause.is_some());
        if killed_by_us {
            return false;
        }
        let before = std::mem::replace(&mut self.oom_kills, setup::oom_kills());
        self.oom_kills > before
    }

    /// Closing the descriptors is not enough: a child that was just cloned may have copies of them.
    pub(super) fn remove_streams_from_poll(&self, process: &Process) {
        process.streams.iter().filter_map(|stream| stream.fd.as_ref()).for_each(|fd| self.poll.remove(fd));
    }

    pub(super) fn remove(&mut self, key: u64) {
        let Some(process) = self.processes.remove(&key) else { return };
        self.timers.disarm(key);
        self.remove_streams_from_poll(&process);
        if let Some(path) = process.cgroup {
            self.remove_cgroup(path);
        }
    }
}

/// Signals a child that has not been reaped. Its pid cannot have been reused.
pub(super) fn signal_child(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
