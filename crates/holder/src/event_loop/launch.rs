//! Launches a program: from a `Spawn` message to a running process, or to a `SpawnFailed`.
//!
//! The child is cloned at once (`spawn::clone_child`). The holder learns that the program was executed when the exec
//! pipe closes, and replies then. A run that may be brief gets its reply later: at its exit, or when it has lasted too long.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Signal;

use super::brief_run::UnreportedRun;
use super::commands::ReplyTo;
use super::process::{Process, signal_child};
use super::{Holder, Source};
use crate::clock;
use crate::log::lease::LeaseKind;
use crate::log::{LogWriter, Stream};
use crate::spawn::{self, Launch, Stdio};
use crate::tree::{self, TreeRoot, cgroup};
use crate::wire::{Spawn, SpawnFailed, SpawnStage, ToServer};

/// A child that has not reached its exec after this time is given up. The usual reason is a dead mount.
const STUCK_TIMEOUT_MS: u64 = 1000;

type SpawnError = (SpawnStage, i32);

/// A launch whose program has not been executed yet, as far as the holder knows.
pub(super) struct PendingLaunch {
    launch: Launch,
    reply_to: ReplyTo,
    generation: u32,
    started_at_ms: u64,
    exec_pipe: ExecPipe,
    /// Recorded once the program was executed. Empty if the exec pipe is not polled: the streams are then
    /// recorded at once.
    streams: Vec<(OwnedFd, Stream)>,
    input: Option<OwnedFd>,
    time_limit_at: u64,
}

/// How the holder learns that the program was executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExecPipe {
    /// The exec pipe is in the poll set. At `stuck_at` the launch is aborted.
    Polled { stuck_at: u64 },
    /// Only by its exit, or when it is reported as a process. For unreported runs.
    Unpolled,
}

impl ExecPipe {
    fn polled() -> Self {
        Self::Polled { stuck_at: clock::boot_ms() + STUCK_TIMEOUT_MS }
    }
}

impl PendingLaunch {
    /// Identifies the tree where the kernel refuses the tree tag.
    fn environ_id(&self) -> String {
        String::from_utf8_lossy(self.launch.environment_variable(tree::ENVIRON_VARIABLE).unwrap_or_default())
            .into_owned()
    }

    pub(super) fn stuck_at(&self) -> Option<u64> {
        match self.exec_pipe {
            ExecPipe::Polled { stuck_at } => Some(stuck_at),
            ExecPipe::Unpolled => None,
        }
    }
}

/// The state of a child whose exec pipe has closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildState {
    Running,
    /// Its pid may be reused by now.
    Reaped,
}

impl Holder {
    pub(super) fn spawn(&mut self, epoch: u32, spawn: Spawn) {
        let (request, key) = (spawn.request, spawn.key);
        if let Some(process) = self.processes.get(&key)
            && !process.is_launching()
            && process.generation == spawn.generation
        {
            // The request is repeated by a server that does not know the outcome of the first one.
            self.queue_spawned(ReplyTo { epoch, request }, key);
            return;
        }
        if let Err((stage, errno)) = self.try_spawn(epoch, &spawn) {
            self.queue(epoch, ToServer::SpawnFailed(SpawnFailed { request, key, stage, errno }));
        }
    }

    fn try_spawn(&mut self, epoch: u32, spawn: &Spawn) -> Result<(), SpawnError> {
        let key = spawn.key;
        let is_restart = self.check_spawn(spawn)?;
        let stdio = spawn::open_stdio(&spawn.io, spawn.identity.as_ref()).map_err(prepare_error)?;
        if !is_restart {
            let log = self.create_log(epoch, spawn)?;
            self.processes.insert(key, Process::new(key, log));
        }
        let cgroup = if spawn.wants_cgroup || spawn.has_cgroup_limits() { self.create_cgroup(key) } else { None };
        let is_brief = spawn.brief && self.is_serving(epoch);
        // A brief run need not be noticed before its exit, unless its OOM score has to be restored after the exec.
        let exec_pipe =
            if is_brief && self.inherited.oom_score.is_none() { ExecPipe::Unpolled } else { ExecPipe::polled() };
        let launch = match self.launch_child(spawn, &stdio, cgroup.as_deref(), exec_pipe) {
            Ok(launch) => launch,
            Err(error) => {
                if let Some(path) = cgroup {
                    self.remove_cgroup(path);
                }
                if !is_restart {
                    self.processes.remove(&key);
                }
                return Err(error);
            }
        };
        let reply_to = ReplyTo { epoch, request: spawn.request };
        let unreported = is_brief.then(|| UnreportedRun::new(reply_to, spawn.time_limit_at, stdio.child));
        let pending = PendingLaunch {
            launch,
            reply_to,
            generation: spawn.generation,
            started_at_ms: clock::wall_ms(),
            exec_pipe,
            streams: stdio.streams,
            input: stdio.input,
            time_limit_at: spawn.time_limit_at,
        };
        self.track_launch(key, pending, unreported, cgroup);
        Ok(())
    }

