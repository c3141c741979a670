//! Decoded blocks for the next reader: several clients often read the same part of a log.

use std::sync::Arc;

use crate::Block;

/// A search looks at all of them.
const MAX_BLOCKS: usize = 64;

/// Bounded; the block that was not used for the longest time goes first.
pub(super) struct BlockCache {
    max_bytes: usize,
    bytes: usize,
    /// Counts uses.
    clock: u64,
    blocks: Vec<CachedBlock>,
    /// Clock of the last trim.
    trimmed_at: u64,
}

struct CachedBlock {
    segment: u64,
    at: u64,
    used_at: u64,
    block: Arc<Block>,
}

impl BlockCache {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, clock: 0, blocks: Vec::new(), trimmed_at: 0 }
    }

    pub(super) fn get(&mut self, segment: u64, at: u64) -> Option<Arc<Block>> {
        self.clock += 1;
        let cached = self.blocks.iter_mut().find(|cached| cached.segment == segment && cached.at == at)?;
        cached.used_at = self.clock;
        Some(cached.block.clone())
    }

    pub(super) fn insert(&mut self, segment: u64, at: u64, block: Arc<Block>) {
        let bytes = cost(&block);
        if bytes > self.max_bytes || self.blocks.iter().any(|cached| cached.segment == segment && cached.at == at) {
            return;
        }
        while self.bytes + bytes > self.max_bytes || self.blocks.len() >= MAX_BLOCKS {
            let oldest = self.blocks.iter().enumerate().min_by_key(|(_, cached)| cached.used_at);
            let Some((index, _)) = oldest else { break };
            self.bytes -= cost(&self.blocks.swap_remove(index).block);
        }
        self.bytes += bytes;
        self.blocks.push(CachedBlock { segment, at, used_at: self.clock, block });
    }

    /// Drops what was not used since the last trim: the memory of an idle server is small.
    pub(super) fn trim(&mut self) {
        let trimmed_at = self.trimmed_at;
        self.retain(|cached| cached.used_at > trimmed_at);
        self.trimmed_at = self.clock;
    }

    pub(super) fn remove_segment(&mut self, segment: u64) {
        self.retain(|cached| cached.segment != segment);
    }

    /// Forgets the blocks of deleted ids with all others.
    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    fn retain(&mut self, keep: impl FnMut(&CachedBlock) -> bool) {
        self.blocks.retain(keep);
        self.bytes = self.blocks.iter().map(|cached| cost(&cached.block)).sum();
        if self.blocks.is_empty() {
            self.blocks = Vec::new();
        }
    }
}

fn cost(block: &Block) -> usize {
    block.bytes.len() + std::mem::size_of_val(block.marks.as_slice()) + size_of::<Block>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Arc<Block> {
        Arc::new(Block { offset: 0, marks: Vec::new(), bytes: vec![0; len].into() })
    }

    #[test]
    fn the_least_recently_used_block_makes_room() {
        let mut cache = BlockCache::new(3000);
        cache.insert(1, 0, block(1000));
        cache.insert(1, 1, block(1000));
        assert!(cache.get(1, 0).is_some());
        cache.insert(1, 2, block(1000));
        assert!(cache.get(1, 1).is_none());
        assert!(cache.get(1, 0).is_some() && cache.get(1, 2).is_some());
        assert!(cache.bytes <= 3000);
    }

    #[test]
    fn the_second_trim_without_a_use_releases_everything() {
        let mut cache = BlockCache::new(3000);
        assert!(cache.get(1, 0).is_none());
        cache.insert(1, 0, block(1000));
        cache.trim();
        assert!(cache.get(1, 0).is_some());
        cache.trim();
        cache.trim();
        assert!(cache.get(1, 0).is_none());
        assert_eq!(cache.bytes, 0);
    }
}
