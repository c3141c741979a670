//! What servers ask for.

use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use super::Holder;
use super::process::Process;
use super::server::{Note, Phase};
use super::timer::armable;
use crate::log::{Beginning, Cause, LogWriter, Stream};
use crate::tree::killer::Action;
use crate::wire::{Arm, Conclude, Done, End, Reach, Record, SpawnFailed, SpawnStage, ToHolder};
use crate::{clock, wire};

/// More kept descriptors than any server has reason for.
const MAX_KEPT: usize = 4096;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) epoch: u32,
    pub(super) request: u32,
}

/// Work that the killer has been given.
pub(super) struct Errand {
    pub(super) key: u64,
    pub(super) asker: Option<Asker>,
}

impl Holder {
    pub(super) fn obey(&mut self, epoch: u32, message: ToHolder, descriptors: Vec<OwnedFd>) {
        let Some(phase) = self.server(epoch).map(|server| server.phase.clone()) else { return };
        match message {
            ToHolder::Hello(protocol) => self.greet(epoch, protocol),
            ToHolder::Ready(()) => self.server_is_ready(epoch),
            ToHolder::Ack(()) => self.hand_over_next(epoch),
            ToHolder::Retired(()) => self.server_retired(epoch),
            ToHolder::Serving(()) => self.server_serves(epoch),
            // A server that finishes its last answers may still have readers that hold logs.
            ToHolder::Resume(key) => self.resume_streams(key),
            command if matches!(phase, Phase::Serving | Phase::Retiring { done: false, .. }) => {
                self.act(epoch, command, descriptors);
            }
            // An older epoch has no say any more.
            _ => {}
        }
    }

    fn act(&mut self, epoch: u32, command: ToHolder, mut descriptors: Vec<OwnedFd>) {
        match command {
            ToHolder::Spawn(spawn) => self.spawn(epoch, spawn),
            ToHolder::Signal(signal) => {
                let asker = Asker { epoch, request: signal.request };
                match signal.reach() {
                    Reach::Tree => {
                        self.signal_tree(signal.key, Action::Signal(i32::from(signal.signal)), Some(asker));
                    }
                    reach => self.signal_command(&signal, reach, asker),
                }
            }
            ToHolder::End(end) => self.end(&end, Asker { epoch, request: end.request }),
            ToHolder::Arm(arm) => self.arm(&arm),
            ToHolder::CloseInput(key) => {
                if let Some(process) = self.processes.get_mut(&key) {
                    process.input = None;
                }
            }
            ToHolder::Forget(key) => {
                self.forget(key);
                self.spare_log.make();
            }
            ToHolder::Keep(name) => {
                if self.kept.len() < MAX_KEPT
                    && let Some(fd) = descriptors.pop()
                {
                    self.kept.insert(name, fd);
                }
            }
            ToHolder::Drop(name) => {
                self.kept.remove(&name);
            }
            ToHolder::Record(record) => {
                if let Some(fd) = descriptors.pop() {
                    self.record_also(epoch, &record, fd);
                }
            }
            ToHolder::Conclude(conclude) => self.conclude(&conclude, Asker { epoch, request: conclude.request }),
            ToHolder::Upgrade(()) => self.begin_upgrade(),
            _ => {}
        }
    }

    fn end(&mut self, end: &End, asker: Asker) {
        let Some(process) = self.processes.get_mut(&end.key) else {
            self.signal_tree(end.key, Action::Kill, Some(asker));
            return;
        };
        let at_once = end.signal == 0 || i32::from(end.signal) == libc::SIGKILL || end.kill_at <= clock::boot_ms();
        if at_once {
            // A kill hastens a stop; the reason that people see is the later, harder one.
            process.cause = Some(end.cause());
            self.kill_tree(end.key, end.cause(), Some(asker));
            return;
        }
        process.cause.get_or_insert(end.cause());
        process.kill_at = if process.kill_at == 0 { end.kill_at } else { process.kill_at.min(end.kill_at) };
        self.timers.arm(end.kill_at, end.key);
        self.signal_tree(end.key, Action::Signal(i32::from(end.signal)), Some(asker));
    }

    fn arm(&mut self, arm: &Arm) {
        let Some(process) = self.processes.get_mut(&arm.key) else { return };
        match armable(arm.cause) {
            Some(Cause::TimedOut) => process.time_limit_at = arm.at,
            Some(Cause::Detached) => process.detach_at = arm.at,
            _ => return,
        }
        self.rearm(arm.key);
    }

