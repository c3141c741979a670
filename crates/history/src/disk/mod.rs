//! The little of a file system that a store needs, as a trait, so that tests can inject faults and power losses.
//!
//! * [`real`]: a directory of the file system.
//! * `simulated`: in memory, with faults, stops and power losses. Only with the feature `simulated-disk` and in tests.

pub mod real;
#[cfg(any(test, feature = "simulated-disk"))]
pub mod simulated;

use std::io;
use std::ops::Range;

pub use real::RealDisk;
#[cfg(any(test, feature = "simulated-disk"))]
pub use simulated::{Fault, SimulatedDisk};

/// One directory. Names contain no `/`.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing. `create`: it must not exist yet, and is created.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces `to` atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Free bytes of the file system.
    fn free_bytes(&self) -> io::Result<u64>;
}

#[expect(clippy::len_without_is_empty, reason = "no caller asks for an empty file")]
pub trait DiskFile: Send + Sync {
    /// Writes all bytes, or fails after it may have written some of them.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Fails with `UnexpectedEof` if the file is too short.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// Bytes that it takes on disk. Less than its length if it has holes.
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable. The name of the file may still be lost: see [`Disk::sync_directory`]. After
    /// a failure the kernel may count bytes as written that are not: [`write_again`] comes before the next sync.
    fn sync(&self) -> io::Result<()>;
}

/// Writes a part of a file as it reads, so that the next sync makes it durable even if a sync has failed before.
pub fn write_again(file: &dyn DiskFile, range: Range<u64>) -> io::Result<()> {
    const CHUNK_BYTES: u64 = 256 * 1024;
    let mut buffer = vec![0; CHUNK_BYTES.min(range.end.saturating_sub(range.start)) as usize];
    let mut at = range.start;
    while at < range.end {
        let chunk = &mut buffer[..CHUNK_BYTES.min(range.end - at) as usize];
        file.read_exact_at(chunk, at)?;
        file.write_all_at(chunk, at)?;
        at += chunk.len() as u64;
    }
    Ok(())
}
