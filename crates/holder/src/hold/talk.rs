//! What goes to and fro between the holder and its servers; nobody waits for the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::Holder;
use super::event::{Interest, Source};
use super::process::Process;
use super::server::{Note, Phase, Server};
use crate::wire::{ToHolder, ToServer};

impl Holder {
    pub(super) fn note(&mut self, note: Note) {
        if let Some(server) = self.servers.iter_mut().find(|server| server.phase == Phase::Serving) {
            server.notes.push_back(note);
        }
    }

    pub(super) fn note_to(&mut self, epoch: u32, note: Note) {
        if let Some(server) = self.server(epoch) {
            server.notes.push_back(note);
        }
    }

    pub(super) fn wake(&mut self, key: u64) {
        for server in self.servers.iter_mut().filter(|server| server.listens()) {
            server.woken.insert(key);
        }
    }

    /// Sends what fits; the rest waits until the socket takes more.
    pub(super) fn flush_servers(&mut self) {
        let mut servers = std::mem::take(&mut self.servers);
        for server in &mut servers {
            let blocked = self.flush(server);
            // The poll set would report again and again what is not going to be read.
            let interest = Interest { read: !server.owes_too_much(), write: blocked };
            if interest != server.interest {
                server.interest = interest;
                self.poll.set_interest(&server.socket, Source::Server { epoch: server.epoch }, interest);
            }
        }
        // Sending cannot add servers, but stay on the safe side.
        servers.append(&mut self.servers);
        self.servers = servers;
    }

    /// True when the server is behind.
    fn flush(&self, server: &mut Server) -> bool {
        let Err(error) = self.send_all(server) else { return false };
        if error.kind() == io::ErrorKind::BrokenPipe {
            // It has hung up, and reading will tell; nobody is left who could be owed anything.
            server.notes.clear();
            server.woken.clear();
        }
        error.kind() == io::ErrorKind::WouldBlock
    }

    fn send_all(&self, server: &mut Server) -> io::Result<()> {
        while let Some(note) = server.notes.front() {
            self.send(server, note)?;
            server.notes.pop_front();
        }
        while server.listens() && !server.woken.is_empty() {
            let batch: Vec<u64> = server.woken.iter().copied().take(1024).collect();
            server.socket.send(&ToServer::Wake(batch.clone()).encode(), &[])?;
            for key in &batch {
                server.woken.remove(key);
            }
        }
        Ok(())
    }

    fn send(&self, server: &Server, note: &Note) -> io::Result<()> {
        match note {
            Note::Spawned { request, key } => match (self.spawned(*request, *key), self.processes.get(key)) {
                (Some(spawned), Some(process)) => {
                    server.socket.send(&ToServer::Spawned(spawned).encode(), &beside(process))
                }
                _ => Ok(()),
            },
            Note::SpawnFailed(failed) => server.socket.send(&ToServer::SpawnFailed(failed.clone()).encode(), &[]),
            Note::Done(done) => server.socket.send(&ToServer::Done(done.clone()).encode(), &[]),
            Note::Over(over) => server.socket.send(&ToServer::Over(over.clone()).encode(), &[]),
            Note::Say(message) => server.socket.send(&message.encode(), &[]),
        }
    }

    pub(super) fn server_readable(&mut self, epoch: u32) {
        // A bounded number per turn: a babbling server must not stop the recording.
        for _ in 0..64 {
            let Some(server) = self.server(epoch) else { return };
            if server.owes_too_much() {
                return;
            }
            match server.socket.receive() {
                Ok(Some(received)) => {
                    if let Some(message) = ToHolder::decode(&received.bytes) {
                        self.obey(epoch, message, received.descriptors);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Closed or broken: it is dead or as good as dead; reaping it does the rest.
                Ok(None) | Err(_) => {
                    server.kill();
                    self.poll_remove_server(epoch);
                    return;
                }
            }
        }
    }

    pub(super) fn last_words(&mut self, epoch: u32) {
        while let Some(Ok(Some(received))) = self.server(epoch).map(|server| server.socket.receive()) {
            if let Some(message) = ToHolder::decode(&received.bytes) {
                self.obey(epoch, message, received.descriptors);
            }
        }
    }

    fn poll_remove_server(&self, epoch: u32) {
        if let Some(server) = self.servers.iter().find(|server| server.epoch == epoch) {
            self.poll.remove(&server.socket);
        }
    }
}

/// Descriptors that go with a process: its log, and its input if it has one.
pub(super) fn beside(process: &Process) -> Vec<BorrowedFd<'_>> {
    std::iter::once(process.log.file()).chain(process.input.as_ref().map(AsFd::as_fd)).collect()
}
