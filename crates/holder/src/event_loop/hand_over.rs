//! Hand-over from one server to the next: the new one is ready, the old one retires, the holder sends all stored
//! descriptors and processes, the new one serves.

use std::os::fd::AsFd;

use super::Holder;
use super::logging::{Level, log_to_stderr};
use super::process::Process;
use super::server::{HandOverItem, Phase, READY_TIMEOUT_MS};
use super::server_io::attached_fds;
use crate::clock;
use crate::wire::{self, ToServer};

/// Time for a server to stop writing after `Retire`.
const RETIRE_TIMEOUT_MS: u64 = 5_000;
/// Time for a retired server to finish its responses.
const FINISH_TIMEOUT_MS: u64 = 30_000;
/// Time to acknowledge one item. Long, because a busy machine is slow.
const ACK_TIMEOUT_MS: u64 = 5_000;

impl Holder {
    pub(super) fn on_hello(&mut self, epoch: u32, protocol: u32) {
        if protocol != wire::PROTOCOL {
            let ours = wire::PROTOCOL;
            log_to_stderr(Level::Warn, &format!("server has protocol version {protocol}, the holder {ours}"));
        }
        // The server has executed its program by now, and is no more worth protecting than any program.
        if let Some(pid) = self.server(epoch).map(|server| server.pid) {
            self.inherited.restore_oom_score(pid);
        }
        let welcome = self.welcome(epoch);
        self.queue(epoch, ToServer::Welcome(welcome));
    }

    pub(super) fn on_ready(&mut self, epoch: u32) {
        let Some(server) = self.server(epoch) else { return };
        if !matches!(server.phase, Phase::Starting { .. }) {
            return;
        }
        let deadline = clock::boot_ms() + RETIRE_TIMEOUT_MS;
        // The old server is killed at its deadline, so the new one waits longer only if it hangs itself.
        let own_deadline = deadline + READY_TIMEOUT_MS;
        server.phase = Phase::Ready { deadline: own_deadline };
        server.launch = None;
        let mut retiring = Vec::new();
        for old in self.servers.iter_mut().filter(|server| server.phase == Phase::Serving) {
            old.phase = Phase::Retiring { stopped_writing: false, deadline };
            retiring.push(old.epoch);
        }
        if !self.is_any_server_still_writing() {
            self.start_hand_over(epoch);
            return;
        }
        self.timers.arm_housekeeping(deadline);
        self.timers.arm_housekeeping(own_deadline);
        // The old server must get all its replies soon, so they cannot wait for brief runs to exit.
        self.report_all_as_processes();
        for old in retiring {
            self.queue(old, ToServer::Retire(()));
        }
    }

    /// A retiring server has stopped writing: from here on the new one owns everything.
    pub(super) fn on_retired(&mut self, epoch: u32) {
        let deadline = clock::boot_ms() + FINISH_TIMEOUT_MS;
        self.timers.arm_housekeeping(deadline);
        if let Some(server) = self.server(epoch)
            && matches!(server.phase, Phase::Retiring { stopped_writing: false, .. })
        {
            server.phase = Phase::Retiring { stopped_writing: true, deadline };
            self.hand_over_to_ready_server();
        }
    }

    pub(super) fn hand_over_to_ready_server(&mut self) {
        let ready = self.servers.iter().find(|server| matches!(server.phase, Phase::Ready { .. }));
        match ready.map(|server| server.epoch) {
            Some(epoch) => self.start_hand_over(epoch),
            // The server that was ready died while the other one retired.
            None if !self.has_successor() => self.schedule_restart(clock::boot_ms()),
            None => {}
        }
    }

    /// Whether a server serves or is on its way to.
    pub(super) fn has_successor(&self) -> bool {
        self.servers.iter().any(|server| !matches!(server.phase, Phase::Retiring { .. }))
    }

    /// Whether a server that received `Retire` has not stopped writing. No other server may write until then.
    pub(super) fn is_any_server_still_writing(&self) -> bool {
        self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { stopped_writing: false, .. }))
    }

    fn start_hand_over(&mut self, epoch: u32) {
        let fds = self.fd_store.keys().cloned().map(HandOverItem::StoredFd);
        let started = self.processes.values().filter(|process| !process.is_launching() && process.generation > 0);
        let remaining = fds.chain(started.map(|process| HandOverItem::Process(process.key))).collect();
        if let Some(server) = self.server(epoch) {
            server.phase = Phase::TakingOver { remaining, awaiting_ack: false, deadline: 0 };
        }
        self.hand_over_next(epoch);
    }

    /// Sends one item at a time, each acknowledged, to keep the number of descriptors in flight small.
    pub(super) fn hand_over_next(&mut self, epoch: u32) {
        let Some(position) = self.servers.iter().position(|server| server.epoch == epoch) else { return };
        let retiring = self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { .. }));
        let server = &mut self.servers[position];
        let Phase::TakingOver { remaining, awaiting_ack, deadline } = &mut server.phase else { return };
        *awaiting_ack = false;
        *deadline = clock::boot_ms() + ACK_TIMEOUT_MS;
        self.timers.arm_housekeeping(*deadline);
        while let Some(item) = remaining.pop_front() {
            let sent = match &item {
                HandOverItem::StoredFd(name) => self
                    .fd_store
                    .get(name)
                    .map(|fd| server.socket.send(&ToServer::StoredFd(name.clone()).encode(), &[fd.as_fd()])),
                HandOverItem::Process(key) => self.processes.get(key).map(|process| {
                    let message = ToServer::HeldProcess(process.held_info()).encode();
                    server.socket.send(&message, &attached_fds(process))
                }),
            };
            match sent {
                // Removed in the meantime.
                None => {}
                Some(Ok(())) => {
                    *awaiting_ack = true;
                    return;
                }
                Some(Err(error)) => {
                    // The socket contains only this one message, so it is not full.
                    log_to_stderr(Level::Error, &format!("cannot hand over to server {}: {error}", server.pid));
                    server.kill();
                    return;
                }
            }
        }
        if self.processes.values().any(Process::is_launching) {
            // Spawned by the previous server. The new one must learn the outcome before it serves.
            return;
        }
        server.phase = Phase::Serving;
        // Wake-ups that occurred while no server served are lost, so every log is woken.
        server.pending_wakeups.extend(self.processes.keys());
        self.queue(epoch, ToServer::StartServing(retiring));
    }

    /// Continues a hand-over that waited for this launch to succeed or fail.
    pub(super) fn hand_over_launched(&mut self, key: u64) {
        let mut idle = None;
        for server in &mut self.servers {
            if let Phase::TakingOver { remaining, awaiting_ack, .. } = &mut server.phase {
                remaining.push_back(HandOverItem::Process(key));
                idle = (!*awaiting_ack).then_some(server.epoch);
            }
        }
        if let Some(epoch) = idle {
            self.hand_over_next(epoch);
        }
    }
}
