//! From a `Spawn` to a running process, or to the reason why there is none.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Signal;

use super::Holder;
use super::brief::Untold;
use super::command::Asker;
use super::event::Source;
use super::process::Process;
use super::server::Note;
use super::signals::signal;
use crate::clock;
use crate::log::{LogWriter, Stream};
use crate::spawn::{self, Launch};
use crate::tree::{self, Root, cgroup};
use crate::wire::{Spawn, SpawnFailed, SpawnStage};

/// A child that has not reached its exec by then is given up (a dead mount, usually).
const STUCK_MS: u64 = 1000;

/// A process whose program has not been executed yet, as far as we know.
pub(super) struct Launching {
    launch: Launch,
    asker: Asker,
    generation: u32,
    started_at_ms: u64,
    gate: GateWatch,
    /// Recorded once its gate has closed; of an unwatched one they are recorded from the start.
    streams: Vec<(OwnedFd, Stream)>,
    input: Option<OwnedFd>,
    time_limit_at: u64,
}

/// How we hear that the program was executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GateWatch {
    /// The poll set tells; after this moment the child is stuck.
    Watched { stuck_at: u64 },
    /// Not at all, until it ends or is told: only of an untold one.
    Unwatched,
}

impl Launching {
    /// By which its tree is found where marks cannot be set.
    fn environ_id(&self) -> String {
        String::from_utf8_lossy(self.launch.variable(tree::ENVIRON_VARIABLE).unwrap_or_default()).into_owned()
    }

    /// The moment at which it is given up.
    pub(super) fn stuck_at(&self) -> Option<u64> {
        match self.gate {
            GateWatch::Watched { stuck_at } => Some(stuck_at),
            GateWatch::Unwatched => None,
        }
    }
}

/// What has become of a child whose gate has closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    Runs,
    /// And is nobody's number any more.
    Reaped,
}

fn confine(path: &std::path::Path, spawn: &Spawn) -> Result<(), (SpawnStage, i32)> {
    let allowed = cgroup::Allowance {
        memory_bytes: spawn.memory_bytes,
        processes: spawn.tree_processes,
        milli_cpus: spawn.milli_cpus,
    };
    cgroup::limit(path, allowed)
        .map_err(|error| (SpawnStage::Confine, error.raw_os_error().unwrap_or(libc::EOPNOTSUPP)))
}

impl Holder {
    pub(super) fn spawn(&mut self, epoch: u32, spawn: Spawn) {
        let (request, key) = (spawn.request, spawn.key);
        if let Some(process) = self.processes.get(&key)
            && !process.is_launching()
            && process.generation == spawn.generation
        {
            // The same request again, from a server that does not know how the first one ended.
            self.note_to(epoch, Note::Spawned { request, key });
            return;
        }
        if let Err((stage, errno)) = self.try_spawn(epoch, spawn) {
            self.note_to(epoch, Note::SpawnFailed(SpawnFailed { request, key, stage, errno }));
        }
    }

    fn try_spawn(&mut self, epoch: u32, spawn: Spawn) -> Result<(), (SpawnStage, i32)> {
        let prepare = |errno: Errno| (SpawnStage::Prepare, errno.raw_os_error());
        let failed = |error: std::io::Error| (SpawnStage::Prepare, error.raw_os_error().unwrap_or(libc::EIO));
        let key = spawn.key;
        let restart = match self.processes.get(&key) {
            None => false,
            Some(old) if old.pid == 0 && !old.is_launching() && old.generation + 1 == spawn.generation => true,
            Some(_) => return Err((SpawnStage::Refused, libc::EEXIST)),
        };
        if self.stopping.is_some() {
            return Err((SpawnStage::Refused, libc::ESHUTDOWN));
        }
        let ends = spawn::prepare(&spawn.io, spawn.identity.as_ref()).map_err(prepare)?;
        if !restart {
            let reserve = spawn::reserve(&spawn.io);
            let log = match self.spare_log.take(spawn.log_budget, reserve, spawn.log_beginning()) {
                Some(log) => log,
                None => LogWriter::create(spawn.log_budget, reserve, spawn.log_beginning()).map_err(failed)?,
            };
            if spawn.reader_comes {
                log.expect_reader(epoch);
            }
            self.processes.insert(key, Process::new(key, log));
        }
        let cgroup = if spawn.wants_cgroup || spawn.is_confined() { self.cgroup_for(key) } else { None };
        let procs = cgroup.as_deref().and_then(|path| cgroup::procs_fd(path).ok());
        let confined = match (&cgroup, &procs) {
            _ if !spawn.is_confined() => Ok(()),
            (Some(path), Some(_)) => confine(path, &spawn),
            _ => Err((SpawnStage::Confine, libc::EOPNOTSUPP)),
        };
        let launched = confined.and_then(|()| {
            spawn::launch(&spawn, ends.program.borrow(), procs.as_ref().map(AsFd::as_fd), &self.inherited, true)
        });
        // Of an untold one nobody has to hear that its program was executed, unless something must be done to it then.
        let untold = spawn.brief && self.is_serving(epoch);
        let gate = if untold && self.inherited.oom_score.is_none() {
            GateWatch::Unwatched
        } else {
            GateWatch::Watched { stuck_at: clock::boot_ms() + STUCK_MS }
        };
        let launched = launched.and_then(|launch| match self.watch(&launch, gate, key) {
            Ok(()) => Ok(launch),
            Err(errno) => {
                // Nobody would hold it.
                signal(launch.pid, Signal::KILL);
                Err(prepare(errno))
            }
        });
        let launch = match launched {
            Ok(launch) => launch,
            Err(error) => {
                if let Some(path) = cgroup {
                    self.remove_cgroup(path);
                }
                if !restart {
                    self.processes.remove(&key);
                }
                return Err(error);
            }
        };
        self.pids.insert(launch.pid, key);
        let asker = Asker { epoch, request: spawn.request };
        let (streams, later) = match gate {
            GateWatch::Unwatched => (ends.streams, Vec::new()),
            GateWatch::Watched { .. } => (Vec::new(), ends.streams),
        };
        if let Some(process) = self.processes.get_mut(&key) {
            // Without a new one the old one stays: something of the generation before still lives in it.
            process.cgroup = cgroup.or(process.cgroup.take());
            // A `Forget` that still waits was meant for the generation before.
            process.forget = false;
            process.untold = untold.then(|| Untold::new(asker, spawn.time_limit_at, ends.program));
            process.launching = Some(Launching {
                launch,
                asker,
                generation: spawn.generation,
                started_at_ms: clock::wall_ms(),
                gate,
                streams: later,
                input: ends.input,
                time_limit_at: spawn.time_limit_at,
            });
        }
        for (fd, stream) in streams {
            self.add_stream(key, fd, stream);
        }
        self.rearm(key);
        self.timers.arm_housekeeping(self.give_back.later(clock::boot_ms()));
        Ok(())
    }

