//! Replacing a running server, and then the holder, by the binary that is on disk now.
//!
//! The old server serves on until the new one has said that it is ready; if it never does, nothing happened.

use super::Holder;
use super::say::say;
use super::server::{Note, Phase};
use crate::wire::ToServer;

impl Holder {
    pub(super) fn begin_upgrade(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let one_serves = self.servers.iter().any(|server| server.phase == Phase::Serving);
        let one_starts = self.servers.iter().any(|server| {
            !matches!(server.phase, Phase::Serving | Phase::Retiring { done: true, .. })
        });
        if !one_serves || one_starts {
            self.note(Note::Say(ToServer::Upgraded(b"another start or upgrade is under way".to_vec())));
            return;
        }
        let program = self.settings.program.clone();
        say(&format!("upgrading to {}", String::from_utf8_lossy(&program)));
        if let Err(error) = self.launch_server(&program) {
            self.upgrade_failed(&format!("the new binary cannot be started: {error}"));
        }
    }

    pub(super) fn upgrade_failed(&mut self, why: &str) {
        say(&format!("upgrade failed, the old server carries on: {why}"));
        self.note(Note::Say(ToServer::Upgraded(why.as_bytes().to_vec())));
    }

    /// A server has taken over. If another one retired for it, this was an upgrade, and the holder follows.
    pub(super) fn taken_over(&mut self, _epoch: u32) {
        if self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { .. })) {
            self.note(Note::Say(ToServer::Upgraded(Vec::new())));
            self.replace_self = true;
        }
    }
}
