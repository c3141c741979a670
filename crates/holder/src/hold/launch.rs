//! From a `Spawn` to a running process, or to the reason why there is none.

use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Signal;

use super::Holder;
use super::brief::UNTOLD_MS;
use super::command::Asker;
use super::event::Source;
use super::process::Process;
use super::server::Note;
use super::signals::signal;
use crate::clock;
use crate::log::{LogWriter, Stream};
use crate::spawn::{self, Ends, Launch, ProgramEnds};
use crate::tree::{self, Root, cgroup};
use crate::wire::{Spawn, SpawnFailed, SpawnStage};

/// A child that has not reached its exec by then is given up (a dead mount, usually).
const STUCK_MS: u64 = 1000;

/// A process whose program has not been executed yet.
pub(super) struct Launching {
    launch: Launch,
    asker: Asker,
    generation: u32,
    stuck_at: u64,
    /// Of a brief one whose gate is not watched: when to look whether it has closed.
    look_at: u64,
    /// Not recorded before its program can write to them, unless nobody hears of that.
    streams: Vec<(OwnedFd, Stream)>,
    input: Option<OwnedFd>,
    time_limit_at: u64,
    /// Of a brief one.
    program: Option<ProgramEnds>,
}

impl Launching {
    fn new(launch: Launch, asker: Asker, spawn: &Spawn, ends: Ends, unwatched: bool) -> Self {
        let now = clock::boot_ms();
        // Its time limit counts only from then on.
        let limit = if spawn.time_limit_at == 0 { u64::MAX } else { spawn.time_limit_at };
        Self {
            launch,
            asker,
            generation: spawn.generation,
            stuck_at: now + STUCK_MS,
            look_at: if unwatched { limit.min(now + UNTOLD_MS) } else { 0 },
            streams: ends.streams,
            input: ends.input,
            time_limit_at: spawn.time_limit_at,
            program: spawn.brief.then_some(ends.program),
        }
    }

    /// The next moment at which something must be done about it.
    pub(super) fn due(&self) -> u64 {
        if self.look_at == 0 { self.stuck_at } else { self.look_at }
    }

    pub(super) fn is_stuck(&self, now: u64) -> bool {
        self.look_at == 0 && now >= self.stuck_at
    }

    pub(super) fn is_to_be_looked_at(&self, now: u64) -> bool {
        self.look_at != 0 && now >= self.look_at
    }
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
        let prepare = |errno: rustix::io::Errno| (SpawnStage::Prepare, errno.raw_os_error());
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
        let mut ends = spawn::prepare(&spawn.io, spawn.identity.as_ref()).map_err(prepare)?;
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
        // Of a brief one nobody has to hear that its program was executed, unless something must be done to it then.
        let unwatched = spawn.brief && self.inherited.oom_score.is_none();
        let watched =
            |launch: &Launch| if unwatched { Ok(()) } else { self.poll.add(launch.gate(), Source::Gate { key }) };
        let launched = launched.and_then(|launch| match watched(&launch) {
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
        let streams = if unwatched { std::mem::take(&mut ends.streams) } else { Vec::new() };
        let launching = Launching::new(launch, Asker { epoch, request: spawn.request }, &spawn, ends, unwatched);
        self.timers.arm(launching.due(), key);
        if let Some(process) = self.processes.get_mut(&key) {
            // Without a new one the old one stays: something of the generation before still lives in it.
            process.cgroup = cgroup.or(process.cgroup.take());
            // A `Forget` that still waits was meant for the generation before.
            process.forget = false;
            process.launching = Some(launching);
        }
        for (fd, stream) in streams {
            self.add_stream(key, fd, stream);
        }
        Ok(())
    }

    /// A gate that was not watched: has it closed? From now on it is watched.
    pub(super) fn look_at_gate(&mut self, key: u64) {
        let Some(launching) = self.processes.get_mut(&key).and_then(|process| process.launching.as_mut()) else {
            return;
        };
        if launching.launch.has_left() {
            self.gate_closed(key);
            return;
        }
        if std::mem::take(&mut launching.look_at) != 0
            && self.poll.add(launching.launch.gate(), Source::Gate { key }).is_err()
        {
            self.give_up_launch(key);
        }
    }

    /// The child has executed its program, or failed to.
    pub(super) fn gate_closed(&mut self, key: u64) {
        self.launched(key, true);
    }

    /// As [`gate_closed`](Self::gate_closed), of one that has been reaped since if it does not run.
    pub(super) fn launched(&mut self, key: u64, runs: bool) {
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
        if runs {
            // Not before: until its exec it shares our memory, and the kernel would change our own score with it.
            self.inherited.restore_oom_score(launching.launch.pid);
        }
        process.pid = launching.launch.pid;
        process.last_pid = process.pid;
        process.generation = launching.generation;
        process.started_at_ms = clock::wall_ms();
        process.time_limit_at = launching.time_limit_at;
        process.kill_at = 0;
        process.detach_at = 0;
        process.cause = None;
        process.input = launching.input;
        // Of a brief one that is over nobody asks for the rest of its tree.
        let found = !runs && launching.program.is_some() || tree::mark::key_of(process.pid) == Some(key);
        process.unmarked = (!found).then(|| {
            let id = launching.launch.variable(tree::ENVIRON_VARIABLE).unwrap_or_default();
            Root::of(process.pid, key, &String::from_utf8_lossy(id))
        });
        process.log.begin_generation(launching.generation);
        for (fd, stream) in launching.streams {
            self.add_stream(key, fd, stream);
        }
        if let Some(program) = launching.program {
            self.begin_brief(key, launching.asker, program);
        } else {
            self.widen_pipes(key);
            self.note_to(launching.asker.epoch, Note::Spawned { request: launching.asker.request, key });
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
