//! Rewriting sealed segments without the blocks that were removed from the index. Blocks are copied as they are.

use std::io;

use super::index::{BlockRow, Change, MetaKey, SegmentRow};
use super::{OpenStore, files, is_damage};
use crate::format::{self, BlockEntry};

/// Sealed segments shorter than this part of a full one are small.
const SMALL_SEGMENT_DIVISOR: u64 = 8;
/// Small segments that are tolerated before they are joined.
const MAX_SMALL_SEGMENTS: usize = 8;

/// Which segments to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoroughness {
    /// Those of which at least half was removed.
    Lazy,
    /// All of which anything was removed.
    Eager,
}

impl OpenStore {
    /// Removes the space of blocks that were removed, and joins small segments.
    pub(super) fn collect_garbage(&self, thoroughness: Thoroughness) -> io::Result<()> {
        self.remove_dead_raws()?;
        self.remove_dead_segments()?;
        // The copies need space before the originals are removed.
        if !self.has_free_space()? {
            return Ok(());
        }
        let is_due = |row: &SegmentRow| match thoroughness {
            Thoroughness::Lazy => row.dead_bytes() * 2 >= row.block_bytes,
            Thoroughness::Eager => row.dead_bytes() > 0,
        };
        let small_bytes = self.segment_bytes / SMALL_SEGMENT_DIVISOR;
        let (due, small): (Vec<u64>, Vec<u64>) = {
            let state = self.state();
            let numbers = |wanted: &dyn Fn(&SegmentRow) -> bool| {
                state.segments.iter().filter(|(_, row)| wanted(row)).map(|(number, _)| *number).collect()
            };
            (numbers(&is_due), numbers(&|row| !is_due(row) && row.len < small_bytes))
        };
        self.rewrite_segments(&due)?;
        if small.len() > MAX_SMALL_SEGMENTS {
            self.rewrite_segments(&small)?;
        }
        if self.index.is_fragmented() { self.index.rewrite(&[]) } else { Ok(()) }
    }

    /// Removes sealed segments of which nothing is left.
    pub(super) fn remove_dead_segments(&self) -> io::Result<()> {
        let dead: Vec<Change> = {
            let state = self.state();
            let dead = state.segments.iter().filter(|(_, row)| row.live_bytes == 0);
            dead.map(|(number, _)| Change::RemoveSegment(*number)).collect()
        };
        if dead.is_empty() {
            return Ok(());
        }
        self.commit(&mut self.index.write(), &dead)?;
        self.remove_stray_files()
    }

    /// Writes the blocks that are left in `numbers` into as few new segments as possible.
    pub(super) fn rewrite_segments(&self, numbers: &[u64]) -> io::Result<()> {
        let mut group = Vec::new();
        let mut bytes = 0;
        for number in numbers {
            let live = self.state().segments.get(number).map_or(0, |row| row.live_bytes);
            if !group.is_empty() && bytes + live > self.segment_bytes {
                self.rewrite_group(&std::mem::take(&mut group))?;
                bytes = 0;
            }
            group.push(*number);
            bytes += live;
        }
        if group.is_empty() { Ok(()) } else { self.rewrite_group(&group) }
    }

    fn rewrite_group(&self, numbers: &[u64]) -> io::Result<()> {
        let mut old_rows: Vec<BlockRow> = Vec::new();
        for number in numbers {
            old_rows.extend(self.live_rows(*number)?);
        }
        old_rows.sort_unstable_by(|a, b| (&a.entry.process, a.entry.offset).cmp(&(&b.entry.process, b.entry.offset)));
        let number = self.state().allocate_number();
        let written = if old_rows.is_empty() { None } else { Some(self.copy_blocks(number, &old_rows)?) };
        self.commit_rewrite(numbers, &old_rows, number, written)?;
        self.remove_stray_files()
    }

    /// The blocks of a segment that readers get.
    pub(super) fn live_rows(&self, number: u64) -> io::Result<Vec<BlockRow>> {
        let Some(entries) = self.footer(number)? else {
            // Slow, and needed only for a file that is damaged or was removed by another program.
            return self.index.read(|view| view.blocks_in_segment(number));
        };
        self.index.read(|view| {
            let mut live = Vec::new();
            for entry in &entries {
                if view.is_live(number, entry)? {
                    live.push(BlockRow { segment: number, entry: entry.clone() });
                }
            }
            Ok(live)
        })
    }

    /// All blocks that a segment contains. `None`: it is damaged or missing.
    pub(super) fn footer(&self, number: u64) -> io::Result<Option<Vec<BlockEntry>>> {
        let entries = self.disk.open(&files::segment(number), false).and_then(|file| format::read_footer(&*file));
        match entries {
            Ok(entries) => Ok(Some(entries)),
            Err(error) if is_damage(&error) => {
                tracing::warn!(number, %error, "history: a segment is damaged");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn copy_blocks(&self, number: u64, rows: &[BlockRow]) -> io::Result<(Vec<BlockEntry>, u64)> {
        self.create_segment(number, |writer| {
            for BlockRow { segment, entry } in rows {
                let file = self.disk.open(&files::segment(*segment), false);
                match file.and_then(|file| format::read_stored_block(&*file, entry)) {
                    Ok(stored) => writer.append_stored(entry, &stored)?,
                    // It could not be read before either.
                    Err(error) if is_damage(&error) => {
                        tracing::warn!(process = entry.process, offset = entry.offset, %error, "history: a block is damaged");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn commit_rewrite(
        &self,
        old_numbers: &[u64],
        old_rows: &[BlockRow],
        number: u64,
        written: Option<(Vec<BlockEntry>, u64)>,
    ) -> io::Result<()> {
        let mut writer = self.index.write();
        // Output deleted since the segment was read stays deleted.
        let still_live: Vec<&BlockRow> = self.index.read(|view| {
            let mut live = Vec::with_capacity(old_rows.len());
            for row in old_rows {
                if view.is_live(row.segment, &row.entry)? {
                    live.push(row);
                }
            }
            Ok(live)
        })?;
        let key = |entry: &BlockEntry| (entry.process.clone(), entry.offset);
        let mut left: std::collections::HashSet<_> = still_live.iter().map(|row| key(&row.entry)).collect();
        let mut changes = vec![Change::Meta(MetaKey::NextNumber, self.state().next_number)];
        if let Some((entries, len)) = written {
            let mut row = SegmentRow { len, ..SegmentRow::default() };
            for entry in entries {
                row.block_bytes += u64::from(entry.stored_len);
                row.last_at_ms = row.last_at_ms.max(entry.last_at_ms);
                if left.remove(&key(&entry)) {
                    row.live_bytes += u64::from(entry.stored_len);
                    changes.push(Change::PutBlock(BlockRow { segment: number, entry }));
                }
            }
            changes.push(Change::PutSegment(number, row));
        }
        changes.extend(left.into_iter().map(|(process, offset)| Change::RemoveBlock(process, offset)));
        changes.extend(old_numbers.iter().copied().map(Change::RemoveSegment));
        self.commit(&mut writer, &changes)
    }
}
