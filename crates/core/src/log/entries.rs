//! A position among the entries of a log, in memory or in the history.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use outlive_history::Block;
use outlive_holder::log::ChunkMark;

use super::cold::{self, BlockLoader};
use super::entry_cursor::Entry;
use super::{Log, Step, StreamFilter};
use crate::history::reader::{BlockKey, StoredLog};

pub(super) struct Entries {
    /// Number of the next mark, which is the sequence of the entry before it.
    pub(super) next: u64,
    filter: StreamFilter,
    /// An entry was read or named before: entries that are missing from now on are gaps.
    started: bool,
    /// `next` must be moved back first.
    tail: Option<TailSearch>,
    /// The start of the entry before `next`. The rest of it is in another block, or in memory.
    partial: Option<Entry>,
    /// The mark that was last looked up in the history, and how.
    lookup_key: Option<(u64, BlockKey)>,
    /// These come before everything else.
    queued: VecDeque<EntryStep>,
    blocks: BlockLoader,
}

/// The search for the last entries of some streams, continued in the history.
#[derive(Clone, Copy)]
struct TailSearch {
    /// This many more are wanted.
    left: u64,
    /// Number of the first mark that may be found.
    first: u64,
}

pub(super) enum EntryStep {
    Entry(Entry),
    Gap { from_sequence: u64, to_sequence: u64 },
}

/// Where the history has the next entry.
enum Lookup {
    /// In this block; its mark has this index.
    Found(Arc<Block>, usize),
    /// Nowhere: the marks before this number are missing.
    MissingUntil(u64),
    NeedsBlock,
}

impl Entries {
    /// Before the entries with a sequence greater than `after`.
    pub(super) fn after(after: u64, filter: StreamFilter) -> Self {
        let (started, queued, blocks) = (after > 0, VecDeque::new(), BlockLoader::default());
        Self { next: after, filter, started, tail: None, partial: None, lookup_key: None, queued, blocks }
    }

    /// Before the last `count` entries of the filtered streams, of those with a sequence greater than `after`.
    pub(super) fn tail(log: &Log, after: u64, count: u64, filter: StreamFilter) -> Self {
        let marks = log.memory_marks();
        let first = marks.start.max(after);
        let mut next = marks.end.max(first);
        let mut left = count;
        while next > first && left > 0 {
            next -= 1;
            left -= u64::from(log.mark(next).is_some_and(|mark| filter.matches(mark.stream)));
        }
        let first_stored = log.stored().and_then(|stored| stored.marks()).map(|marks| marks.start.max(after));
        let tail = first_stored.filter(|first| *first < next && left > 0).map(|first| TailSearch { left, first });
        Self { next, started: false, tail, ..Self::after(after, filter) }
    }

    /// Puts an entry back: it comes next again.
    pub(super) fn put_back(&mut self, entry: Entry) {
        self.queued.push_front(EntryStep::Entry(entry));
    }

    pub(super) fn step(&mut self, log: &Log) -> Step<EntryStep> {
        if let Some(queued) = self.queued.pop_front() {
            return Step::Item(queued);
        }
        if self.tail.is_some() {
            return Step::NeedsBlock;
        }
        loop {
            // Read the head first: the marks then cover everything before it.
            let head = log.head();
            let marks = log.memory_marks();
            let step = if let Some(entry) = self.partial.take() {
                self.complete(log, head, entry)
            } else if self.next >= marks.end {
                return Step::AtHead;
            } else if let Some(mark) = log.mark(self.next) {
                self.step_in_memory(log, head, mark)
            } else {
                self.step_in_history(log)
            };
            if let ControlFlow::Break(step) = step {
                return step;
            }
        }
    }

    /// Loads the block that the next step needs.
    pub(super) async fn load(&mut self, log: &Log) {
        let Some(stored) = log.stored() else { return };
        match self.tail {
            Some(search) => {
                self.next = find_tail(stored, self.next, search, self.filter).await;
                self.tail = None;
            }
            None => self.blocks.load(stored).await,
        }
    }

