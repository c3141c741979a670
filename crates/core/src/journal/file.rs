//! The memfd behind the journal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};

const MAGIC: u64 = 0x6f75_746c_6a6e_0001;
const AT_PUBLISHED: u64 = 8;
/// Where the first entry lies.
pub(super) const FIRST: u64 = 16;
const HEAD_BYTES: usize = 9;
/// A larger one is not written; and one that was is passed over, so that no server dies of it.
pub(super) const MAX_ENTRY: u64 = 64 << 20;
/// Of an entry that means nothing.
const NOTHING: u8 = 0;

pub(super) struct File {
    fd: OwnedFd,
    published: u64,
}

pub(super) struct Entry {
    pub(super) kind: u8,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Of the whole entry.
    pub(super) len: u64,
}

pub(super) fn encode(out: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

impl File {
    pub(super) fn create() -> io::Result<Self> {
        let fd = memfd_create("outlive-journal", MemfdFlags::CLOEXEC)?;
        write_all(&fd, &MAGIC.to_le_bytes(), 0)?;
        write_all(&fd, &FIRST.to_le_bytes(), AT_PUBLISHED)?;
        Ok(Self { fd, published: FIRST })
    }

    pub(super) fn open(fd: OwnedFd) -> io::Result<Self> {
        let mut head = [0; 16];
        read_exact(&fd, &mut head, 0)?;
        let word = |at: usize| head.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        let published = word(8);
        if word(0) != MAGIC || published < FIRST || published > rustix::fs::fstat(&fd)?.st_size as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an outlive journal"));
        }
        Ok(Self { fd, published })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn published(&self) -> u64 {
        self.published
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.fd, bytes, self.published)?;
        let published = self.published + bytes.len() as u64;
        write_all(&self.fd, &published.to_le_bytes(), AT_PUBLISHED)?;
        self.published = published;
        Ok(())
    }

    pub(super) fn read(&self, at: u64) -> io::Result<Entry> {
        let mut head = [0; HEAD_BYTES];
        read_exact(&self.fd, &mut head, at)?;
        let [kind, lengths @ ..] = head;
        // Name length in the low half, value length in the high one.
        let lengths = u64::from_le_bytes(lengths);
        let (name_len, value_len) = (lengths & u64::from(u32::MAX), lengths >> 32);
        let len = HEAD_BYTES as u64 + name_len + value_len;
        if at + len > self.published {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a journal entry reaches past the end"));
        }
        if len > MAX_ENTRY {
            return Ok(Entry { kind: NOTHING, name: Vec::new(), value: Vec::new(), len });
        }
        let mut name = vec![0; name_len as usize];
        let mut value = vec![0; value_len as usize];
        read_exact(&self.fd, &mut name, at + HEAD_BYTES as u64)?;
        read_exact(&self.fd, &mut value, at + HEAD_BYTES as u64 + name_len)?;
        Ok(Entry { kind, name, value, len })
    }

    /// Appends the entry at `at` to `out` as it is.
    pub(super) fn copy(&self, at: u64, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        out.resize(start + len as usize, 0);
        read_exact(&self.fd, &mut out[start..], at)
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(fd, bytes, at)?;
        bytes = &bytes[count..];
        at += count as u64;
    }
    Ok(())
}

fn read_exact(fd: &OwnedFd, mut room: &mut [u8], mut at: u64) -> io::Result<()> {
    while !room.is_empty() {
        match rustix::io::pread(fd, &mut *room, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                room = &mut room[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_died_of_an_entry_that_was_too_large() {
        let mut file = File::create().unwrap();
        let mut bytes = Vec::new();
        encode(&mut bytes, 1, b"large", &vec![b'x'; MAX_ENTRY as usize]);
        let large = bytes.len() as u64;
        encode(&mut bytes, 1, b"next", b"value");
        file.append(&bytes).unwrap();
        let passed_over = file.read(FIRST).unwrap();
        assert_eq!((passed_over.kind, passed_over.len, passed_over.value.len()), (NOTHING, large, 0));
        let next = file.read(FIRST + large).unwrap();
        assert_eq!((next.kind, next.name.as_slice(), next.value.as_slice()), (1, &b"next"[..], &b"value"[..]));
    }
}
