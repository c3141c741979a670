//! The file format of the journal: a header, then entries in the order in which they were appended.
//!
//! ```text
//! | magic u64 | published length u64 | entry | entry | … | (garbage of an append that never finished)
//! entry = kind u8, name length u32, value length u32, name, value          (all integers little-endian)
//! ```
//!
//! An append becomes visible by one 8-byte store of the published length, so a server that dies in the middle of an
//! append leaves the entries before it intact.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};

const MAGIC: u64 = 0x6f75_746c_6a6e_0001;
const PUBLISHED_OFFSET: u64 = 8;
pub(super) const FIRST_ENTRY_OFFSET: u64 = 16;
const ENTRY_HEADER_BYTES: usize = 9;
/// Larger entries are not written. A larger entry that an earlier version wrote is skipped when the journal is read:
/// loading it could exhaust the memory of every server that starts.
pub(super) const MAX_ENTRY_BYTES: u64 = 64 << 20;
/// Kind of a skipped entry.
const KIND_NONE: u8 = 0;

pub(super) struct JournalFile {
    fd: OwnedFd,
    published: u64,
}

pub(super) struct Entry {
    pub(super) kind: u8,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Length of the whole entry, header included.
    pub(super) len: u64,
}

impl Entry {
    /// The sequence number of an event, which is its name.
    pub(super) fn sequence(&self) -> u64 {
        self.name.as_slice().try_into().map_or(0, u64::from_le_bytes)
    }
}

pub(super) fn encode(out: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

impl JournalFile {
    pub(super) fn create() -> io::Result<Self> {
        let fd = memfd_create("outlive-journal", MemfdFlags::CLOEXEC)?;
        write_all(&fd, &MAGIC.to_le_bytes(), 0)?;
        write_all(&fd, &FIRST_ENTRY_OFFSET.to_le_bytes(), PUBLISHED_OFFSET)?;
        Ok(Self { fd, published: FIRST_ENTRY_OFFSET })
    }

    pub(super) fn open(fd: OwnedFd) -> io::Result<Self> {
        let mut header = [0; 16];
        read_exact(&fd, &mut header, 0)?;
        let word = |at: usize| header.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        let published = word(8);
        if word(0) != MAGIC || published < FIRST_ENTRY_OFFSET || published > rustix::fs::fstat(&fd)?.st_size as u64 {
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
        write_all(&self.fd, &published.to_le_bytes(), PUBLISHED_OFFSET)?;
        self.published = published;
        Ok(())
    }

    pub(super) fn read(&self, at: u64) -> io::Result<Entry> {
        let mut header = [0; ENTRY_HEADER_BYTES];
        read_exact(&self.fd, &mut header, at)?;
        let [kind, lengths @ ..] = header;
        // The name length is in the low half, the value length in the high half.
        let lengths = u64::from_le_bytes(lengths);
        let (name_len, value_len) = (lengths & u64::from(u32::MAX), lengths >> 32);
        let len = ENTRY_HEADER_BYTES as u64 + name_len + value_len;
        if at + len > self.published {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "journal entry reaches past the published length"));
        }
        if len > MAX_ENTRY_BYTES {
            return Ok(Entry { kind: KIND_NONE, name: Vec::new(), value: Vec::new(), len });
        }
        let mut name = vec![0; name_len as usize];
        let mut value = vec![0; value_len as usize];
        read_exact(&self.fd, &mut name, at + ENTRY_HEADER_BYTES as u64)?;
        read_exact(&self.fd, &mut value, at + ENTRY_HEADER_BYTES as u64 + name_len)?;
        Ok(Entry { kind, name, value, len })
    }

    /// Reads the value of the entry at `at`, of which the name and the whole length are known.
    pub(super) fn read_value(&self, at: u64, len: u64, name: &str) -> io::Result<Vec<u8>> {
        let value_at = (ENTRY_HEADER_BYTES + name.len()) as u64;
        let mut value = vec![0; len.saturating_sub(value_at) as usize];
        read_exact(&self.fd, &mut value, at + value_at)?;
        Ok(value)
    }

    /// Appends the encoded entry at `at` to `out`.
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

fn read_exact(fd: &OwnedFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::pread(fd, &mut *buffer, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression: every server that loaded such an entry died.
    #[test]
    fn an_entry_over_the_size_limit_is_skipped() {
        let mut file = JournalFile::create().unwrap();
        let mut bytes = Vec::new();
        encode(&mut bytes, 1, b"large", &vec![b'x'; MAX_ENTRY_BYTES as usize]);
        let large = bytes.len() as u64;
        encode(&mut bytes, 1, b"next", b"value");
        file.append(&bytes).unwrap();
        let skipped = file.read(FIRST_ENTRY_OFFSET).unwrap();
        assert_eq!((skipped.kind, skipped.len, skipped.value.len()), (KIND_NONE, large, 0));
        let next = file.read(FIRST_ENTRY_OFFSET + large).unwrap();
        assert_eq!((next.kind, next.name.as_slice(), next.value.as_slice()), (1, &b"next"[..], &b"value"[..]));
    }
}
