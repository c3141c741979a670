//! The bytes that the programs of these tests print, and their pipes.

use std::os::fd::OwnedFd;

use outlive_holder::log::Stream;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

pub(crate) const RESERVE: u64 = 64 * 1024;
pub(crate) const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// A byte that differs from its neighbours and from those one ring away.
pub(crate) fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    fcntl_setpipe_size(&read, 1 << 20).unwrap();
    (read, write)
}

pub(crate) fn write_all(fd: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = rustix::io::write(fd, bytes).unwrap();
        bytes = &bytes[count..];
    }
}
