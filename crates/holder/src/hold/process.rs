//! One held process: its streams, its log, its deadlines, and the way from launch to exit.
//!
//! ```text
//!  spawn ─▶ launching ─gate closed─▶ running ─reaped, drained─▶ exited ─forget─▶ gone
//!              │ failed / stuck > 1 s                             │ spawn with the next generation
//!              └─▶ gone (or exited again, if it was a restart)    └─▶ launching
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use super::Holder;
use super::command::{Asker, Errand};
use super::event::Source;
use super::server::Note;
use crate::clock;
use crate::log::{Cause, LogWriter, Recorded, Stream};
use crate::spawn::{self, Launch};
use crate::tree::killer::{Action, Job};
use crate::tree::{self, Root};
use crate::wire::{Held, Spawn, SpawnFailed, SpawnStage, Spawned};

/// A child that has not reached its exec by then is given up (a dead mount, usually).
const STUCK_MS: u64 = 1000;
/// What the drain of a terminal takes at most; more than its kernel buffers hold.
const TERMINAL_DRAIN_BYTES: usize = 64 * 1024;

pub(super) struct Process {
    pub(super) key: u64,
    pub(super) generation: u32,
    /// 0 when there is no running command.
    pub(super) pid: i32,
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
    launching: Option<Launching>,
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

struct Launching {
    launch: Launch,
    asker: Asker,
    generation: u32,
    stuck_at: u64,
    streams: Vec<(OwnedFd, Stream)>,
    input: Option<OwnedFd>,
    time_limit_at: u64,
    /// What the program finds in OUTLIVE_PROCESS_ID.
    id: String,
}

impl Process {
    pub(super) fn new(key: u64, log: LogWriter) -> Self {
        Self {
            key,
            generation: 0,
            pid: 0,
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
            unmarked: None,
            forget: false,
        }
    }

    pub(super) fn is_launching(&self) -> bool {
        self.launching.is_some()
    }

    pub(super) fn launch_is_stuck(&self, now: u64) -> bool {
        self.launching.as_ref().is_some_and(|launching| now >= launching.stuck_at)
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
        let stuck = self.launching.as_ref().map_or(0, |launching| launching.stuck_at);
        let blocked = if self.streams.iter().any(|end| end.blocked) { self.log.due().unwrap_or(0) } else { 0 };
        let (limit, detach) = if self.pid == 0 { (0, 0) } else { (self.time_limit_at, self.detach_at) };
        [stuck, blocked, self.kill_at, limit, detach].into_iter().filter(|at| *at != 0).collect()
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
        }
    }
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
        let ends = spawn::prepare(&spawn.io, spawn.identity.as_ref()).map_err(prepare)?;
        if !restart {
            let reserve = spawn::reserve(&spawn.io);
            let log = LogWriter::create(spawn.log_budget, reserve, spawn.log_beginning()).map_err(failed)?;
            self.processes.insert(key, Process::new(key, log));
        }
        let cgroup = self.cgroup_for(key);
        let procs = cgroup.as_deref().and_then(|path| crate::tree::cgroup::procs_fd(path).ok());
        let launched = spawn::launch(&spawn, &ends.program, procs.as_ref().map(AsFd::as_fd), &self.inherited, true)
            .and_then(|launch| match self.poll.add(launch.gate(), Source::Gate { key }) {
                Ok(()) => Ok(launch),
                Err(errno) => {
                    // Nobody would hold it.
                    kill(launch.pid);
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
        let stuck_at = clock::boot_ms() + STUCK_MS;
        self.timers.arm(stuck_at, key);
        if let Some(process) = self.processes.get_mut(&key) {
            // Without a new one the old one stays: something of the generation before still lives in it.
            process.cgroup = cgroup.or(process.cgroup.take());
            // A `Forget` that still waits was meant for the generation before.
            process.forget = false;
            process.launching = Some(Launching {
                launch,
                asker: Asker { epoch, request: spawn.request },
                generation: spawn.generation,
                stuck_at,
                streams: ends.streams,
                input: ends.input,
                time_limit_at: spawn.time_limit_at,
                id: id_of(&spawn),
            });
        }
        Ok(())
    }

    /// The child has executed its program, or failed to.
    pub(super) fn gate_closed(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(launching) = process.launching.take() else { return };
        self.poll.remove(launching.launch.gate());
        if let Err((stage, errno)) = launching.launch.outcome() {
            let note = SpawnFailed { request: launching.asker.request, key, stage, errno };
            self.drop_launch(key, launching.launch.pid);
            self.note_to(launching.asker.epoch, Note::SpawnFailed(note));
            self.hand_over_launched(key);
            return;
        }
        process.pid = launching.launch.pid;
        process.generation = launching.generation;
        process.started_at_ms = clock::wall_ms();
        process.time_limit_at = launching.time_limit_at;
        process.kill_at = 0;
        process.detach_at = 0;
        process.cause = None;
        process.input = launching.input;
        let marked = tree::mark::key_of(process.pid) == Some(key);
        process.unmarked = (!marked).then(|| Root::of(process.pid, key, &launching.id));
        process.log.begin_generation(launching.generation);
        for (fd, stream) in launching.streams {
            self.add_stream(key, fd, stream);
        }
        self.rearm(key);
        self.note_to(launching.asker.epoch, Note::Spawned { request: launching.asker.request, key });
        self.hand_over_launched(key);
    }

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

    /// Stuck before its exec: answer now; if it ever gets there, it is killed at once.
    pub(super) fn give_up_launch(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(launching) = process.launching.take() else { return };
        self.poll.remove(launching.launch.gate());
        let pid = launching.launch.pid;
        // SIGKILL waits for it at the end of whatever it hangs in.
        kill(pid);
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
                self.poll.remove(fd);
                end.fd = None;
                end.blocked = false;
                process.count_streams();
            }
        }
        // A full ring wakes even the readers that sleep until the exit: they hold it.
        if process.log.take_waiting() || blocked {
            self.wake(key);
        }
    }

