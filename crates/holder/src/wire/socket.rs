//! Packets with attached descriptors over a Unix socket, non-blocking on both ends.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::MAX_PACKET_BYTES;

/// Maximum number of descriptors attached to a message, including its memfd.
const MAX_DESCRIPTORS: usize = 4;
/// The only byte of a packet whose contents are in the first attached descriptor, a memfd.
const IN_MEMFD: u8 = 0xff;
/// Far more than the arguments and environment of a program; anything larger is a bug.
const MAX_MEMFD_BYTES: u64 = 64 << 20;

thread_local! {
    /// Receive buffer of the maximum packet size. Reused, because clearing one for each packet would cost more than the
    /// rest.
    static RECEIVE_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub struct Packet {
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

    /// `WouldBlock` when the socket is full; then nothing was sent.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() as u64 > MAX_MEMFD_BYTES {
            // The peer would reject it.
            return Err(rustix::io::Errno::TOOBIG.into());
        }
        if bytes.len() > MAX_PACKET_BYTES {
            let memfd = sealed_memfd(bytes)?;
            let mut with_memfd = vec![memfd.as_fd()];
            with_memfd.extend_from_slice(descriptors);
            return self.send_packet(&[IN_MEMFD], &with_memfd);
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

    /// `Ok(None)` when the peer has closed the socket, `WouldBlock` when there is no packet.
    pub fn receive(&self) -> io::Result<Option<Packet>> {
        RECEIVE_BUFFER.with_borrow_mut(|buffer| self.receive_into(buffer))
    }

    fn receive_into(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        buffer.resize(MAX_PACKET_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = part {
                descriptors.extend(fds);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("cannot receive descriptors: the limit of open files is too low"));
        }
        if message.bytes == 0 {
            return Ok(None);
        }
        let mut bytes = buffer[..message.bytes].to_vec();
        if bytes == [IN_MEMFD] && !descriptors.is_empty() {
            bytes = read_sealed_memfd(descriptors.remove(0).as_fd())?;
        }
        Ok(Some(Packet { bytes, descriptors }))
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

/// A memfd with these contents that can no longer be changed.
pub(crate) fn sealed_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("outlive-message", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = &rest[count..];
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

pub(crate) fn read_sealed_memfd(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let len = rustix::fs::fstat(file)?.st_size as u64;
    if !fcntl_get_seals(file)?.contains(SealFlags::WRITE | SealFlags::SHRINK) || len > MAX_MEMFD_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the memfd of a message is not sealed or too large"));
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
    fn large_messages_and_descriptors_round_trip() {
        let (one, other) = Socket::pair().unwrap();
        let large: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let file = sealed_memfd(b"attached").unwrap();
        one.send(&large, &[file.as_fd()]).unwrap();
        let received = other.receive().unwrap().unwrap();
        assert_eq!(received.bytes, large);
        assert_eq!(read_sealed_memfd(received.descriptors[0].as_fd()).unwrap(), b"attached");
        assert_eq!(other.receive().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert!(other.receive().unwrap().is_none());
    }
}