    fn watch(&self, launch: &Launch, gate: GateWatch, key: u64) -> Result<(), Errno> {
        match gate {
            GateWatch::Watched { .. } => self.poll.add(launch.gate(), Source::Gate { key }),
            GateWatch::Unwatched => Ok(()),
        }
    }

    /// From now on the gate is watched, unless it has closed.
    pub(super) fn watch_gate(&mut self, key: u64) {
        let process = self.processes.get_mut(&key);
        let Some(launching) = process.and_then(|process| process.launching.as_mut()) else { return };
        if launching.gate != GateWatch::Unwatched {
            return;
        }
        if launching.launch.has_left() {
            self.launched(key, Child::Runs);
            return;
        }
        launching.gate = GateWatch::Watched { stuck_at: clock::boot_ms() + STUCK_MS };
        if self.poll.add(launching.launch.gate(), Source::Gate { key }).is_err() {
            self.give_up_launch(key);
        }
    }

    /// The child has executed its program, or failed to.
    pub(super) fn launched(&mut self, key: u64, child: Child) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        // Out of the poll set with its last descriptor, at the end of this.
        let Some(launching) = process.launching.take() else { return };
        if let Err((stage, errno)) = launching.launch.outcome() {
            let note = SpawnFailed { request: launching.asker.request, key, stage, errno };
            self.drop_launch(key, launching.launch.pid);
            self.note_to(launching.asker.epoch, Note::SpawnFailed(note));
            self.hand_over_launched(key);
            return;
        }
        if child == Child::Runs {
            // Not before: until its exec it shares our memory, and the kernel would change our own score with it.
            self.inherited.restore_oom_score(launching.launch.pid);
        }
        process.pid = launching.launch.pid;
        process.last_pid = process.pid;
        process.generation = launching.generation;
        process.started_at_ms = launching.started_at_ms;
        process.time_limit_at = launching.time_limit_at;
        process.kill_at = 0;
        process.detach_at = 0;
        process.cause = None;
        process.unmarked = match child {
            Child::Runs if tree::mark::key_of(process.pid) == Some(key) => None,
            Child::Runs => Some(Root::of(process.pid, key, &launching.environ_id())),
            // Whether it had its mark can no longer be asked.
            Child::Reaped => Some(Root { environ_id: Some(launching.environ_id()), ..Root::marked(key) }),
        };
        process.input = launching.input;
        process.log.begin_generation(launching.generation);
        for (fd, stream) in launching.streams {
            self.add_stream(key, fd, stream);
        }
        if self.processes.get(&key).is_some_and(|process| process.untold.is_none()) {
            self.say_spawned(key, launching.asker);
        }
        self.rearm(key);
        self.hand_over_launched(key);
    }

    /// Stuck before its exec: answer now; if it ever gets there, it is killed at once.
    pub(super) fn give_up_launch(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(launching) = process.launching.take() else { return };
        self.poll.remove(launching.launch.gate());
        let pid = launching.launch.pid;
        // SIGKILL waits for it at the end of whatever it hangs in.
        signal(pid, Signal::KILL);
        let Asker { epoch, request } = launching.asker;
        let note = SpawnFailed { request, key, stage: SpawnStage::Stuck, errno: libc::ETIMEDOUT };
        self.drop_launch(key, pid);
        self.note_to(epoch, Note::SpawnFailed(note));
        self.hand_over_launched(key);
    }

    fn drop_launch(&mut self, key: u64, pid: i32) {
        self.pids.remove(&pid);
        let is_new = self.processes.get(&key).is_some_and(|process| process.generation == 0);
        if is_new {
            self.remove(key);
        }
    }
}
