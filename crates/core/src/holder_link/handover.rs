//! The hand-over: a new server receives the stored descriptors and the held processes from the holder.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use outlive_holder::wire::{HeldProcessInfo, PROTOCOL, Packet, Socket, ToHolder, ToServer, Welcome};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::{HolderLink, Inner, PendingRequests};

pub struct HeldProcess {
    pub info: HeldProcessInfo,
    pub log: OwnedFd,
    pub input: Option<OwnedFd>,
}

/// Everything that a new server starts with.
pub struct Handover {
    pub link: HolderLink,
    /// The journal, the archive segments and the listening sockets, by name.
    pub stored_fds: BTreeMap<String, OwnedFd>,
    pub held: Vec<HeldProcess>,
    /// The previous server is still sending its last responses.
    pub predecessor_active: bool,
}

impl Handover {
    /// Connects, waits until the previous server has retired, and receives everything.
    pub async fn receive(socket: OwnedFd) -> io::Result<Self> {
        let send_socket = SendSocket::clone_of(&socket)?;
        let socket = crate::async_fd::register(Socket::from_fd(socket), Interest::READABLE)?;
        let send = async |message: ToHolder| {
            let bytes = message.encode();
            send_socket.retry_send(|| socket.get_ref().send(&bytes, &[])).await
        };
        send(ToHolder::Hello(PROTOCOL)).await?;
        let welcome = welcome(&socket).await?;
        send(ToHolder::Ready(())).await?;
        let (mut stored_fds, mut held) = (BTreeMap::new(), Vec::new());
        let predecessor_active = loop {
            let received = next(&socket).await?;
            let mut descriptors = received.descriptors.into_iter();
            match ToServer::decode(&received.bytes) {
                Some(ToServer::StoredFd(name)) => {
                    if let Some(fd) = descriptors.next() {
                        stored_fds.insert(String::from_utf8_lossy(&name).into_owned(), fd);
                    }
                }
                Some(ToServer::HeldProcess(info)) => {
                    if let Some(log) = descriptors.next() {
                        held.push(HeldProcess { info, log, input: descriptors.next() });
                    }
                }
                Some(ToServer::StartServing(predecessor_active)) => break predecessor_active,
                _ => continue,
            }
            crate::crash_point::reach("hand_over");
            send(ToHolder::Ack(())).await?;
        };
        let link = HolderLink::new(socket, send_socket, welcome, false);
        Ok(Self { link, stored_fds, held, predecessor_active })
    }
}

async fn welcome(socket: &AsyncFd<Socket>) -> io::Result<Welcome> {
    loop {
        if let Some(ToServer::Welcome(welcome)) = ToServer::decode(&next(socket).await?.bytes) {
            return Ok(welcome);
        }
    }
}

async fn next(socket: &AsyncFd<Socket>) -> io::Result<Packet> {
    let received = socket.async_io(Interest::READABLE, Socket::receive).await?;
    received.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the holder exited during the hand-over"))
}

impl HolderLink {
    fn new(socket: AsyncFd<Socket>, send_socket: SendSocket, welcome: Welcome, gone: bool) -> Self {
        Self(Arc::new(Inner {
            socket,
            send_socket,
            send_queue: Mutex::default(),
            queue_filled: Notify::new(),
            requests: PendingRequests::default(),
            gone: AtomicBool::new(gone),
            gone_changed: Notify::new(),
            retired: AtomicBool::new(false),
            welcome,
        }))
    }

    /// A link without a holder, for tests: messages are discarded.
    #[cfg(test)]
    pub(crate) fn disconnected() -> Self {
        let (socket, _) = Socket::pair().map(|(one, other)| (one.into_fd(), other)).unwrap();
        let send_socket = SendSocket::clone_of(&socket).unwrap();
        let socket = crate::async_fd::register(Socket::from_fd(socket), Interest::READABLE).unwrap();
        let Some(ToServer::Welcome(welcome)) = ToServer::decode(&[1]) else { unreachable!() };
        Self::new(socket, send_socket, welcome, true)
    }
}

/// A second descriptor of the socket, for sending.
///
/// It is registered for writability only while a message waits. A permanent registration would wake the server for every
/// message that the holder has read.
pub(super) struct SendSocket(Arc<OwnedFd>);

impl SendSocket {
    pub(super) fn clone_of(socket: &OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(socket.try_clone()?)))
    }

    /// Calls `send` until it does not return `WouldBlock`.
    pub(super) async fn retry_send(&self, mut send: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        loop {
            match send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            let registered = crate::async_fd::register(Arc::clone(&self.0), Interest::WRITABLE)?;
            drop(registered.writable().await?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_message_is_sent_when_the_socket_has_space() {
        let (ours, theirs) = Socket::pair().unwrap();
        let ours = ours.into_fd();
        let send_socket = SendSocket::clone_of(&ours).unwrap();
        let ours = Socket::from_fd(ours);
        let mut sent = 0;
        while ours.send(&[7; 1000], &[]).is_ok() {
            sent += 1;
        }
        let sending = send_socket.retry_send(|| ours.send(&[8], &[]));
        let reading = async {
            for _ in 0..sent {
                assert_eq!(theirs.receive().unwrap().unwrap().bytes, [7; 1000]);
                tokio::task::yield_now().await;
            }
        };
        let (result, ()) = tokio::join!(sending, reading);
        result.unwrap();
        assert_eq!(theirs.receive().unwrap().unwrap().bytes, [8]);
    }
}
