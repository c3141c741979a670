//! Executes the commands of the serving server, and submits tree signals to the killer thread.
//!
//! The steps of a hand-over arrive as messages too, but belong to `hand_over`. Commands of a server that does not serve
//! are ignored, unless it is retiring and has not sent `Retired` yet. `Resume` is never ignored: it only lets a program
//! go on that waits for a reader.

use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::Pid;

use super::Holder;
use super::process::{EmptyPipes, Process};
use super::server::Phase;
use crate::log::{Cause, LogStart, LogWriter, Stream};
use crate::tree::TreeRoot;
use crate::tree::killer::{Action, Job};
use crate::wire::{
    Completion, FinishSink, SetDeadline, SignalTarget, SinkStream, SpawnFailed, SpawnStage, Terminate, ToHolder,
    ToServer,
};
use crate::{clock, wire};

/// Far more stored descriptors than a server needs.
const MAX_STORED_FDS: usize = 4096;

/// The server and request that a reply belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTo {
    pub(super) epoch: u32,
    pub(super) request: u32,
}

/// A job of the killer, a kill or another signal, that is not finished.
pub(super) struct PendingKill {
    pub(super) key: u64,
    pub(super) reply_to: Option<ReplyTo>,
}

impl Holder {
    pub(super) fn on_server_message(&mut self, epoch: u32, message: ToHolder, descriptors: Vec<OwnedFd>) {
        let Some(phase) = self.server(epoch).map(|server| server.phase.clone()) else { return };
        match message {
            ToHolder::Hello(protocol) => self.on_hello(epoch, protocol),
            ToHolder::Ready(()) => self.on_ready(epoch),
            ToHolder::Ack(()) => self.hand_over_next(epoch),
            ToHolder::Retired(()) => self.on_retired(epoch),
            ToHolder::Serving(()) => self.on_serving(epoch),
            // A retired server that finishes its responses may still have readers with leases.
            ToHolder::Resume(key) => self.resume_streams(key),
            command if matches!(phase, Phase::Serving | Phase::Retiring { stopped_writing: false, .. }) => {
                self.execute(epoch, command, descriptors);
            }
            _ => {}
        }
    }

    fn execute(&mut self, epoch: u32, command: ToHolder, mut descriptors: Vec<OwnedFd>) {
        match command {
            ToHolder::Spawn(spawn) => self.spawn(epoch, spawn),
            ToHolder::Signal(signal) => self.signal(&signal, ReplyTo { epoch, request: signal.request }),
            ToHolder::Terminate(terminate) => {
                self.terminate(&terminate, ReplyTo { epoch, request: terminate.request });
            }
            ToHolder::SetDeadline(deadline) => self.set_deadline(&deadline),
            ToHolder::CloseInput(key) => {
                if let Some(process) = self.processes.get_mut(&key) {
                    process.input = None;
                }
            }
            ToHolder::Forget(key) => {
                self.forget(key);
                self.spare_log.refill();
            }
            ToHolder::StoreFd(name) => {
                if self.fd_store.len() < MAX_STORED_FDS
                    && let Some(fd) = descriptors.pop()
                {
                    self.fd_store.insert(name, fd);
                }
            }
            ToHolder::RemoveFd(name) => {
                self.fd_store.remove(&name);
            }
            ToHolder::SinkStream(sink_stream) => {
                if let Some(fd) = descriptors.pop() {
                    self.add_sink_stream(epoch, &sink_stream, fd);
                }
            }
            ToHolder::FinishSink(finish) => {
                self.finish_sink(&finish, ReplyTo { epoch, request: finish.request });
            }
            ToHolder::Upgrade(()) => self.start_upgrade(),
            _ => {}
        }
    }

    fn terminate(&mut self, terminate: &Terminate, reply_to: ReplyTo) {
        let key = terminate.key;
        let Some(process) = self.processes.get_mut(&key) else {
            // Nothing under this key could hold the deadline for a later KILL, so any signal becomes a KILL.
            self.signal_tree(key, Action::Kill, Some(reply_to));
            return;
        };
        let signal = i32::from(terminate.signal);
        if signal == 0 || signal == libc::SIGKILL || terminate.kill_at <= clock::boot_ms() {
            // A kill overrides the stop before it, including the cause that users see.
            process.cause = Some(terminate.cause());
            self.kill_tree(key, terminate.cause(), Some(reply_to));
            return;
        }
        process.cause.get_or_insert(terminate.cause());
        process.kill_at = if process.kill_at == 0 { terminate.kill_at } else { process.kill_at.min(terminate.kill_at) };
        self.timers.arm(terminate.kill_at, key);
        self.signal_tree(key, Action::Signal(signal), Some(reply_to));
    }

    /// Kills a tree now. No later deadline has to do it.
    pub(super) fn kill_tree(&mut self, key: u64, cause: Cause, reply_to: Option<ReplyTo>) {
        self.signal_tree(key, Action::Kill, reply_to);
        if let Some(process) = self.processes.get_mut(&key) {
            process.kill_at = 0;
            process.cause.get_or_insert(cause);
        }
    }

    /// Works even for a forgotten process: its key identifies the tree tag.
    fn signal_tree(&mut self, key: u64, action: Action, reply_to: Option<ReplyTo>) {
        let process = self.processes.get(&key);
        let root = process.map_or_else(|| TreeRoot::from_key(key), Process::root);
        let cgroup = process.and_then(|process| process.cgroup.clone());
        self.submit_job(PendingKill { key, reply_to }, root, cgroup, action);
    }