    fn step_in_memory(&mut self, log: &Log, head: u64, mark: ChunkMark) -> ControlFlow<Step<EntryStep>> {
        if mark.offset >= head {
            return ControlFlow::Break(Step::AtHead);
        }
        if !self.filter.matches(mark.stream) {
            self.next += 1;
            return ControlFlow::Continue(());
        }
        let oldest = log.memory_tail();
        if oldest > mark.offset {
            // The first bytes are overwritten, and the rest would look like a whole entry.
            match self.look_up(log, Some(mark.offset)) {
                Lookup::NeedsBlock => return ControlFlow::Break(Step::NeedsBlock),
                Lookup::Found(block, index) if block.offset < oldest => return self.read_block(&block, index),
                Lookup::Found(..) | Lookup::MissingUntil(_) if self.started => return self.skip_missing(mark.sequence),
                Lookup::Found(..) | Lookup::MissingUntil(_) => {}
            }
        }
        let end = log.mark(self.next + 1).map_or(head, |next| next.offset.min(head));
        let offset = mark.offset.max(oldest);
        match read(log, offset, end) {
            Some(bytes) => {
                self.blocks.clear();
                self.start_entry(&mark, offset, bytes)
            }
            // Overwritten while it was read: the next turn looks in the history.
            None if log.memory_tail() > offset => ControlFlow::Continue(()),
            None => self.skip_missing(mark.sequence),
        }
    }

    fn step_in_history(&mut self, log: &Log) -> ControlFlow<Step<EntryStep>> {
        match self.look_up(log, None) {
            Lookup::Found(block, index) => self.read_block(&block, index),
            Lookup::MissingUntil(number) => self.skip_missing(number),
            Lookup::NeedsBlock => ControlFlow::Break(Step::NeedsBlock),
        }
    }

    /// `offset`: where the next entry starts, if known.
    fn look_up(&mut self, log: &Log, offset: Option<u64>) -> Lookup {
        let next = self.next;
        let is_current =
            |block: &&Arc<Block>| offset.is_none_or(|offset| (block.offset..block.end()).contains(&offset));
        if let Some(found) = self.blocks.block().filter(is_current).and_then(|block| find(block, next)) {
            return found;
        }
        let Some(stored) = log.stored().filter(|stored| stored.reaches_mark(next)) else {
            return Lookup::MissingUntil(log.memory_marks().start.max(next + 1));
        };
        let key = offset.map_or_else(|| self.key_of_next(stored), BlockKey::Offset);
        let Some(answer) = self.blocks.answer(log, key) else { return Lookup::NeedsBlock };
        if let Some(found) = answer.block.as_ref().and_then(|block| find(block, next)) {
            return found;
        }
        let first = answer.block.as_ref().and_then(|block| block.marks.first()).map(|mark| mark.sequence - 1);
        let memory_mark = answer.request.memory_mark.max(next + 1);
        Lookup::MissingUntil(first.filter(|first| *first > next).map_or(memory_mark, |first| first.min(memory_mark)))
    }

    /// By offset where that is known: a block that has only the rest of a chunk is not found by its mark.
    fn key_of_next(&mut self, stored: &StoredLog) -> BlockKey {
        let next = self.next;
        let last = self.blocks.block().filter(|block| block.marks.last().is_some_and(|last| last.sequence == next));
        let key = match (last, self.lookup_key) {
            (Some(block), _) => BlockKey::Offset(block.end()),
            (None, Some((number, key))) if number == next => key,
            _ => match stored.offsets().zip(stored.marks()) {
                Some((offsets, marks)) if next <= marks.start => BlockKey::Offset(offsets.start),
                _ => BlockKey::Mark(next),
            },
        };
        self.lookup_key = Some((next, key));
        key
    }

    /// The entries before mark `number` are missing.
    fn skip_missing(&mut self, number: u64) -> ControlFlow<Step<EntryStep>> {
        let from_sequence = std::mem::replace(&mut self.next, number) + 1;
        if !self.started {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Step::Item(EntryStep::Gap { from_sequence, to_sequence: number + 1 }))
    }

    fn read_block(&mut self, block: &Block, index: usize) -> ControlFlow<Step<EntryStep>> {
        let mark = block.marks[index];
        if !self.filter.matches(mark.stream) {
            self.next += 1;
            return ControlFlow::Continue(());
        }
        let offset = mark.offset.max(block.offset);
        if offset > mark.offset && self.started {
            return self.skip_missing(mark.sequence);
        }
        let end = cold::chunk_end(block, index);
        let bytes = block.bytes.slice((offset - block.offset) as usize..(end - block.offset) as usize);
        let is_whole = index + 1 < block.marks.len();
        let step = self.start_entry(&mark, offset, bytes);
        match step {
            ControlFlow::Break(Step::Item(EntryStep::Entry(entry))) if !is_whole => {
                self.partial = Some(entry);
                ControlFlow::Continue(())
            }
            step => step,
        }
    }

