//! Shutting down on SIGTERM or SIGINT, as an init does when the holder is PID 1.
//!
//! TERM to every tree, the grace time, KILL to the rest, then TERM to the server, then exit 0.

use rustix::process::Signal;

use super::Holder;
use super::commands::PendingKill;
use super::logging::{Level, log_to_stderr};
use super::process::signal_child;
use crate::clock;
use crate::log::Cause;
use crate::tree::TreeRoot;
use crate::tree::killer::Action;

/// Key of a job that concerns all descendants of the holder; no process has it.
pub(super) const ALL_DESCENDANTS: u64 = 0;
/// Time for a server to close its sockets.
const SERVER_GRACE_MS: u64 = 1_000;

/// The progress of a shutdown.
pub(super) struct Shutdown {
    kill_at: u64,
    kill_submitted: bool,
    /// When servers are killed; set once all trees are dead.
    kill_servers_at: Option<u64>,
    pub(super) server_exited: bool,
}

impl Shutdown {
    /// When the next step is due.
    pub(super) fn deadline(&self) -> Option<u64> {
        if self.kill_submitted { self.kill_servers_at } else { Some(self.kill_at) }
    }
}

impl Holder {
    pub(super) fn start_shutdown(&mut self) {
        if self.shutdown.is_some() {
            return;
        }
        // The server must know every process before it is signalled.
        self.report_all_as_processes();
        let kill_at = clock::boot_ms() + self.settings.grace_ms;
        log_to_stderr(Level::Info, "shutting down: sending TERM to all processes");
        self.shutdown = Some(Shutdown { kill_at, kill_submitted: false, kill_servers_at: None, server_exited: false });
        for process in self.processes.values_mut().filter(|process| process.pid != 0) {
            process.cause.get_or_insert(Cause::Shutdown);
        }
        self.timers.arm_housekeeping(kill_at);
        self.signal_all_descendants(Action::Signal(libc::SIGTERM));
    }

    fn signal_all_descendants(&mut self, action: Action) {
        let root = TreeRoot::from_running(std::process::id() as i32, ALL_DESCENDANTS, "");
        let root = TreeRoot { environ_id: None, ..root };
        self.submit_job(PendingKill { key: ALL_DESCENDANTS, reply_to: None }, root, None, action);
    }

    /// Takes the next step of a shutdown if it is due.
    pub(super) fn advance_shutdown(&mut self, now: u64) {
        let all_ended = self.processes.values().all(|process| process.pid == 0 && !process.is_launching());
        let Some(shutdown) = &mut self.shutdown else { return };
        if !shutdown.kill_submitted && (all_ended || shutdown.kill_at <= now) {
            shutdown.kill_submitted = true;
            self.signal_all_descendants(Action::Kill);
        } else if let Some(kill_at) = shutdown.kill_servers_at.as_mut().filter(|kill_at| **kill_at <= now) {
            // Repeated until the servers have been reaped.
            *kill_at = now + SERVER_GRACE_MS;
            for server in &self.servers {
                signal_child(server.pid, Signal::KILL);
            }
        }
    }

    /// The killer has signalled all descendants.
    pub(super) fn on_all_signalled(&mut self) {
        let now = clock::boot_ms();
        let Some(shutdown) = &mut self.shutdown else { return };
        if !shutdown.kill_submitted {
            // TERM was sent. If no process is left, the next step need not wait for the grace time.
            self.advance_shutdown(now);
            return;
        }
        let kill_at = now + SERVER_GRACE_MS;
        shutdown.kill_servers_at = Some(kill_at);
        shutdown.server_exited = self.servers.is_empty();
        for server in &self.servers {
            signal_child(server.pid, Signal::TERM);
        }
        self.timers.arm_housekeeping(kill_at);
        self.exit_if_shut_down();
    }

    pub(super) fn exit_if_shut_down(&mut self) {
        let is_complete = |shutdown: &Shutdown| shutdown.kill_servers_at.is_some() && shutdown.server_exited;
        if self.servers.is_empty() && self.shutdown.as_ref().is_some_and(is_complete) {
            self.clean_up_brief_runs();
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
