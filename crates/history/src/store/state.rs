//! What a store knows without reading the disk: raw segments, the extents in them, and the sizes of sealed segments.
//!
//! The lock of this state is never held during a disk access, so that readers and the appending thread do not wait.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::{Change, MetaKey, SegmentRow};
use crate::Span;
use crate::disk::DiskFile;
use crate::format::BlockEntry;

/// Deleted ids that are remembered after their purge: a late append or record of them is still ignored.
const MAX_PURGED_IDS: usize = 4096;

#[derive(Default)]
pub(super) struct State {
    /// Processes with bytes in raw segments, or with a span that is in use.
    pub(super) processes: HashMap<Arc<str>, ProcessState>,
    pub(super) raws: BTreeMap<u64, Raw>,
    /// The same as in the index.
    pub(super) segments: BTreeMap<u64, SegmentRow>,
    /// Ids that were deleted: nothing of them is read, and nothing is written.
    pub(super) deleted: HashSet<Arc<str>>,
    /// Ids that the limits removed, with a tombstone because raw segments have bytes of them.
    pub(super) retired: HashSet<Arc<str>>,
    /// The oldest of the deleted ids that left the disk come first.
    purged: VecDeque<Arc<str>>,
    /// For the next raw or sealed segment. Numbers are not reused.
    pub(super) next_number: u64,
    /// Counts how often bytes moved from raw segments into the index or were removed from it. What was read from the
    /// index before is then outdated.
    pub(super) generation: u64,
    /// Raw segments with lower numbers are sealed.
    pub(super) raw_floor: u64,
    /// Whether a commit of the index failed, so that it may differ from this state.
    pub(super) is_unsettled: bool,
    /// Whether files may be left that the index does not know, or no longer needs.
    pub(super) has_stray_files: bool,
}

pub(super) struct ProcessState {
    /// Pieces in raw segments, by offset. Everything that is sealed comes before it.
    pub(super) extents: VecDeque<Extent>,
    pub(super) span: Arc<Span>,
    /// Bytes of frames that were added since its limit was last enforced.
    pub(super) grown_bytes: u64,
}

impl ProcessState {
    pub(super) fn new(span: Arc<Span>) -> Self {
        // Many processes have one frame.
        Self { extents: VecDeque::with_capacity(1), span, grown_bytes: 0 }
    }
}

/// A frame in a raw segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) raw: u64,
    /// Position of the frame in the file.
    pub(super) at: u64,
    pub(super) first_mark: u64,
    pub(super) end_mark: u64,
    pub(super) last_at_ms: u64,
    pub(super) len: u32,
    pub(super) stored_len: u32,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

pub(super) struct Raw {
    pub(super) file: Arc<dyn DiskFile>,
    /// Where the next frame goes; the length of the file, unless its end is torn.
    pub(super) len: u64,
    /// Frames that were appended, or found when the store was opened.
    pub(super) frame_count: usize,
    /// Bytes of frames that can be read.
    pub(super) live_bytes: u64,
    /// Bytes that are of no use: frames that were removed, and a torn end.
    pub(super) dead_bytes: u64,
    pub(super) is_closed: bool,
    /// The last bytes of the file that no sync has made durable.
    pub(super) unsynced_bytes: u64,
    /// Whether a sync has failed: the unsynced bytes must be written again before the next one.
    pub(super) is_sync_doubtful: bool,
    /// Whether the name of the file is durable.
    pub(super) is_name_synced: bool,
    /// Whether it was closed before it was full, and the index does not know it yet.
    pub(super) needs_short_mark: bool,
    /// Time of its newest chunk.
    pub(super) last_at_ms: u64,
}

/// A raw segment is closed when it has this many frames: each takes memory until it is sealed. Recovery knows full
/// segments by it, so a higher number needs a new version of the index.
const MAX_RAW_FRAMES: usize = 1024;

impl Raw {
    /// Whether a raw segment of this content was closed because it is full, and not by a crash.
    pub(super) fn is_full(len: u64, frame_count: usize, segment_bytes: u64) -> bool {
        len >= segment_bytes || frame_count >= MAX_RAW_FRAMES
    }

