//! Packets with descriptors over a Unix socket, non-blocking on both ends.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::MAX_PACKET;

/// Most descriptors that one message carries, its memfd included.
const MAX_DESCRIPTORS: usize = 4;
/// First byte of a packet whose contents are in the memfd that comes first among its descriptors.
const IN_MEMFD: u8 = 0xff;
/// Arguments and environment of a program fit by far; anything larger is a mistake.
const MAX_MEMFD: u64 = 64 << 20;

thread_local! {
    /// Where packets arrive: the largest are rare, and clearing room for one each time would cost more than the rest.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub struct Received {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

pub struct Socket(OwnedFd);

impl Socket {
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// `WouldBlock` when the peer is behind; the message was then not sent at all.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() as u64 > MAX_MEMFD {
            // The other end would take us for somebody who has lost his mind.
            return Err(rustix::io::Errno::TOOBIG.into());
        }
        if bytes.len() > MAX_PACKET {
            let file = sealed(bytes)?;
            let mut all = vec![file.as_fd()];
            all.extend_from_slice(descriptors);
            return self.send_packet(&[IN_MEMFD], &all);
        }
        self.send_packet(bytes, descriptors)
    }

    fn send_packet(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// `Ok(None)` when the peer is gone, `WouldBlock` when there is nothing.
    pub fn receive(&self) -> io::Result<Option<Received>> {
        ROOM.with_borrow_mut(|room| self.receive_into(room))
    }

    fn receive_into(&self, room: &mut Vec<u8>) -> io::Result<Option<Received>> {
        room.resize(MAX_PACKET, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = recvmsg(&self.0, &mut [IoSliceMut::new(room)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = part {
                descriptors.extend(fds);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("descriptors of a message were cut off: the limit of open files is too low"));
        }
        if message.bytes == 0 {
            return Ok(None);
        }
        let mut bytes = room[..message.bytes].to_vec();
        if bytes == [IN_MEMFD] && !descriptors.is_empty() {
            bytes = read_sealed(descriptors.remove(0).as_fd())?;
        }
        Ok(Some(Received { bytes, descriptors }))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A memfd with these contents that nobody can change any more.
pub(crate) fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("outlive-message", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = &rest[count..];
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

pub(crate) fn read_sealed(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let len = rustix::fs::fstat(file)?.st_size as u64;
    if !fcntl_get_seals(file)?.contains(SealFlags::WRITE | SealFlags::SHRINK) || len > MAX_MEMFD {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message in a memfd that is unsealed or too large"));
    }
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(file, &mut bytes[filled..], filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_and_descriptors_arrive_whole() {
        let (one, other) = Socket::pair().unwrap();
        let large: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let file = sealed(b"beside").unwrap();
        one.send(&large, &[file.as_fd()]).unwrap();
        let got = other.receive().unwrap().unwrap();
        assert_eq!(got.bytes, large);
        assert_eq!(read_sealed(got.descriptors[0].as_fd()).unwrap(), b"beside");
        assert_eq!(other.receive().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert!(other.receive().unwrap().is_none());
    }
}