    /// Hands a job to the killer thread; `on_jobs_done` continues when it is finished.
    pub(super) fn submit_job(&mut self, pending: PendingKill, root: TreeRoot, cgroup: Option<PathBuf>, action: Action) {
        self.last_job_id += 1;
        self.pending_kills.insert(self.last_job_id, pending);
        self.killer.submit(Job { id: self.last_job_id, root, cgroup, action });
    }

    pub(super) fn on_jobs_done(&mut self) {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.killer_eventfd, &mut counter);
        for result in self.killer.take_results() {
            let Some(PendingKill { key, reply_to }) = self.pending_kills.remove(&result.id) else { continue };
            if key == super::shutdown::ALL_DESCENDANTS {
                self.on_all_signalled();
                continue;
            }
            if let Some(ReplyTo { epoch, request }) = reply_to {
                let (signalled, survivors) = (result.signalled, result.survivors);
                self.queue(epoch, ToServer::Completion(Completion { request, key, signalled, survivors }));
            }
            self.retry_forget(key);
        }
    }

    fn signal(&mut self, signal: &wire::Signal, reply_to: ReplyTo) {
        match signal.target() {
            SignalTarget::Tree => {
                self.signal_tree(signal.key, Action::Signal(i32::from(signal.signal)), Some(reply_to));
            }
            target => self.signal_command(signal, target, reply_to),
        }
    }

    /// Signals the command or its group by pid. The command is our child and not reaped, so the pid is not reused.
    fn signal_command(&mut self, signal: &wire::Signal, target: SignalTarget, reply_to: ReplyTo) {
        let key = signal.key;
        let pid = self.processes.get(&key).and_then(|process| Pid::from_raw(process.pid));
        let number = rustix::process::Signal::from_named_raw(i32::from(signal.signal));
        let sent = match (pid, number) {
            (Some(pid), Some(number)) if target == SignalTarget::Group => {
                rustix::process::kill_process_group(pid, number).is_ok()
            }
            (Some(pid), Some(number)) => rustix::process::kill_process(pid, number).is_ok(),
            _ => false,
        };
        self.queue_completion(reply_to, key, u32::from(sent));
    }

    fn queue_completion(&mut self, reply_to: ReplyTo, key: u64, signalled: u32) {
        let completion = Completion { request: reply_to.request, key, signalled, survivors: 0 };
        self.queue(reply_to.epoch, ToServer::Completion(completion));
    }

    fn set_deadline(&mut self, deadline: &SetDeadline) {
        let Some(process) = self.processes.get_mut(&deadline.key) else { return };
        match Cause::from_u8(deadline.cause) {
            Some(Cause::TimedOut) => process.time_limit_at = deadline.at,
            Some(Cause::Detached) => process.detach_at = deadline.at,
            _ => return,
        }
        self.rearm(deadline.key);
    }

    fn forget(&mut self, key: u64) {
        match self.processes.get_mut(&key) {
            // Deferred: the command still runs, or the rest of its tree has yet to be killed.
            Some(process) if process.kill_at != 0 || process.pid != 0 || process.is_launching() => {
                process.forget_requested = true;
            }
            _ => self.remove(key),
        }
    }

    /// Executes a `Forget` that was deferred.
    pub(super) fn retry_forget(&mut self, key: u64) {
        if self.processes.get(&key).is_some_and(|process| process.forget_requested) {
            self.forget(key);
        }
    }

    /// Records a descriptor of the server into the log of a sink: a process without a program. The first descriptor
    /// creates the sink.
    fn add_sink_stream(&mut self, epoch: u32, sink_stream: &SinkStream, fd: OwnedFd) {
        let (request, key) = (sink_stream.request, sink_stream.key);
        match self.try_add_sink_stream(sink_stream, fd) {
            _ if request == 0 => {}
            Ok(()) => self.queue_spawned(ReplyTo { epoch, request }, key),
            Err(errno) => {
                let failed = SpawnFailed { request, key, stage: SpawnStage::Prepare, errno };
                self.queue(epoch, ToServer::SpawnFailed(failed));
            }
        }
    }

    fn try_add_sink_stream(&mut self, sink_stream: &SinkStream, fd: OwnedFd) -> Result<(), i32> {
        let stream = Stream::from_u8(sink_stream.stream).ok_or(libc::EINVAL)?;
        if let Entry::Vacant(vacant) = self.processes.entry(sink_stream.key) {
            let pipes = wire::Io { cols: 0, rows: 0, stdin: false, merged: false };
            let reserve = crate::spawn::drain_reserve(&pipes);
            let log = LogWriter::create(sink_stream.log_budget, reserve, LogStart::default());
            let log = log.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
            let sink = vacant.insert(Process::new(sink_stream.key, log));
            sink.generation = 1;
            sink.started_at_ms = clock::wall_ms();
        }
        self.add_stream(sink_stream.key, fd, stream);
        Ok(())
    }

    /// Reads what the pipes of a sink still contain (a bounded amount) into its log, then writes the exit behind it.
    fn finish_sink(&mut self, finish: &FinishSink, reply_to: ReplyTo) {
        let key = finish.key;
        let is_open_sink = |process: &Process| process.pid == 0 && !process.is_launching() && !process.log.has_exit();
        if self.processes.get(&key).is_some_and(is_open_sink) {
            // A named pipe that the command never opened has no writer, and no event would ever close it.
            self.drain_streams(key, EmptyPipes::Read);
            if let Some(process) = self.processes.get(&key) {
                let status = if finish.signal == 0 { Ok(finish.code) } else { Err(finish.signal) };
                let cause = Cause::from_u8(finish.cause).unwrap_or(Cause::SelfExit);
                process.log.set_exit(status, cause, clock::wall_ms());
                // Cleared, because the wake below satisfies it.
                process.log.take_wakeup_request();
            }
            self.wake(key);
        }
        self.queue_completion(reply_to, key, 0);
    }
}
