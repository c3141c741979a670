//! What servers ask for.

use std::os::fd::OwnedFd;

use super::Holder;
use super::process::Process;
use super::server::{Note, Phase};
use super::timer::armable;
use crate::log::{Cause, LogWriter, Stream};
use crate::tree::killer::Action;
use crate::wire::{Arm, Done, End, Record, ToHolder};
use crate::{clock, wire};

/// More kept descriptors than any server has reason for.
const MAX_KEPT: usize = 4096;

impl Holder {
    pub(super) fn obey(&mut self, epoch: u32, message: ToHolder, descriptors: Vec<OwnedFd>) {
        let Some(phase) = self.server(epoch).map(|server| server.phase.clone()) else { return };
        match message {
            ToHolder::Hello(protocol) => self.greet(epoch, protocol),
            ToHolder::Ready(()) => self.server_is_ready(epoch),
            ToHolder::Ack(()) => self.hand_over_next(epoch),
            ToHolder::Retired(()) => self.server_retired(epoch),
            // A server that finishes its last answers may still have readers that hold logs.
            ToHolder::Resume(key) => self.resume_streams(key),
            command if phase == Phase::Serving => self.act(command, descriptors),
            // An older epoch has no say any more.
            _ => {}
        }
    }

    fn act(&mut self, command: ToHolder, mut descriptors: Vec<OwnedFd>) {
        match command {
            ToHolder::Spawn(spawn) => self.spawn(spawn),
            ToHolder::Signal(signal) => {
                let action = Action::Signal(i32::from(signal.signal));
                self.answer_or(signal.key, signal.request, |holder| {
                    holder.signal_tree(signal.key, action, Some(signal.request));
                });
            }
            ToHolder::End(end) => self.answer_or(end.key, end.request, |holder| holder.end(&end)),
            ToHolder::Arm(arm) => self.arm(&arm),
            ToHolder::CloseInput(key) => {
                if let Some(process) = self.processes.get_mut(&key) {
                    process.input = None;
                }
            }
            ToHolder::Forget(key) => self.forget(key),
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
                    self.record_also(&record, fd);
                }
            }
            ToHolder::Upgrade(()) => self.begin_upgrade(),
            ToHolder::Shutdown(()) => self.begin_shutdown(),
            _ => {}
        }
    }

    /// A command for a process that is not here is done already.
    fn answer_or(&mut self, key: u64, request: u32, act: impl FnOnce(&mut Self)) {
        if self.processes.contains_key(&key) {
            act(self);
        } else {
            self.note(Note::Done(Done { request, key, signalled: 0, survivors: 0 }));
        }
    }

    fn end(&mut self, end: &End) {
        let Some(process) = self.processes.get_mut(&end.key) else { return };
        let at_once = end.signal == 0 || i32::from(end.signal) == libc::SIGKILL || end.kill_at <= clock::boot_ms();
        if at_once {
            // A kill hastens a stop; the reason that people see is the later, harder one.
            process.cause = Some(end.cause());
            self.kill_tree(end.key, end.cause(), Some(end.request));
            return;
        }
        process.cause.get_or_insert(end.cause());
        process.kill_at = if process.kill_at == 0 { end.kill_at } else { process.kill_at.min(end.kill_at) };
        self.timers.arm(end.kill_at, end.key);
        self.signal_tree(end.key, Action::Signal(i32::from(end.signal)), Some(end.request));
    }

    fn arm(&mut self, arm: &Arm) {
        let Some(process) = self.processes.get_mut(&arm.key) else { return };
        match armable(arm.cause) {
            Some(Cause::TimedOut) => process.time_limit_at = arm.at,
            Some(Cause::Detached) => process.detach_at = arm.at,
            _ => return,
        }
        self.timers.arm(arm.at, arm.key);
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

    fn record_also(&mut self, record: &Record, fd: OwnedFd) {
        let Some(stream) = Stream::from_u8(record.stream) else { return };
        if !self.processes.contains_key(&record.key) {
            let Ok(log) = LogWriter::create(record.log_budget, wire_reserve()) else { return };
            let mut sink = Process::new(record.key, log);
            sink.generation = 1;
            self.processes.insert(record.key, sink);
        }
        self.add_stream(record.key, fd, stream);
    }

    pub(super) fn killer_finished(&mut self) {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.killer_news, &mut counter);
        for done in self.killer.take_done() {
            self.jobs.remove(&done.ticket);
            let (key, request) = split(done.ticket);
            if key == super::shutdown::EVERYTHING {
                self.everything_signalled();
                continue;
            }
            if let Some(request) = request {
                let (signalled, survivors) = (done.signalled, done.survivors);
                self.note(Note::Done(Done { request, key, signalled, survivors }));
            }
            self.forget_if_over(key);
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
    crate::spawn::reserve(&wire::Io { cols: 0, rows: 0, stdin: false })
}

/// Key and request of a job in one number; requests are answered with the low 23 bits that servers use.
pub(super) fn ticket(key: u64, request: Option<u32>) -> u64 {
    key | request.map_or(0, |request| 1 << 63 | u64::from(request & REQUEST_MASK) << super::event::KEY_BITS)
}

fn split(ticket: u64) -> (u64, Option<u32>) {
    let key = ticket & ((1 << super::event::KEY_BITS) - 1);
    let request = (ticket >> super::event::KEY_BITS) as u32 & REQUEST_MASK;
    (key, (ticket >> 63 == 1).then_some(request))
}

/// Request numbers of signals and ends have at most 23 bits.
pub const REQUEST_MASK: u32 = (1 << 23) - 1;
