//! From one server to the next: it is ready, the other one retires, everything is handed over, it serves.

use std::os::fd::AsFd;

use super::Holder;
use super::process::Process;
use super::say::say;
use super::server::{Note, Object, Phase, READY_MS};
use super::talk::beside;
use crate::clock;
use crate::wire::{self, ToServer};

/// A server that was asked to retire must have stopped writing by then.
const RETIRE_MS: u64 = 5_000;
/// How long a retired server may finish its answers.
const LINGER_MS: u64 = 30_000;
/// Each object must have been taken by then: a busy machine is slow, a server that hangs takes nothing.
const TAKE_OVER_MS: u64 = 5_000;

impl Holder {
    pub(super) fn greet(&mut self, epoch: u32, protocol: u32) {
        if protocol != wire::PROTOCOL {
            say(&format!("a server speaks protocol {protocol}, this holder {}", wire::PROTOCOL));
        }
        // The server is no more precious than a program; it has executed its own by now.
        if let Some(pid) = self.server(epoch).map(|server| server.pid) {
            self.inherited.restore_oom_score(pid);
        }
        let welcome = self.welcome(epoch);
        self.note_to(epoch, Note::Say(ToServer::Welcome(welcome)));
    }

    pub(super) fn server_is_ready(&mut self, epoch: u32) {
        let Some(server) = self.server(epoch) else { return };
        if !matches!(server.phase, Phase::Starting { .. }) {
            return;
        }
        let until = clock::boot_ms() + RETIRE_MS;
        // The other one is killed when its time is up, so this one never waits as long as that unless it hangs.
        let own_until = until + READY_MS;
        server.phase = Phase::Ready { until: own_until };
        server.launch = None;
        let mut retiring = Vec::new();
        for other in self.servers.iter_mut().filter(|other| other.phase == Phase::Serving) {
            other.phase = Phase::Retiring { done: false, until };
            retiring.push(other.epoch);
        }
        if !self.one_still_writes() {
            self.hand_over(epoch);
            return;
        }
        self.timers.arm_housekeeping(until);
        self.timers.arm_housekeeping(own_until);
        // Its answers do not wait for the ends of programs.
        self.tell_all();
        for other in retiring {
            self.note_to(other, Note::Say(ToServer::Retire(())));
        }
    }

    /// A retiring server has stopped writing: from here on the new one owns everything.
    pub(super) fn server_retired(&mut self, epoch: u32) {
        let until = clock::boot_ms() + LINGER_MS;
        self.timers.arm_housekeeping(until);
        if let Some(server) = self.server(epoch)
            && matches!(server.phase, Phase::Retiring { done: false, .. })
        {
            server.phase = Phase::Retiring { done: true, until };
            self.hand_over_to_ready();
        }
    }

    pub(super) fn hand_over_to_ready(&mut self) {
        match self.servers.iter().find(|server| matches!(server.phase, Phase::Ready { .. })).map(|server| server.epoch)
        {
            Some(epoch) => self.hand_over(epoch),
            // The one that was ready died while the other retired.
            None if !self.has_heir() => self.server_died_at(clock::boot_ms()),
            None => {}
        }
    }

    /// Somebody serves or is about to.
    pub(super) fn has_heir(&self) -> bool {
        self.servers.iter().any(|server| !matches!(server.phase, Phase::Retiring { .. }))
    }

    /// Somebody was asked to retire and has not yet: nobody else may write.
    pub(super) fn one_still_writes(&self) -> bool {
        self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { done: false, .. }))
    }

    fn hand_over(&mut self, epoch: u32) {
        let kept = self.kept.keys().cloned().map(Object::Kept);
        let held = self.processes.values().filter(|process| !process.is_launching() && process.generation > 0);
        let left = kept.chain(held.map(|process| Object::Process(process.key))).collect();
        if let Some(server) = self.server(epoch) {
            server.phase = Phase::TakingOver { left, awaits_ack: false, until: 0 };
        }
        self.hand_over_next(epoch);
    }

    /// One object at a time, each acknowledged: descriptors in flight stay few.
    pub(super) fn hand_over_next(&mut self, epoch: u32) {
        let Some(position) = self.servers.iter().position(|server| server.epoch == epoch) else { return };
        let retiring = self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { .. }));
        let server = &mut self.servers[position];
        let Phase::TakingOver { left, awaits_ack, until } = &mut server.phase else { return };
        *awaits_ack = false;
        *until = clock::boot_ms() + TAKE_OVER_MS;
        self.timers.arm_housekeeping(*until);
        while let Some(object) = left.pop_front() {
            let sent = match &object {
                Object::Kept(name) => self
                    .kept
                    .get(name)
                    .map(|fd| server.socket.send(&ToServer::Kept(name.clone()).encode(), &[fd.as_fd()])),
                Object::Process(key) => self.processes.get(key).map(|process| {
                    let message = ToServer::Held(process.held()).encode();
                    server.socket.send(&message, &beside(process))
                }),
            };
            match sent {
                // Gone in the meantime.
                None => {}
                Some(Ok(())) => {
                    *awaits_ack = true;
                    return;
                }
                Some(Err(error)) => {
                    // Its socket is empty but for our one message, so this is no lack of room.
                    say(&format!("hand-over failed: {error}"));
                    server.kill();
                    return;
                }
            }
        }
        if self.processes.values().any(Process::is_launching) {
            // Asked for by the server before; the next one is to learn how it ended.
            return;
        }
        server.phase = Phase::Serving;
        // Whatever happened while nobody served is news.
        server.woken.extend(self.processes.keys());
        self.note_to(epoch, Note::Say(ToServer::Go(retiring)));
    }

    /// A launch has ended, well or not, and a hand-over may have waited for it.
    pub(super) fn hand_over_launched(&mut self, key: u64) {
        let mut idle = None;
        for server in &mut self.servers {
            if let Phase::TakingOver { left, awaits_ack, .. } = &mut server.phase {
                left.push_back(Object::Process(key));
                idle = (!*awaits_ack).then_some(server.epoch);
            }
        }
        if let Some(epoch) = idle {
            self.hand_over_next(epoch);
        }
    }
}