    fn start_entry(&mut self, mark: &ChunkMark, offset: u64, bytes: Bytes) -> ControlFlow<Step<EntryStep>> {
        self.next += 1;
        self.started = true;
        let (sequence, stream, at_ms) = (mark.sequence, mark.stream, mark.at_ms);
        ControlFlow::Break(Step::Item(EntryStep::Entry(Entry { sequence, stream, at_ms, offset, bytes })))
    }

    /// Appends the rest of an entry that ends with its block. If what follows is missing, it may have been a rest: a gap
    /// that contains the entry's own sequence comes next.
    fn complete(&mut self, log: &Log, head: u64, mut entry: Entry) -> ControlFlow<Step<EntryStep>> {
        let at = entry.offset + entry.bytes.len() as u64;
        if at >= head {
            return ControlFlow::Break(Step::Item(EntryStep::Entry(entry)));
        }
        if let Some(block) = self.blocks.containing(at) {
            let index = cold::mark_at(block, at);
            let is_rest = block.marks[index].sequence == entry.sequence;
            if is_rest {
                let rest = (at - block.offset) as usize..(cold::chunk_end(block, index) - block.offset) as usize;
                entry.bytes = [&entry.bytes[..], &block.bytes[rest]].concat().into();
            }
            if is_rest && index + 1 == block.marks.len() {
                self.partial = Some(entry);
                return ControlFlow::Continue(());
            }
            return ControlFlow::Break(Step::Item(EntryStep::Entry(entry)));
        }
        if at >= log.memory_tail() {
            let end = log.mark(entry.sequence).map_or(head, |next| next.offset.min(head));
            let rest = if end > at { read(log, at, end) } else { Some(Bytes::new()) };
            // The mark after the entry may have been overwritten before it was read, but only together with the rest.
            if let Some(rest) = rest.filter(|_| at >= log.memory_tail()) {
                if !rest.is_empty() {
                    entry.bytes = [entry.bytes, rest].concat().into();
                }
                return ControlFlow::Break(Step::Item(EntryStep::Entry(entry)));
            }
        }
        if log.is_cold(at) && self.blocks.answer(log, BlockKey::Offset(at)).is_none() {
            self.partial = Some(entry);
            return ControlFlow::Break(Step::NeedsBlock);
        }
        let (from_sequence, to_sequence) = (entry.sequence, entry.sequence + 1);
        self.queued.push_back(EntryStep::Gap { from_sequence, to_sequence });
        ControlFlow::Break(Step::Item(EntryStep::Entry(entry)))
    }
}

fn find(block: &Arc<Block>, number: u64) -> Option<Lookup> {
    cold::mark_index(block, number).map(|index| Lookup::Found(Arc::clone(block), index))
}

/// Moves back from mark `next` to the first of the wanted entries.
async fn find_tail(stored: &Arc<StoredLog>, mut next: u64, search: TailSearch, filter: StreamFilter) -> u64 {
    let TailSearch { mut left, first } = search;
    // As many as there are, or more: nothing has to be searched.
    while left > 0 && left < next.saturating_sub(first) {
        let block = stored.block(BlockKey::Mark(next - 1)).await;
        let before = next;
        if let Some(block) = block {
            (next, left) = cold::count_back(&block, before, left, first, filter);
        }
        if next == before {
            // Mark `next - 1` is missing.
            match cold::stored_mark_before(stored, first, next - 1).await {
                Some(number) => next = number + 1,
                None => return first,
            }
        }
    }
    if left > 0 { first } else { next }
}

fn read(log: &Log, offset: u64, end: u64) -> Option<Bytes> {
    let wanted = usize::try_from(end.checked_sub(offset)?).ok()?;
    let mut bytes = Vec::new();
    while bytes.len() < wanted {
        let count = log.read_at(offset + bytes.len() as u64, wanted - bytes.len(), &mut bytes).ok()?;
        if count == 0 {
            break;
        }
    }
    (!bytes.is_empty()).then(|| bytes.into())
}
