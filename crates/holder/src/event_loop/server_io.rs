//! Messages between the holder and its servers. Neither side ever waits for the other.
//!
//! Replies queue per server until its socket accepts them. Wake-ups are a set of keys, so a server that reads slowly
//! costs no more memory than its processes. A server whose queue is full is not read until it has read some replies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::commands::ReplyTo;
use super::process::Process;
use super::server::{Phase, QueuedMessage, Server};
use super::{Holder, Interest, Source};
use crate::wire::{ToHolder, ToServer};

/// Messages read from one server per turn: a server that floods its socket must not stop the recording of output.
const MAX_MESSAGES_PER_TURN: usize = 64;
/// Keys per `Wake` message.
const MAX_WAKE_KEYS: usize = 1024;

impl Holder {
    /// Queues a message to the server of this epoch.
    pub(super) fn queue(&mut self, epoch: u32, message: ToServer) {
        if let Some(server) = self.server(epoch) {
            server.queue.push_back(QueuedMessage::Ready(message));
        }
    }

    /// Queues a message to the server that serves, if there is one.
    pub(super) fn queue_to_serving(&mut self, message: ToServer) {
        if let Some(server) = self.servers.iter_mut().find(|server| server.phase == Phase::Serving) {
            server.queue.push_back(QueuedMessage::Ready(message));
        }
    }

    pub(super) fn queue_spawned(&mut self, reply_to: ReplyTo, key: u64) {
        if let Some(server) = self.server(reply_to.epoch) {
            server.queue.push_back(QueuedMessage::Spawned { request: reply_to.request, key });
        }
    }

    /// Queues a wake-up for the readers of this process's log, because the log has changed.
    pub(super) fn wake(&mut self, key: u64) {
        for server in self.servers.iter_mut().filter(|server| server.receives_wakeups()) {
            server.pending_wakeups.insert(key);
        }
    }

    /// Sends as much as the sockets accept; the rest stays queued.
    pub(super) fn flush_servers(&mut self) {
        let mut servers = std::mem::take(&mut self.servers);
        for server in &mut servers {
            let blocked = self.flush(server);
            // A socket that is not going to be read must not be polled for reading, or epoll would report it forever.
            let interest = Interest { read: !server.queue_is_full(), write: blocked };
            if interest != server.interest {
                server.interest = interest;
                self.poll.set_interest(&server.socket, Source::Server { epoch: server.epoch }, interest);
            }
        }
        self.servers = servers;
    }

    /// Returns true when the socket is full.
    fn flush(&self, server: &mut Server) -> bool {
        let Err(error) = self.send_queued(server) else { return false };
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The server has closed its end, which the next read reports.
            server.queue.clear();
            server.pending_wakeups.clear();
        }
        error.kind() == io::ErrorKind::WouldBlock
    }

    fn send_queued(&self, server: &mut Server) -> io::Result<()> {
        while let Some(message) = server.queue.front() {
            self.send(server, message)?;
            server.queue.pop_front();
        }
        while server.receives_wakeups() && !server.pending_wakeups.is_empty() {
            let keys: Vec<u64> = server.pending_wakeups.iter().copied().take(MAX_WAKE_KEYS).collect();
            server.socket.send(&ToServer::Wake(keys.clone()).encode(), &[])?;
            for key in &keys {
                server.pending_wakeups.remove(key);
            }
        }
        Ok(())
    }

    fn send(&self, server: &Server, message: &QueuedMessage) -> io::Result<()> {
        match message {
            QueuedMessage::Ready(message) => server.socket.send(&message.encode(), &[]),
            QueuedMessage::Spawned { request, key } => match self.processes.get(key) {
                Some(process) => {
                    let message = ToServer::Spawned(process.spawned(*request));
                    server.socket.send(&message.encode(), &attached_fds(process))
                }
                None => Ok(()),
            },
        }
    }

    pub(super) fn on_server_readable(&mut self, epoch: u32) {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(server) = self.server(epoch) else { return };
            if server.queue_is_full() {
                return;
            }
            match server.socket.receive() {
                Ok(Some(packet)) => {
                    if let Some(message) = ToHolder::decode(&packet.bytes) {
                        self.on_server_message(epoch, message, packet.descriptors);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A server without its socket is of no use. Reaping it does the rest.
                Ok(None) | Err(_) => {
                    server.kill();
                    if let Some(server) = self.servers.iter().find(|server| server.epoch == epoch) {
                        self.poll.remove(&server.socket);
                    }
                    return;
                }
            }
        }
    }

    /// Executes all messages that a server sent before it died.
    pub(super) fn read_remaining_messages(&mut self, epoch: u32) {
        while let Some(Ok(Some(packet))) = self.server(epoch).map(|server| server.socket.receive()) {
            if let Some(message) = ToHolder::decode(&packet.bytes) {
                self.on_server_message(epoch, message, packet.descriptors);
            }
        }
    }
}

/// The descriptors attached to messages about a process: its log, and its input if it has one.
pub(super) fn attached_fds(process: &Process) -> Vec<BorrowedFd<'_>> {
    std::iter::once(process.log.file()).chain(process.input.as_ref().map(AsFd::as_fd)).collect()
}
