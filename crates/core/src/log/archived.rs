//! A log that was copied out of its ring into a segment of the archive: chunk marks, then bytes.
//!
//! ```text
//! segment:  ... | mark | mark | ... | bytes tail..head | next log ...
//!               ^ ArchiveLocation::at           each mark: offset u64, time << 8 | stream u64
//! ```
//!
//! It is read by `pread` only and never changes. Its pages are freed when the archive has released it *and* its last
//! reader is gone.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use outlive_holder::log::{ChunkMark, Exit, LogReader, OverwrittenError, Stream, find_mark};
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

/// Offset, then time and stream, as in a ring.
const MARK_BYTES: u64 = 16;
/// Bytes per step of a copy: large enough to be fast, small enough to buffer and to wait for.
const COPY_BYTES: usize = 1 << 20;
/// Marks per step of a copy.
const COPY_MARKS: u64 = 4096;

/// Where an archived log lies, and the contents of its ring's header. Serialized in the process's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchiveLocation {
    pub(crate) segment: u64,
    pub(crate) at: u64,
    pub(crate) first_mark: u64,
    pub(crate) marks: u64,
    pub(crate) tail: u64,
    pub(crate) head: u64,
    pub(crate) generation: u32,
    pub(crate) input_offset: u64,
    pub(crate) last_output_at_ms: Option<u64>,
    #[serde(default)]
    pub(crate) resume_offset: u64,
}

impl ArchiveLocation {
    /// The location for a copy of `ring`; the archive fills in `segment` and `at`.
    pub(crate) fn for_ring(ring: &LogReader) -> Self {
        let marks = ring.marks();
        let newest = marks.end.checked_sub(1).and_then(|newest| ring.mark(newest));
        Self {
            segment: 0,
            at: 0,
            first_mark: marks.start,
            marks: marks.end - marks.start,
            tail: ring.tail(),
            head: ring.head(),
            generation: ring.generation(),
            input_offset: ring.input_offset(),
            last_output_at_ms: newest.map(|mark| mark.at_ms),
            resume_offset: ring.resume_offset(),
        }
    }

    /// Bytes in the segment, marks included.
    pub(crate) fn len(&self) -> u64 {
        self.marks * MARK_BYTES + self.head.saturating_sub(self.tail)
    }

    fn bytes_at(&self) -> u64 {
        self.at + self.marks * MARK_BYTES
    }

    /// Copies `ring` piece by piece: `write` gets each piece and its position in the segment.
    pub(crate) fn copy(&self, ring: &LogReader, mut write: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        let changed = || io::Error::other("the log changed while it was being archived");
        let mut piece = Vec::new();
        let mut at = self.at;
        let end = self.first_mark + self.marks;
        let mut next = self.first_mark;
        while next < end {
            let until = end.min(next + COPY_MARKS);
            piece.clear();
            for number in next..until {
                let mark = ring.mark(number).ok_or_else(changed)?;
                piece.extend_from_slice(&mark.offset.to_le_bytes());
                piece.extend_from_slice(&(mark.at_ms << 8 | mark.stream as u64).to_le_bytes());
            }
            next = until;
            write(&piece, at)?;
            at += piece.len() as u64;
        }
        let mut offset = self.tail;
        while offset < self.head {
            let left = usize::try_from(self.head - offset).unwrap_or(COPY_BYTES);
            piece.clear();
            let count = ring.read_at(offset, left.min(COPY_BYTES), &mut piece).map_err(|_| changed())?;
            write(&piece, at)?;
            at += count as u64;
            offset += count as u64;
        }
        Ok(())
    }
}

pub(crate) struct ArchivedLog {
    segment: Arc<OwnedFd>,
    location: ArchiveLocation,
    exit: Exit,
    free_on_drop: AtomicBool,
    /// Not written back: the next server sends the bytes after the recorded offset again rather than not at all.
    resume_offset: AtomicU64,
}

impl ArchivedLog {
    pub(crate) fn new(segment: Arc<OwnedFd>, location: ArchiveLocation, exit: Exit) -> Self {
        Self {
            segment,
            location,
            exit,
            free_on_drop: AtomicBool::new(false),
            resume_offset: AtomicU64::new(location.resume_offset),
        }
    }

    pub(crate) fn location(&self) -> &ArchiveLocation {
        &self.location
    }

    /// Frees the log's pages when its last reader is gone: no record refers to it.
    pub(crate) fn free_pages_on_drop(&self) {
        self.free_on_drop.store(true, Relaxed);
    }

    pub(super) fn resume_offset(&self) -> u64 {
        self.resume_offset.load(Relaxed)
    }

    pub(super) fn raise_resume_offset(&self, offset: u64) {
        self.resume_offset.fetch_max(offset, Relaxed);
    }

    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    pub(super) fn marks(&self) -> Range<u64> {
        self.location.first_mark..self.location.first_mark + self.location.marks
    }

    pub(super) fn mark(&self, number: u64) -> Option<ChunkMark> {
        if !self.marks().contains(&number) {
            return None;
        }
        let mut raw = [0; MARK_BYTES as usize];
        let at = self.location.at + (number - self.location.first_mark) * MARK_BYTES;
        // A read within the length of a memfd is never short; treat one that is as a missing mark.
        if rustix::io::pread(&*self.segment, &mut raw, at) != Ok(raw.len()) {
            return None;
        }
        let word =
            |at: usize| raw.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        let packed = word(8);
        let stream = Stream::from_u8(packed as u8)?;
        Some(ChunkMark { sequence: number + 1, offset: word(0), stream, at_ms: packed >> 8 })
    }

    pub(super) fn mark_of(&self, offset: u64) -> Option<u64> {
        find_mark(self.marks(), offset, |number| self.mark(number))
    }

    pub(super) fn read_at(&self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) -> Result<usize, OverwrittenError> {
        let ArchiveLocation { tail, head, .. } = self.location;
        if offset >= head {
            return Ok(0);
        }
        if offset < tail {
            return Err(OverwrittenError { oldest: tail });
        }
        let wanted = max_bytes.min(usize::try_from(head - offset).unwrap_or(usize::MAX));
        let at = self.location.bytes_at() + (offset - tail);
        let start = out.len();
        out.reserve_exact(wanted);
        match rustix::io::pread(&*self.segment, spare_capacity(out), at) {
            Ok(count) if count > 0 || wanted == 0 => {
                // The spare capacity may be larger than requested.
                out.truncate(start + count.min(wanted));
                Ok(count.min(wanted))
            }
            _ => Err(OverwrittenError { oldest: offset + 1 }),
        }
    }
}

impl Drop for ArchivedLog {
    fn drop(&mut self) {
        if *self.free_on_drop.get_mut() && self.location.len() > 0 {
            // The segment may still be needed for other logs.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&*self.segment, flags, self.location.at, self.location.len());
        }
    }
}