    /// Returns whether the spawn restarts an exited process.
    fn check_spawn(&self, spawn: &Spawn) -> Result<bool, SpawnError> {
        let is_restart = match self.processes.get(&spawn.key) {
            None => false,
            Some(old) if old.pid == 0 && !old.is_launching() && old.generation + 1 == spawn.generation => true,
            Some(_) => return Err((SpawnStage::Refused, libc::EEXIST)),
        };
        if self.shutdown.is_some() {
            return Err((SpawnStage::Refused, libc::ESHUTDOWN));
        }
        Ok(is_restart)
    }

    fn create_log(&mut self, epoch: u32, spawn: &Spawn) -> Result<LogWriter, SpawnError> {
        let reserve = spawn::drain_reserve(&spawn.io);
        let log = match self.spare_log.take(spawn.log_budget, reserve, spawn.log_start()) {
            Some(log) => log,
            None => LogWriter::create(spawn.log_budget, reserve, spawn.log_start())
                .map_err(|error| (SpawnStage::Prepare, error.raw_os_error().unwrap_or(libc::EIO)))?,
        };
        if spawn.reader_expected {
            log.reserve_lease(LeaseKind::Client, epoch);
        }
        if spawn.history_expected {
            log.reserve_lease(LeaseKind::History, epoch);
        }
        Ok(log)
    }

    fn launch_child(
        &self,
        spawn: &Spawn,
        stdio: &Stdio,
        cgroup: Option<&Path>,
        exec_pipe: ExecPipe,
    ) -> Result<Launch, SpawnError> {
        let procs = cgroup.and_then(|path| cgroup::procs_fd(path).ok());
        if spawn.has_cgroup_limits() {
            match (cgroup, &procs) {
                (Some(path), Some(_)) => set_cgroup_limits(path, spawn)?,
                _ => return Err((SpawnStage::Confine, libc::EOPNOTSUPP)),
            }
        }
        let procs = procs.as_ref().map(AsFd::as_fd);
        let launch = spawn::clone_child(spawn, stdio.child.borrow(), procs, &self.inherited, true)?;
        if exec_pipe != ExecPipe::Unpolled
            && let Err(errno) = self.poll.add(launch.exec_pipe(), Source::ExecPipe { key: spawn.key })
        {
            // The holder could not track this child.
            signal_child(launch.pid, Signal::KILL);
            return Err(prepare_error(errno));
        }
        Ok(launch)
    }

    fn track_launch(
        &mut self,
        key: u64,
        mut pending: PendingLaunch,
        unreported: Option<UnreportedRun>,
        cgroup: Option<PathBuf>,
    ) {
        self.pids.insert(pending.launch.pid, key);
        let record_now = pending.exec_pipe == ExecPipe::Unpolled;
        let streams = if record_now { std::mem::take(&mut pending.streams) } else { Vec::new() };
        if let Some(process) = self.processes.get_mut(&key) {
            // Without a new cgroup the old one stays: processes of the previous generation still live in it.
            process.cgroup = cgroup.or(process.cgroup.take());
            // A deferred `Forget` was meant for the previous generation.
            process.forget_requested = false;
            process.unreported = unreported;
            process.launching = Some(pending);
        }
        for (fd, stream) in streams {
            self.add_stream(key, fd, stream);
        }
        self.rearm(key);
        self.timers.arm_housekeeping(self.memory_trim.schedule(clock::boot_ms()));
    }

    /// Starts to poll an exec pipe that is not polled, or finishes the launch if the pipe has closed.
    pub(super) fn poll_exec_pipe(&mut self, key: u64) {
        let process = self.processes.get_mut(&key);
        let Some(pending) = process.and_then(|process| process.launching.as_mut()) else { return };
        if pending.exec_pipe != ExecPipe::Unpolled {
            return;
        }
        if pending.launch.has_left_shared_memory() {
            self.finish_launch(key, ChildState::Running);
            return;
        }
        pending.exec_pipe = ExecPipe::polled();
        if self.poll.add(pending.launch.exec_pipe(), Source::ExecPipe { key }).is_err() {
            self.abort_launch(key);
        }
    }

