//! Opening a store after a clean end, a crash or a power loss; and the same repairs after an error at run time.
//!
//! A raw segment that is not full and has no mark in the index was being written when the power was lost, and its end
//! may be missing. Segments after it are dropped, so that output always ends where the loss begins and has no hole.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::append::Appender;
use super::cache::BlockCache;
use super::files::{self, FileName};
use super::index::{Change, Index, MetaKey};
use super::state::{Extent, Raw, State};
use super::{OpenStore, StoreOptions, is_damage, lock};
use crate::disk::{self, Disk, DiskFile};
use crate::format::{self, RawScan};
use crate::{Boot, Limits};

/// Raw segments are at most this part of the total, so that small limits leave room for several.
const SEGMENT_SHARE_DIVISOR: u64 = 16;
const MIN_SEGMENT_BYTES: u64 = 4 * 1024;

impl OpenStore {
    pub(super) fn recover(disk: Arc<dyn Disk>, limits: Limits, boot: Boot, options: StoreOptions) -> io::Result<Self> {
        let is_new = disk
            .names()?
            .iter()
            .all(|name| matches!(FileName::parse(name), FileName::Temporary | FileName::Other) && name != files::INDEX);
        let index = Index::open(disk.clone(), is_new, options.is_retry)?;
        let share = (limits.max_bytes / SEGMENT_SHARE_DIVISOR).max(MIN_SEGMENT_BYTES);
        let store = Self {
            disk,
            index,
            limits,
            segment_bytes: options.segment_bytes.min(share),
            boot,
            appender: Mutex::new(Appender::default()),
            syncing: Mutex::new(()),
            maintenance: Mutex::new(()),
            state: Mutex::new(State::new()),
            cache: Mutex::new(BlockCache::new(options.cache_bytes)),
        };
        store.settle()?;
        store.remove_stray_files()?;
        store.recover_raws()?;
        store.record_boot()?;
        Ok(store)
    }