    fn forget(&mut self, key: u64) {
        match self.processes.get_mut(&key) {
            // The rest of its tree is still to be killed, or its command has not ended: then.
            Some(process) if process.kill_at != 0 || process.pid != 0 || process.is_launching() => {
                process.forget = true;
            }
            _ => self.remove(key),
        }
    }

    /// Not the tree: the command, or its group. Our own child that has not been reaped, so the number is right.
    fn signal_command(&mut self, signal: &wire::Signal, reach: Reach, asker: Asker) {
        let key = signal.key;
        let pid = self.processes.get(&key).and_then(|process| Pid::from_raw(process.pid));
        let number = rustix::process::Signal::from_named_raw(i32::from(signal.signal));
        let sent = match (pid, number) {
            (Some(pid), Some(number)) if reach == Reach::Group => {
                rustix::process::kill_process_group(pid, number).is_ok()
            }
            (Some(pid), Some(number)) => rustix::process::kill_process(pid, number).is_ok(),
            _ => false,
        };
        let done = Done { request: asker.request, key, signalled: u32::from(sent), survivors: 0 };
        self.note_to(asker.epoch, Note::Done(done));
    }

    fn record_also(&mut self, epoch: u32, record: &Record, fd: OwnedFd) {
        let (request, key) = (record.request, record.key);
        let recorded = self.try_record(record, fd);
        match recorded {
            _ if request == 0 => {}
            Ok(()) => self.note_to(epoch, Note::Spawned { request, key }),
            Err(errno) => {
                let stage = SpawnStage::Prepare;
                self.note_to(epoch, Note::SpawnFailed(SpawnFailed { request, key, stage, errno }));
            }
        }
    }

    fn try_record(&mut self, record: &Record, fd: OwnedFd) -> Result<(), i32> {
        let stream = Stream::from_u8(record.stream).ok_or(libc::EINVAL)?;
        if let Entry::Vacant(vacant) = self.processes.entry(record.key) {
            let log = LogWriter::create(record.log_budget, wire_reserve(), Beginning::default());
            let log = log.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
            let sink = vacant.insert(Process::new(record.key, log));
            sink.generation = 1;
            sink.started_at_ms = clock::wall_ms();
        }
        self.add_stream(record.key, fd, stream);
        Ok(())
    }

    /// The end of something that has no process of its own.
    fn conclude(&mut self, conclude: &Conclude, asker: Asker) {
        let key = conclude.key;
        let is_sink = |process: &Process| process.pid == 0 && !process.is_launching() && !process.log.has_exit();
        if self.processes.get(&key).is_some_and(is_sink) {
            // A pipe with a name that nobody ever opened ends here too: reading it says "end of file".
            self.drain_streams(key, 1);
            if let Some(process) = self.processes.get(&key) {
                let status = if conclude.signal == 0 { Ok(conclude.code) } else { Err(conclude.signal) };
                let cause = Cause::from_u8(conclude.cause).unwrap_or(Cause::Itself);
                process.log.set_exit(status, cause, clock::wall_ms());
                process.log.take_waiting();
            }
            self.wake(key);
        }
        let done = Done { request: asker.request, key, signalled: 0, survivors: 0 };
        self.note_to(asker.epoch, Note::Done(done));
    }

    pub(super) fn killer_finished(&mut self) {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.killer_news, &mut counter);
        for done in self.killer.take_done() {
            let Some(job) = self.jobs.remove(&done.ticket) else { continue };
            if job.key == super::shutdown::EVERYTHING {
                self.everything_signalled();
                continue;
            }
            if let Some(Asker { epoch, request }) = job.asker {
                let (key, signalled, survivors) = (job.key, done.signalled, done.survivors);
                self.note_to(epoch, Note::Done(Done { request, key, signalled, survivors }));
            }
            self.forget_if_over(job.key);
        }
    }

    /// Carries out a `Forget` that had to wait.
    pub(super) fn forget_if_over(&mut self, key: u64) {
        if self.processes.get(&key).is_some_and(|process| process.forget) {
            self.forget(key);
        }
    }
}

fn wire_reserve() -> u64 {
    crate::spawn::reserve(&wire::Io { cols: 0, rows: 0, stdin: false, merged: false })
}
