//! The end of everything.
//!
//! SIGTERM or SIGINT: TERM to every tree, the grace time, KILL to whatever is left, then the server, then exit 0.
//! As PID 1 this is what an init does.

use rustix::process::Signal;

use super::Holder;
use super::command::Errand;
use super::say::say;
use super::signals::signal;
use crate::clock;
use crate::log::Cause;
use crate::tree::Root;
use crate::tree::killer::Action;

/// Stands for all descendants of the holder; no process has this key.
pub(super) const EVERYTHING: u64 = 0;
/// A server gets this long to close its sockets.
const SERVER_GRACE_MS: u64 = 1_000;

pub(super) struct Stopping {
    kill_at: u64,
    killed: bool,
    server_until: Option<u64>,
    pub(super) server_gone: bool,
}

impl Stopping {
    /// When the next step comes by itself.
    pub(super) fn due(&self) -> Option<u64> {
        if self.killed { self.server_until } else { Some(self.kill_at) }
    }
}

impl Holder {
    pub(super) fn begin_shutdown(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        // So that each is known to run.
        self.tell_all();
        let kill_at = clock::boot_ms() + self.settings.grace_ms;
        say("stopping: TERM to everything");
        self.stopping = Some(Stopping { kill_at, killed: false, server_until: None, server_gone: false });
        for process in self.processes.values_mut().filter(|process| process.pid != 0) {
            process.cause.get_or_insert(Cause::Shutdown);
        }
        self.timers.arm_housekeeping(kill_at);
        self.signal_everything(Action::Signal(libc::SIGTERM));
    }

    fn signal_everything(&mut self, action: Action) {
        let root = Root::of(std::process::id() as i32, EVERYTHING, "");
        let root = Root { environ_id: None, ..root };
        self.submit(Errand { key: EVERYTHING, asker: None }, root, None, action);
    }

    /// Looks whether the next step of a shutdown has come.
    pub(super) fn stopping_due(&mut self, now: u64) {
        let all_ended = self.processes.values().all(|process| process.pid == 0 && !process.is_launching());
        let Some(stopping) = &mut self.stopping else { return };
        if !stopping.killed && (all_ended || stopping.kill_at <= now) {
            stopping.killed = true;
            self.signal_everything(Action::Kill);
        } else if let Some(until) = stopping.server_until.as_mut().filter(|until| **until <= now) {
            // One that does not die of it gets another.
            *until = now + SERVER_GRACE_MS;
            for server in &self.servers {
                signal(server.pid, Signal::KILL);
            }
        }
    }

    /// The killer is through with a round on everything.
    pub(super) fn everything_signalled(&mut self) {
        let now = clock::boot_ms();
        let until = now + SERVER_GRACE_MS;
        if self.stopping.as_ref().is_some_and(|stopping| !stopping.killed) {
            // The TERMs are out; with nothing left to wait for, the next step comes at once.
            self.stopping_due(now);
            return;
        }
        if let Some(stopping) = self.stopping.as_mut().filter(|stopping| stopping.killed) {
            stopping.server_until = Some(until);
            stopping.server_gone = self.servers.is_empty();
            for server in &self.servers {
                signal(server.pid, Signal::TERM);
            }
            self.timers.arm_housekeeping(until);
            self.exit_if_over();
        }
    }

    pub(super) fn exit_if_over(&mut self) {
        if self.servers.is_empty()
            && self.stopping.as_ref().is_some_and(|stopping| stopping.server_until.is_some() && stopping.server_gone)
        {
            self.clear_away();
            let keys: Vec<u64> = self.processes.keys().copied().collect();
            for key in keys {
                self.remove(key);
            }
            if let Some(cgroups) = self.cgroups.take() {
                let _ = cgroups.remove_base();
            }
            self.exit_code = Some(0);
        }
    }
}
