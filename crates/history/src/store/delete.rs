//! Removing records and blocks from the index. The bytes leave the disk later: see `purge.rs` and `rewrite.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::OpenStore;
use super::index::{BlockRow, Change, IndexWriter, Tombstone, View};
use super::lock;
use crate::RecordKind;

/// Why records are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// By request: nothing of them may come back, and their bytes leave the disk soon.
    Deleted,
    /// By the limits.
    Retired,
}

/// Records and output that are removed together.
#[derive(Default)]
struct Targets {
    records: Vec<(RecordKind, String)>,
    ids: BTreeSet<String>,
    blocks: Vec<BlockRow>,
}

impl OpenStore {
    pub(super) fn delete(&self, kind: RecordKind, id: &str) -> io::Result<bool> {
        // A commit that failed before may have deleted it.
        let was_unsettled = self.state().is_unsettled;
        self.settle_if_needed()?;
        if self.state().is_deleted(id) {
            return Ok(was_unsettled);
        }
        self.remove_records(&[(kind, id.to_owned())], Removal::Deleted)
    }

    pub(super) fn delete_live(&self, kind: RecordKind, id: &str) -> io::Result<bool> {
        // An append that has begun is stored, and found.
        let _appender = lock(&self.appender);
        let found = self.delete(kind, id)?;
        if !found {
            self.state().mark_deleted_in_advance(id);
        }
        Ok(found)
    }

    /// Removes records with their children and output. False: there was nothing.
    pub(super) fn remove_records(&self, records: &[(RecordKind, String)], removal: Removal) -> io::Result<bool> {
        let mut writer = self.index.write();
        let targets = self.index.read(|view| {
            let mut targets = Targets::default();
            for (kind, id) in records {
                self.collect_targets(view, *kind, id, &mut targets)?;
            }
            Ok(targets)
        })?;
        if targets.ids.is_empty() {
            return Ok(false);
        }
        let mut changes = self.block_changes(&targets.blocks);
        changes.extend(targets.records.into_iter().map(|(kind, id)| Change::RemoveRecord(kind, id)));
        let raw_end = self.state().next_number;
        let has_dead_frames = self.state().raws.values().any(|raw| raw.dead_bytes > 0);
        for id in &targets.ids {
            // Bytes in a raw segment could come back, even if it cannot be read now.
            if removal == Removal::Deleted || has_dead_frames || self.has_extents(id) {
                let purge = removal == Removal::Deleted;
                changes.push(Change::PutTombstone(Tombstone { id: id.clone(), raw_end, purge }));
            }
        }
        self.commit(&mut writer, &changes)?;
        {
            let mut state = self.state();
            for id in &targets.ids {
                match removal {
                    Removal::Deleted => state.mark_deleted(id),
                    Removal::Retired => state.mark_retired(id),
                }
            }
        }
        lock(&self.cache).clear();
        Ok(true)
    }

    fn has_extents(&self, process: &str) -> bool {
        self.state().processes.get(process).is_some_and(|known| !known.extents.is_empty())
    }

    fn collect_targets(
        &self,
        view: &View,
        kind: RecordKind,
        id: &str,
        targets: &mut Targets,
    ) -> Result<(), redb::Error> {
        let mut waiting = vec![(kind, id.to_owned())];
        while let Some((kind, id)) = waiting.pop() {
            if targets.ids.contains(&id) {
                continue;
            }
            let has_record = view.record(kind, &id)?.is_some();
            let blocks = view.blocks_of(&id)?;
            if !has_record && blocks.is_empty() && !self.has_extents(&id) {
                continue;
            }
            waiting.extend(view.children(&id)?);
            targets.blocks.extend(blocks);
            if has_record {
                targets.records.push((kind, id.clone()));
            }
            targets.ids.insert(id);
        }
        Ok(())
    }

    /// The changes that remove blocks from the index.
    pub(super) fn block_changes(&self, blocks: &[BlockRow]) -> Vec<Change> {
        let mut removed_bytes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut changes = Vec::with_capacity(blocks.len() + 16);
        for BlockRow { segment, entry } in blocks {
            *removed_bytes.entry(*segment).or_default() += u64::from(entry.stored_len);
            changes.push(Change::RemoveBlock(entry.process.clone(), entry.offset));
        }
        let state = self.state();
        for (segment, bytes) in removed_bytes {
            if let Some(mut row) = state.segments.get(&segment).copied() {
                row.live_bytes = row.live_bytes.saturating_sub(bytes);
                changes.push(Change::PutSegment(segment, row));
            }
        }
        changes
    }

    /// Removes blocks of processes that stay.
    pub(super) fn remove_blocks(&self, writer: &mut IndexWriter<'_>, blocks: &[BlockRow]) -> io::Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.commit(writer, &self.block_changes(blocks))?;
        let processes: BTreeSet<&str> = blocks.iter().map(|row| row.entry.process.as_str()).collect();
        processes.into_iter().try_for_each(|process| self.refresh_span_start(process))
    }

    /// Moves the start of a span to the oldest byte that is left.
    pub(super) fn refresh_span_start(&self, process: &str) -> io::Result<()> {
        let first = self.index.read(|view| view.ends(process)).inspect_err(|_| self.state().is_unsettled = true)?;
        self.state().refresh_span_start(process, first.map(|(first, _)| first.entry).as_ref());
        Ok(())
    }
}
