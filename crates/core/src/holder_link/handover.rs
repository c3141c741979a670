//! Taking over from the holder: what it kept, what it holds.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use outlive_holder::wire::{Held, PROTOCOL, Received, Socket, ToHolder, ToServer, Welcome};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::{HolderLink, Line, Room};

pub struct HeldProcess {
    pub held: Held,
    pub log: OwnedFd,
    pub input: Option<OwnedFd>,
}

/// Everything that a new server begins with.
pub struct Handover {
    pub link: HolderLink,
    pub kept: BTreeMap<String, OwnedFd>,
    pub held: Vec<HeldProcess>,
    /// The server before this one still finishes its last answers.
    pub another_finishes: bool,
}

impl Handover {
    /// Says hello, waits for its turn, and takes everything over.
    pub async fn receive(socket: OwnedFd) -> io::Result<Self> {
        let room = Room::of(&socket)?;
        let socket = crate::polled::poll(Socket::from_fd(socket), Interest::READABLE)?;
        let say = async |message: ToHolder| {
            let bytes = message.encode();
            room.send(|| socket.get_ref().send(&bytes, &[])).await
        };
        say(ToHolder::Hello(PROTOCOL)).await?;
        let welcome = welcome(&socket).await?;
        say(ToHolder::Ready(())).await?;
        let (mut kept, mut held) = (BTreeMap::new(), Vec::new());
        let another_finishes = loop {
            let received = next(&socket).await?;
            let mut descriptors = received.descriptors.into_iter();
            match ToServer::decode(&received.bytes) {
                Some(ToServer::Kept(name)) => {
                    if let Some(fd) = descriptors.next() {
                        kept.insert(String::from_utf8_lossy(&name).into_owned(), fd);
                    }
                }
                Some(ToServer::Held(process)) => {
                    if let Some(log) = descriptors.next() {
                        held.push(HeldProcess { held: process, log, input: descriptors.next() });
                    }
                }
                Some(ToServer::Go(another)) => break another,
                _ => continue,
            }
            crate::hooks::reach("hand_over");
            say(ToHolder::Ack(())).await?;
        };
        let link = HolderLink(Arc::new(Line {
            socket,
            room,
            overflow: Mutex::default(),
            has_overflow: Notify::new(),
            requests: super::Requests::default(),
            gone: AtomicBool::new(false),
            is_gone: Notify::new(),
            retired: AtomicBool::new(false),
            welcome,
        }));
        Ok(Self { link, kept, held, another_finishes })
    }
}

async fn welcome(socket: &AsyncFd<Socket>) -> io::Result<Welcome> {
    loop {
        if let Some(ToServer::Welcome(welcome)) = ToServer::decode(&next(socket).await?.bytes) {
            return Ok(welcome);
        }
    }
}

async fn next(socket: &AsyncFd<Socket>) -> io::Result<Received> {
    let received = socket.async_io(Interest::READABLE, Socket::receive).await?;
    received.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the holder went away during the hand-over"))
}

#[cfg(test)]
impl HolderLink {
    /// For tests of what needs a link but no holder: nothing that is sent arrives.
    pub(crate) fn to_nobody() -> Self {
        let (socket, _) = Socket::pair().map(|(one, other)| (one.into_fd(), other)).unwrap();
        Self(Arc::new(Line {
            room: Room::of(&socket).unwrap(),
            socket: crate::polled::poll(Socket::from_fd(socket), Interest::READABLE).unwrap(),
            overflow: Mutex::default(),
            has_overflow: Notify::new(),
            requests: super::Requests::default(),
            gone: AtomicBool::new(true),
            is_gone: Notify::new(),
            retired: AtomicBool::new(false),
            welcome: ToServer::decode(&[1]).map_or_else(
                || unreachable!(),
                |message| match message {
                    ToServer::Welcome(welcome) => welcome,
                    _ => unreachable!(),
                },
            ),
        }))
    }
}