    /// Waits for other maintenance, and repairs what an error left.
    pub(super) fn begin_maintenance(&self) -> io::Result<MutexGuard<'_, ()>> {
        let guard = lock(&self.maintenance);
        self.settle_if_needed()?;
        if self.state().has_stray_files {
            self.remove_stray_files()?;
        }
        Ok(guard)
    }

    pub(super) fn settle_if_needed(&self) -> io::Result<()> {
        if self.state().is_unsettled { self.settle() } else { Ok(()) }
    }

    /// Brings the state in memory in line with the index.
    fn settle(&self) -> io::Result<()> {
        // No commit may come between the read and its use.
        let _writer = self.index.write();
        let known: Vec<Arc<str>> = self.state().processes.keys().cloned().collect();
        let (floor, next_number, segments, tombstones) = self.index.read(|view| {
            let number = |key| Ok::<_, redb::Error>(view.meta(key)?.unwrap_or(0));
            Ok((number(MetaKey::RawFloor)?, number(MetaKey::NextNumber)?, view.segments()?, view.tombstones()?))
        })?;
        let first_blocks = self.index.read(|view| {
            let first = |process: &Arc<str>| Ok(view.ends(process)?.map(|(first, _)| first.entry));
            known.iter().map(first).collect::<Result<Vec<_>, redb::Error>>()
        })?;
        let mut state = self.state();
        state.next_number = state.next_number.max(next_number).max(floor);
        state.segments = segments.into_iter().collect();
        for tombstone in tombstones {
            state.next_number = state.next_number.max(tombstone.raw_end);
            if tombstone.purge && !state.is_deleted(&tombstone.id) {
                state.mark_deleted(&tombstone.id);
            } else if !tombstone.purge && !state.retired.contains(tombstone.id.as_str()) {
                state.mark_retired(&tombstone.id);
            }
        }
        state.remove_raws_before(floor);
        for (process, first) in known.iter().zip(&first_blocks) {
            state.refresh_span_start(process, first.as_ref());
        }
        state.generation += 1;
        state.is_unsettled = false;
        Ok(())
    }

    /// Removes files that the index does not name, and raw segments that are sealed.
    pub(super) fn remove_stray_files(&self) -> io::Result<()> {
        self.state().has_stray_files = true;
        for name in self.disk.names()? {
            let is_stray = {
                let mut state = self.state();
                match FileName::parse(&name) {
                    FileName::Temporary => true,
                    FileName::Segment(number) => {
                        state.next_number = state.next_number.max(number.saturating_add(1));
                        !state.segments.contains_key(&number)
                    }
                    FileName::Raw(number) => {
                        state.next_number = state.next_number.max(number.saturating_add(1));
                        number < state.raw_floor
                    }
                    FileName::Other => false,
                }
            };
            if is_stray {
                self.disk.remove(&name)?;
                if let FileName::Segment(number) = FileName::parse(&name) {
                    lock(&self.cache).remove_segment(number);
                }
            }
        }
        self.state().has_stray_files = false;
        Ok(())
    }

    fn recover_raws(&self) -> io::Result<()> {
        let mut numbers: Vec<u64> = self.disk.names()?.iter().filter_map(|name| raw_number(name)).collect();
        numbers.sort_unstable();
        let (short, full_bytes, retired) = self.index.read(|view| {
            let full_bytes = view.meta(MetaKey::SegmentBytes)?.unwrap_or(self.segment_bytes);
            let tombstones = view.tombstones()?.into_iter().map(|tombstone| tombstone.id);
            Ok((view.short_raws()?, full_bytes, tombstones.collect::<std::collections::HashSet<_>>()))
        })?;
        let mut changes = vec![Change::Meta(MetaKey::SegmentBytes, self.segment_bytes)];
        let mut is_after_loss = false;
        for number in numbers {
            let name = files::raw(number);
            if is_after_loss {
                tracing::warn!(number, "history: a segment after lost output is dropped");
                self.disk.remove(&name)?;
                continue;
            }
            let file: Arc<dyn DiskFile> = self.disk.open(&name, false)?.into();
            let scan = match format::scan_raw(&*file) {
                Ok(scan) => Some(scan),
                Err(error) if is_damage(&error) => None,
                Err(error) => return Err(error),
            };
            let is_marked = short.contains(&number);
            let is_full = scan.as_ref().is_some_and(|scan| Raw::is_full(scan.valid_len, scan.frames.len(), full_bytes));
            is_after_loss = !is_marked && !is_full;
            // A torn frame belongs to no process, so that no delete would find it.
            let valid_len = scan.as_ref().map_or(0, |scan| scan.valid_len);
            if file.len()? > valid_len {
                file.set_len(valid_len)?;
            }
            if !is_marked {
                // A sync of it may have failed.
                disk::write_again(&*file, 0..valid_len)?;
            }
            file.sync()?;
            changes.push(Change::PutShortRaw(number));
            self.adopt_raw(number, file, scan, &retired)?;
        }
        // Removals and names first: a marked segment must not be followed by one that was dropped.
        self.disk.sync_directory()?;
        self.commit(&mut self.index.write(), &changes)?;
        self.state().raws.values_mut().for_each(|raw| raw.is_name_synced = true);
        Ok(())
    }

    /// Takes over a raw segment of an earlier run. It is closed: each run starts its own.
    fn adopt_raw(
        &self,
        number: u64,
        file: Arc<dyn DiskFile>,
        scan: Option<RawScan>,
        ignored: &std::collections::HashSet<String>,
    ) -> io::Result<()> {
        let len = file.len()?;
        let frames = scan.map_or_else(Vec::new, |scan| scan.frames);
        let header_len = frames.first().map_or(0, |frame| frame.at);
        let mut raw = Raw::new(file, len);
        (raw.is_closed, raw.unsynced_bytes, raw.frame_count) = (true, 0, frames.len());
        raw.dead_bytes = len - header_len;
        self.state().raws.insert(number, raw);
        for frame in frames {
            let header = frame.header;
            if ignored.contains(&header.process) {
                continue;
            }
            // A write that failed and was repeated may be there twice.
            let Some(end) = self.stored_end(&header.process)? else { continue };
            if header.end() <= end {
                continue;
            }
            let extent = Extent {
                offset: header.offset,
                raw: number,
                at: frame.at,
                first_mark: header.first_mark,
                end_mark: header.end_mark(),
                last_at_ms: header.last_at_ms,
                len: header.len,
                stored_len: frame.stored_len,
            };
            let mut state = self.state();
            state.add_extent(&header.process, extent);
            if let Some(raw) = state.raws.get_mut(&number) {
                raw.dead_bytes -= u64::from(frame.stored_len);
            }
        }
        Ok(())
    }

    /// Notes this boot, and when earlier ones ended: records without an end are as old as their boot.
    fn record_boot(&self) -> io::Result<()> {
        let (mut boots, running) = self.index.read(|view| Ok((view.boots()?, view.running()?)))?;
        let last_output_ms = self.state().raws.values().map(|raw| raw.last_at_ms).max().unwrap_or(0);
        let mut changes = vec![self.boot_change()];
        if let Some(last) = boots.iter_mut().rfind(|boot| boot.id != self.boot.id)
            && last.last_write_at_ms < last_output_ms
        {
            last.last_write_at_ms = last_output_ms;
            changes.push(Change::PutBoot(last.clone()));
        }
        for (kind, id) in running {
            let Some(record) = self.index.read(|view| view.record(kind, &id))? else { continue };
            if record.boot != self.boot.id {
                let boot = boots.iter().find(|boot| boot.id == record.boot);
                let ended_at_ms = boot.map_or(record.created_at_ms, |boot| boot.last_write_at_ms);
                changes.push(Change::AssumeEnd(kind, id, ended_at_ms));
            }
        }
        self.commit(&mut self.index.write(), &changes)
    }
}

fn raw_number(name: &str) -> Option<u64> {
    match FileName::parse(name) {
        FileName::Raw(number) => Some(number),
        _ => None,
    }
}