    /// A new file with a header of `len` bytes.
    pub(super) fn new(file: Arc<dyn DiskFile>, len: u64) -> Self {
        Self {
            file,
            len,
            frame_count: 0,
            live_bytes: 0,
            dead_bytes: 0,
            is_closed: false,
            unsynced_bytes: len,
            is_sync_doubtful: false,
            is_name_synced: false,
            needs_short_mark: false,
            last_at_ms: 0,
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self { next_number: 1, ..Self::default() }
    }

    pub(super) fn allocate_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    pub(super) fn is_deleted(&self, id: &str) -> bool {
        self.deleted.contains(id)
    }

    /// Adds a frame that is in a raw segment.
    pub(super) fn add_extent(&mut self, process: &str, extent: Extent) {
        if let Some(raw) = self.raws.get_mut(&extent.raw) {
            raw.live_bytes += u64::from(extent.stored_len);
            raw.last_at_ms = raw.last_at_ms.max(extent.last_at_ms);
        }
        let Some(state) = self.processes.get_mut(process) else { return };
        state.grown_bytes += u64::from(extent.stored_len);
        let was_empty = state.span.start.load(Ordering::Relaxed) == state.span.end.load(Ordering::Relaxed);
        if was_empty {
            state.span.start.store(extent.offset, Ordering::Relaxed);
            state.span.first_mark.store(extent.first_mark, Ordering::Relaxed);
        }
        state.span.end_mark.store(extent.end_mark, Ordering::Release);
        state.span.end.store(extent.end(), Ordering::Release);
        state.extents.push_back(extent);
    }

    /// Forgets the first extents of a process while `condition` holds. Returns the bytes of their frames.
    pub(super) fn drop_extents(&mut self, process: &str, mut condition: impl FnMut(&Extent) -> bool) -> u64 {
        let Some(state) = self.processes.get_mut(process) else { return 0 };
        let mut dropped = 0;
        while let Some(extent) = state.extents.front().copied().filter(&mut condition) {
            state.extents.pop_front();
            dropped += u64::from(extent.stored_len);
            if let Some(raw) = self.raws.get_mut(&extent.raw) {
                raw.live_bytes -= u64::from(extent.stored_len);
                raw.dead_bytes += u64::from(extent.stored_len);
            }
        }
        dropped
    }

    /// Moves the start of a span to the oldest byte that is left: of the first sealed block, or else in a raw segment.
    pub(super) fn refresh_span_start(&mut self, process: &str, first_sealed: Option<&BlockEntry>) {
        let Some(known) = self.processes.get(process) else { return };
        let span = &known.span;
        let (start, first_mark) = match (first_sealed, known.extents.front()) {
            (Some(first), _) => (first.offset, first.first_mark),
            (None, Some(first)) => (first.offset, first.first_mark),
            (None, None) => (span.end.load(Ordering::Relaxed), span.end_mark.load(Ordering::Relaxed)),
        };
        span.first_mark.store(first_mark, Ordering::Release);
        span.start.store(start, Ordering::Release);
    }

    /// Nothing of the process can be read or appended any more.
    pub(super) fn mark_deleted(&mut self, id: &str) {
        self.empty(id);
        if let Some(state) = self.processes.remove(id) {
            state.span.deleted.store(true, Ordering::Release);
        }
        self.deleted.insert(id.into());
    }

    /// The limits have removed a process. If it is started again, it is stored again, from the end of its span on.
    pub(super) fn mark_retired(&mut self, id: &str) {
        self.empty(id);
        self.retired.insert(id.into());
    }

    fn empty(&mut self, id: &str) {
        self.drop_extents(id, |_| true);
        if let Some(ProcessState { span, .. }) = self.processes.get(id) {
            span.start.store(span.end.load(Ordering::Relaxed), Ordering::Release);
            span.first_mark.store(span.end_mark.load(Ordering::Relaxed), Ordering::Release);
        }
        self.generation += 1;
    }

    /// A delete found nothing, but something may be about to be written.
    pub(super) fn mark_deleted_in_advance(&mut self, id: &str) {
        let id: Arc<str> = id.into();
        self.deleted.insert(id.clone());
        self.purged.push_back(id);
        self.forget_purged();
    }

    /// The bytes of deleted ids have left the disk.
    pub(super) fn mark_purged(&mut self, ids: &[String]) {
        for id in ids {
            if let Some(id) = self.deleted.get(id.as_str()) {
                self.purged.push_back(id.clone());
            }
        }
        self.forget_purged();
    }

    fn forget_purged(&mut self) {
        while self.purged.len() > MAX_PURGED_IDS {
            if let Some(id) = self.purged.pop_front() {
                self.deleted.remove(&id);
            }
        }
    }

    /// Follows changes that were committed to the index.
    pub(super) fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::PutSegment(number, row) => drop(self.segments.insert(*number, *row)),
                Change::RemoveSegment(number) => drop(self.segments.remove(number)),
                Change::Meta(MetaKey::RawFloor, floor) => self.remove_raws_before(*floor),
                Change::RemoveBlock(..) => self.generation += 1,
                Change::RemoveTombstone(id) => drop(self.retired.remove(id.as_str())),
                _ => {}
            }
        }
    }

    /// Forgets raw segments that were sealed.
    pub(super) fn remove_raws_before(&mut self, floor: u64) {
        self.raw_floor = floor;
        if self.raws.first_key_value().is_none_or(|(number, _)| *number >= floor) {
            return;
        }
        self.generation += 1;
        self.raws = self.raws.split_off(&floor);
        for state in self.processes.values_mut() {
            while state.extents.front().is_some_and(|extent| extent.raw < floor) {
                state.extents.pop_front();
            }
        }
        self.forget_idle_processes();
    }

    /// Forgets processes that the index knows completely and no reader uses.
    pub(super) fn forget_idle_processes(&mut self) {
        let is_used = |state: &ProcessState| {
            !state.extents.is_empty() || state.grown_bytes > 0 || Arc::strong_count(&state.span) > 1
        };
        self.processes.retain(|_, state| is_used(state));
        // A burst of short processes leaves a large table.
        if self.processes.len() < self.processes.capacity() / 8 {
            self.processes.shrink_to_fit();
        }
    }

    pub(super) fn unsynced_bytes(&self) -> u64 {
        self.raws.values().map(|raw| raw.unsynced_bytes).sum()
    }

    /// Bytes of raw and sealed segments.
    pub(super) fn segment_bytes(&self) -> u64 {
        let raws: u64 = self.raws.values().map(|raw| raw.len).sum();
        let sealed: u64 = self.segments.values().map(|row| row.len).sum();
        raws + sealed
    }
}