    /// The exec pipe has closed: the child has executed its program, or failed to.
    pub(super) fn finish_launch(&mut self, key: u64, child: ChildState) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        // The exec pipe leaves the poll set when `pending` is dropped, which closes it.
        let Some(pending) = process.launching.take() else { return };
        if let Err((stage, errno)) = pending.launch.outcome() {
            self.fail_launch(key, &pending, stage, errno);
            return;
        }
        if child == ChildState::Running {
            // Not earlier: until its exec the child shares our memory, and the kernel would change our score with it.
            self.inherited.restore_oom_score(pending.launch.pid);
        }
        process.pid = pending.launch.pid;
        process.last_pid = process.pid;
        process.generation = pending.generation;
        process.started_at_ms = pending.started_at_ms;
        process.time_limit_at = pending.time_limit_at;
        process.kill_at = 0;
        process.detach_at = 0;
        process.cause = None;
        process.fallback_root = match child {
            ChildState::Running if tree::tag::key_of(process.pid) == Some(key) => None,
            ChildState::Running => Some(TreeRoot::from_running(process.pid, key, &pending.environ_id())),
            // It is too late to check the tag.
            ChildState::Reaped => Some(TreeRoot { environ_id: Some(pending.environ_id()), ..TreeRoot::from_key(key) }),
        };
        process.input = pending.input;
        process.log.start_generation(pending.generation);
        for (fd, stream) in pending.streams {
            self.add_stream(key, fd, stream);
        }
        if self.processes.get(&key).is_some_and(|process| process.unreported.is_none()) {
            self.report_spawned(key, pending.reply_to);
        }
        self.rearm(key);
        self.hand_over_launched(key);
    }

    /// Gives up a child that is stuck before its exec. SIGKILL takes effect when the blocking call returns.
    pub(super) fn abort_launch(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(pending) = process.launching.take() else { return };
        self.poll.remove(pending.launch.exec_pipe());
        signal_child(pending.launch.pid, Signal::KILL);
        self.fail_launch(key, &pending, SpawnStage::Stuck, libc::ETIMEDOUT);
    }

    fn fail_launch(&mut self, key: u64, pending: &PendingLaunch, stage: SpawnStage, errno: i32) {
        self.pids.remove(&pending.launch.pid);
        let is_new = self.processes.get(&key).is_some_and(|process| process.generation == 0);
        if is_new {
            self.remove(key);
        }
        let ReplyTo { epoch, request } = pending.reply_to;
        self.queue(epoch, ToServer::SpawnFailed(SpawnFailed { request, key, stage, errno }));
        self.hand_over_launched(key);
    }
}

fn prepare_error(errno: Errno) -> SpawnError {
    (SpawnStage::Prepare, errno.raw_os_error())
}

fn set_cgroup_limits(path: &Path, spawn: &Spawn) -> Result<(), SpawnError> {
    let limits = cgroup::CgroupLimits {
        memory_bytes: spawn.memory_bytes,
        processes: spawn.tree_processes,
        milli_cpus: spawn.milli_cpus,
    };
    cgroup::set_limits(path, limits)
        .map_err(|error| (SpawnStage::Confine, error.raw_os_error().unwrap_or(libc::EOPNOTSUPP)))
}

/// Returns free memory to the system after a burst of spawns. The allocator would keep what each child needed until its
/// exec.
#[derive(Default)]
pub(super) struct MemoryTrim {
    pub(super) due_at: Option<u64>,
}

impl MemoryTrim {
    /// Further spawns within this time would need the memory again.
    const DELAY_MS: u64 = 1_000;

    /// Call at every spawn; returns when to trim.
    pub(super) fn schedule(&mut self, now: u64) -> u64 {
        *self.due_at.insert(now + Self::DELAY_MS)
    }

    pub(super) fn trim_if_due(&mut self, now: u64) {
        if self.due_at.take_if(|at| *at <= now).is_some() {
            #[cfg(target_env = "gnu")]
            // SAFETY: takes the allocator's own locks and touches only memory that is free.
            unsafe {
                libc::malloc_trim(0)
            };
        }
    }
}
