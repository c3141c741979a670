//! Replacing a running server, and then the holder, by the binary that is on disk now.
//!
//! The old server serves on until the new one has said that it is ready; if it never does, nothing happened. The
//! holder follows only when the new server has said that it serves: until then whatever starts next is the image
//! that this holder runs, which is known to work.

use super::Holder;
use super::say::say;
use super::server::{Note, Phase, Server};
use crate::wire::ToServer;

impl Holder {
    pub(super) fn begin_upgrade(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let one_serves = self.servers.iter().any(|server| server.phase == Phase::Serving);
        let one_starts = self
            .servers
            .iter()
            .any(|server| !matches!(server.phase, Phase::Serving | Phase::Retiring { done: true, .. }));
        if !one_serves || one_starts {
            self.note(Note::Say(ToServer::Upgraded(b"another start or upgrade is under way".to_vec())));
            return;
        }
        let program = self.settings.program.clone();
        say(&format!("upgrading to {}", String::from_utf8_lossy(&program)));
        match self.launch_server(&program) {
            Ok(epoch) => self.upgrade = Some(epoch),
            Err(error) => self.upgrade_failed(&format!("the new binary cannot be started: {error}")),
        }
    }

    pub(super) fn upgrade_failed(&mut self, why: &str) {
        say(&format!("upgrade failed, the old server carries on: {why}"));
        self.note(Note::Say(ToServer::Upgraded(why.as_bytes().to_vec())));
    }

    /// A server has taken up everything. If it is the new one of an upgrade, the holder follows.
    pub(super) fn server_serves(&mut self, epoch: u32) {
        let serves = self.server(epoch).is_some_and(|server| server.phase == Phase::Serving);
        if serves && self.upgrade == Some(epoch) {
            self.upgrade = None;
            self.replace_self = true;
            self.tell_retired(b"");
        }
    }

    /// The server that asked is the one that retired. To the new one this would look like the answer to an upgrade
    /// that it has been asked for in the meantime.
    fn tell_retired(&mut self, outcome: &[u8]) {
        for server in self.servers.iter_mut().filter(|server| matches!(server.phase, Phase::Retiring { .. })) {
            server.notes.push_back(Note::Say(ToServer::Upgraded(outcome.to_vec())));
        }
    }

    /// A server is gone. The holder does not follow one that did not last.
    pub(super) fn end_upgrade_of(&mut self, server: &Server) {
        if self.upgrade == Some(server.epoch) {
            self.upgrade = None;
            if !matches!(server.phase, Phase::Starting { .. }) {
                let why = "the new server ended before it served";
                say(&format!("upgrade failed: {why}"));
                self.tell_retired(why.as_bytes());
            }
        }
        if server.phase == Phase::Serving && std::mem::take(&mut self.replace_self) {
            say("the new server ended at once; the holder keeps its image");
        }
    }
}