    /// A reader moved its hold.
    pub(super) fn resume_streams(&mut self, key: u64) {
        let blocked = self.processes.get(&key).map(Process::blocked_streams).unwrap_or_default();
        for index in blocked {
            self.record(key, index);
        }
    }

    /// A command ended: take what it had written, then say so.
    pub(super) fn exited(&mut self, key: u64, status: Result<u8, u8>) {
        self.gate_closed(key);
        let oom = status == Err(9) && self.was_out_of_memory(key);
        let Some(process) = self.processes.get_mut(&key) else { return };
        if process.pid == 0 {
            return;
        }
        for end in &mut process.streams {
            let Some(fd) = &end.fd else { continue };
            let waiting = match end.stream {
                Stream::Terminal => TERMINAL_DRAIN_BYTES,
                _ => rustix::io::ioctl_fionread(fd).unwrap_or(0) as usize,
            };
            let ended = waiting > 0 && process.log.drain(fd.as_fd(), end.stream, waiting) == Recorded::Ended;
            if ended {
                self.poll.remove(fd);
                end.fd = None;
                end.blocked = false;
            }
        }
        let cause = match process.cause {
            Some(cause) => cause,
            None if oom => Cause::OutOfMemory,
            None => Cause::Itself,
        };
        process.count_streams();
        process.log.set_exit(status, cause, clock::wall_ms());
        process.log.take_waiting();
        process.pid = 0;
        process.input = None;
        self.rearm(key);
        self.wake(key);
        self.forget_if_over(key);
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
            pid: process.pid as u32,
            started_at_ms: process.started_at_ms,
            has_input: process.input.is_some(),
        })
    }

    pub(super) fn remove(&mut self, key: u64) {
        let Some(process) = self.processes.remove(&key) else { return };
        self.timers.disarm(key);
        for fd in process.streams.iter().filter_map(|end| end.fd.as_ref()) {
            self.poll.remove(fd);
        }
        if let Some(path) = process.cgroup {
            self.remove_cgroup(path);
        }
    }
}

/// Only for a child that has not been reaped.
fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn id_of(spawn: &Spawn) -> String {
    let prefix = format!("{}=", tree::ENVIRON_VARIABLE).into_bytes();
    let entry = spawn.environment.iter().find_map(|entry| entry.strip_prefix(prefix.as_slice()));
    String::from_utf8_lossy(entry.unwrap_or_default()).into_owned()
}
