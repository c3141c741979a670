//! The *cold* part of a log: bytes and marks that are no longer in memory and are read from the history, block by block.

use std::sync::Arc;

use outlive_history::Block;
use outlive_holder::log::Stream;
use tokio::task::JoinHandle;

use super::{Log, StreamFilter};
use crate::history::reader::{BlockKey, StoredLog};

/// A request for a block, and where memory began when it was made. Memory is checked first: a byte that it had lost by
/// then is in the history by then, or nowhere. What memory loses later may be stored later, so a gap ends at the latest
/// where memory began.
#[derive(Clone, Copy)]
pub(super) struct BlockRequest {
    pub(super) key: BlockKey,
    pub(super) memory_tail: u64,
    pub(super) memory_mark: u64,
}

pub(super) struct BlockAnswer {
    pub(super) request: BlockRequest,
    /// `None`: the history has nothing more.
    pub(super) block: Option<Arc<Block>>,
}

/// One reader's block, and the load of the next one.
#[derive(Default)]
pub(super) struct BlockLoader {
    answer: Option<BlockAnswer>,
    wanted: Option<BlockRequest>,
    /// A task, because the future that waits for it may be dropped and started again.
    loading: Option<(BlockRequest, JoinHandle<Option<Arc<Block>>>)>,
}

impl BlockLoader {
    pub(super) fn is_empty(&self) -> bool {
        self.answer.is_none()
    }

    /// Releases the memory of the block: the reader continues in memory.
    pub(super) fn clear(&mut self) {
        self.answer = None;
    }

    pub(super) fn block(&self) -> Option<&Arc<Block>> {
        self.answer.as_ref()?.block.as_ref()
    }

    /// The loaded block, if it contains the byte at `offset`.
    pub(super) fn containing(&self, offset: u64) -> Option<&Arc<Block>> {
        self.block().filter(|block| (block.offset..block.end()).contains(&offset))
    }

    /// The answer to this request, if it was the last one. Otherwise the block must be loaded first.
    pub(super) fn answer(&mut self, log: &Log, key: BlockKey) -> Option<&BlockAnswer> {
        if self.answer.as_ref().is_none_or(|answer| answer.request.key != key) {
            let (memory_tail, memory_mark) = (log.memory_tail(), log.memory_marks().start);
            self.wanted = Some(BlockRequest { key, memory_tail, memory_mark });
            return None;
        }
        self.answer.as_ref()
    }

    /// Loads the block that is wanted. Cancel safe: the next call continues with the same load.
    pub(super) async fn load(&mut self, stored: &Arc<StoredLog>) {
        let Some(wanted) = self.wanted else { return };
        if self.loading.as_ref().is_none_or(|(request, _)| request.key != wanted.key) {
            let stored = Arc::clone(stored);
            self.loading = Some((wanted, tokio::spawn(async move { stored.block(wanted.key).await })));
        }
        if let Some((request, task)) = &mut self.loading {
            let block = task.await.unwrap_or_default();
            self.answer = Some(BlockAnswer { request: *request, block });
            (self.loading, self.wanted) = (None, None);
        }
    }
}

/// Index of the mark whose chunk contains the byte at `offset` of the block.
pub(super) fn mark_at(block: &Block, offset: u64) -> usize {
    block.marks.partition_point(|mark| mark.offset <= offset).saturating_sub(1)
}

/// Index of the mark with this number.
pub(super) fn mark_index(block: &Block, number: u64) -> Option<usize> {
    let first = block.marks.first()?.sequence;
    let index = usize::try_from((number + 1).checked_sub(first)?).ok()?;
    (index < block.marks.len()).then_some(index)
}

/// Offset after the bytes of a chunk that are in the block.
pub(super) fn chunk_end(block: &Block, index: usize) -> u64 {
    block.marks.get(index + 1).map_or(block.end(), |next| next.offset)
}

/// The stream of the byte at `offset`, and the offset up to which bytes of the same stream follow. The search ends with
/// the chunk that exceeds `max_bytes`.
pub(super) fn same_stream_span(block: &Block, offset: u64, max_bytes: usize) -> (Stream, u64) {
    let index = mark_at(block, offset);
    let stream = block.marks[index].stream;
    let limit = offset.saturating_add(max_bytes as u64);
    let following = block.marks[index + 1..].iter();
    let end = following.take_while(|mark| mark.stream == stream && mark.offset < limit).count();
    (stream, chunk_end(block, index + end))
}

/// The number of the newest chunk before mark `before`, and not before `first`, whose first byte is stored.
pub(super) async fn stored_mark_before(stored: &Arc<StoredLog>, first: u64, before: u64) -> Option<u64> {
    // The first stored mark at or after a number grows with that number, so it can be searched by halves.
    let (mut low, mut high) = (first, before);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match stored_mark_from(stored, middle).await.filter(|number| *number < before) {
            Some(number) => {
                found = Some(number);
                low = number + 1;
            }
            None => high = middle,
        }
    }
    found
}

/// The number of the oldest chunk from mark `number` on whose first byte is stored.
async fn stored_mark_from(stored: &Arc<StoredLog>, mut number: u64) -> Option<u64> {
    loop {
        let block = stored.block(BlockKey::Mark(number)).await?;
        let starts_here = |mark: &&outlive_history::ChunkMark| mark.sequence > number && mark.offset >= block.offset;
        if let Some(mark) = block.marks.iter().find(starts_here) {
            return Some(mark.sequence - 1);
        }
        number = block.marks.last()?.sequence;
    }
}

/// Counts wanted entries backwards through a block, from mark `before` on. Returns the number of the oldest mark
/// that was visited, and how many more are wanted.
pub(super) fn count_back(block: &Block, before: u64, mut left: u64, first: u64, filter: StreamFilter) -> (u64, u64) {
    let mut next = before;
    for mark in block.marks.iter().rev().filter(|mark| mark.sequence <= before && mark.offset >= block.offset) {
        if left == 0 || mark.sequence <= first {
            break;
        }
        next = mark.sequence - 1;
        left -= u64::from(filter.matches(mark.stream));
    }
    (next, left)
}
