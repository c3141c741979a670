//! The history store: output and records on disk that outlive the process, its ring and the machine.
//!
//! ```text
//! append(piece) ──▶ N.raw (open) ──4 MiB──▶ N.raw (closed) ──compress──▶ N.seg        block_at(process, offset)
//!                      │ extents in memory       │                        │ blocks in index.redb      ▲
//!                      └─────────────────────────┴────────────────────────┴───────────────────────────┘
//! put(records) ──▶ index.redb          delete(id) ──▶ tombstone ──purge──▶ segments and index rewritten without it
//! ```
//!
//! * [`format`] defines the bytes of raw and sealed segments. `docs/reference/history-format.md` is its specification.
//! * [`disk`] is the little of a file system that the store needs. Tests replace it by a simulated one with faults.
//! * [`directory`] opens and checks the directory of a real store.
//! * [`store`] owns all files. One thread appends; any thread reads.
//!
//! Everything here blocks on the disk. The caller keeps it off its hot path. The store knows processes only by id, and
//! records only as bytes with the few facts that retention needs.

pub mod directory;
pub mod disk;
pub mod format;
pub mod store;

use std::sync::atomic::{AtomicBool, AtomicU64};

use bytes::Bytes;
pub use outlive_holder::log::{ChunkMark, Stream};
pub use store::Store;

/// Consecutive bytes of one process, as read from its log.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub process: &'a str,
    /// Offset of the first byte in the log of the process.
    pub offset: u64,
    /// The marks of all chunks that overlap the bytes, by sequence. The first chunk may start before `offset`.
    pub marks: &'a [ChunkMark],
    pub bytes: &'a [u8],
}

/// Consecutive stored bytes of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub offset: u64,
    /// The marks of all chunks that overlap the bytes, by sequence. The first chunk may start before `offset`.
    pub marks: Vec<ChunkMark>,
    pub bytes: Bytes,
}

impl Block {
    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What of a process is stored. The store updates it; readers of the log load it without a lock or a disk access.
#[derive(Debug, Default)]
pub struct Span {
    /// Offset of the oldest stored byte. Bytes in between may be missing: see [`Store::block_at`].
    pub start: AtomicU64,
    /// Offset after the newest stored byte. Equal to `start`: nothing is stored.
    pub end: AtomicU64,
    /// Number of the mark of the oldest stored byte, which is its sequence - 1.
    pub first_mark: AtomicU64,
    /// Number after the mark of the newest stored byte.
    pub end_mark: AtomicU64,
    /// The process was deleted: nothing of it can be read or appended any more.
    pub deleted: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    Process = 1,
    Session = 2,
    /// A command of a session. Its output is stored under the id of the process that records it.
    Exec = 3,
}

/// A record of a process, session or exec, and what retention must know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub id: String,
    /// The run of outlive that wrote it.
    pub boot: String,
    pub created_at_ms: u64,
    /// `None`: it was running when the record was written.
    pub ended_at_ms: Option<u64>,
    /// A session for an exec. Deleting the parent deletes its children.
    pub parent: Option<String>,
    /// JSON of the caller.
    pub body: Vec<u8>,
}

/// One run of outlive, from its start to its stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub id: String,
    pub started_at_ms: u64,
    /// When something was last written.
    pub last_write_at_ms: u64,
}

/// Bounds of a store. Bytes are those on disk. Enforcing a limit of bytes leaves part of it free, and an appending thread
/// that asks [`Store::has_room`] before it appends does not exceed one by more than a piece, apart from
/// copies during maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub max_bytes: u64,
    pub max_process_bytes: u64,
    pub max_age_ms: u64,
    /// Nothing is written while the file system has less free space than this.
    pub min_free_bytes: u64,
}

/// What a store uses and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    pub segments: u64,
    pub processes: u64,
    /// Written and not yet synced.
    pub unsynced_bytes: u64,
}
