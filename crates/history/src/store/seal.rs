//! Compressing raw segments into sealed ones.

use std::io;
use std::sync::Arc;

use super::index::{BlockRow, Change, MetaKey, SegmentRow};
use super::state::{Extent, Raw};
use super::{OpenStore, files, read};
use crate::disk::DiskFile;
use crate::format::{BlockEntry, BlockMerger, SegmentWriter};

/// Closed raw segments that wait until together they are long enough for a sealed one. More are sealed anyway.
const MAX_WAITING_RAWS: usize = 16;

/// The oldest closed raw segments.
struct SealGroup {
    /// Number after the last of them.
    end: u64,
    files: Vec<(u64, Arc<dyn DiskFile>)>,
}

impl OpenStore {
    pub(super) fn seal_next(&self) -> io::Result<bool> {
        let _maintenance = self.begin_maintenance()?;
        let Some(group) = self.next_group(false) else { return Ok(false) };
        // A sealed segment needs space before its raw ones are removed.
        if !self.has_free_space()? {
            return Ok(false);
        }
        self.seal(&group)?;
        Ok(true)
    }

    /// Seals raw segments before `end`, however short they are.
    pub(super) fn seal_before(&self, end: u64) -> io::Result<()> {
        while self.state().raws.first_key_value().is_some_and(|(number, _)| *number < end) {
            let Some(group) = self.next_group(true) else { break };
            self.seal(&group)?;
        }
        Ok(())
    }

    /// Removes the oldest raw segments of which nothing is left.
    pub(super) fn remove_dead_raws(&self) -> io::Result<()> {
        let end = {
            let state = self.state();
            let dead = state.raws.iter().take_while(|(_, raw)| raw.is_closed && raw.live_bytes == 0);
            dead.last().map(|(number, _)| number + 1)
        };
        end.map_or(Ok(()), |end| self.seal_before(end))
    }

    fn next_group(&self, force: bool) -> Option<SealGroup> {
        let state = self.state();
        let mut group = SealGroup { end: 0, files: Vec::new() };
        let (mut bytes, mut is_dead) = (0, true);
        for (number, raw) in state.raws.iter().take_while(|(_, raw)| raw.is_closed) {
            if bytes >= self.segment_bytes {
                break;
            }
            bytes += raw.live_bytes;
            is_dead &= raw.live_bytes == 0;
            group.end = number + 1;
            group.files.push((*number, raw.file.clone()));
        }
        let closed = state.raws.values().filter(|raw| raw.is_closed).count();
        // The file header does not count as live, so that a full raw segment has a little less.
        let is_full = |raw: &Raw| Raw::is_full(raw.len, raw.frame_count, self.segment_bytes);
        let has_full = group.files.iter().any(|(number, _)| is_full(&state.raws[number]));
        let is_ready = force || has_full || is_dead || bytes >= self.segment_bytes || closed > MAX_WAITING_RAWS;
        (is_ready && !group.files.is_empty()).then_some(group)
    }

    /// A failure leaves the raw segments as they are, and maybe a file that is removed later.
    fn seal(&self, group: &SealGroup) -> io::Result<()> {
        let processes = self.extents_before(group.end);
        let sealed = if processes.is_empty() { None } else { Some(self.write_segment(group, &processes)?) };
        self.commit_seal(group, sealed)?;
        self.remove_stray_files()
    }

    /// What of each process is in raw segments before `end`.
    fn extents_before(&self, end: u64) -> Vec<(Arc<str>, Vec<Extent>)> {
        let state = self.state();
        let extents = |known: &super::state::ProcessState| -> Vec<Extent> {
            known.extents.iter().take_while(|extent| extent.raw < end).copied().collect()
        };
        let mut processes: Vec<_> = state
            .processes
            .iter()
            .map(|(process, known)| (process.clone(), extents(known)))
            .filter(|(_, extents)| !extents.is_empty())
            .collect();
        processes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        processes
    }

    fn write_segment(
        &self,
        group: &SealGroup,
        processes: &[(Arc<str>, Vec<Extent>)],
    ) -> io::Result<(u64, Vec<BlockEntry>, u64)> {
        let number = self.state().allocate_number();
        let (entries, len) = self.create_segment(number, |writer| {
            for (process, extents) in processes {
                let mut merger = BlockMerger::new();
                for extent in extents {
                    let file = group.files.iter().find(|(raw, _)| *raw == extent.raw);
                    let (_, file) = file.ok_or_else(|| io::Error::other("a raw segment is missing"))?;
                    match read::read_frame(&**file, extent) {
                        Ok(frame) => merger.push(&frame).iter().try_for_each(|block| writer.append(process, block))?,
                        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                            tracing::warn!(%process, offset = extent.offset, %error, "history: a frame is damaged");
                        }
                        Err(error) => return Err(error),
                    }
                }
                merger.finish().iter().try_for_each(|block| writer.append(process, block))?;
            }
            Ok(())
        })?;
        Ok((number, entries, len))
    }

    /// Writes a sealed segment and makes it durable. It counts once the index contains it.
    pub(super) fn create_segment(
        &self,
        number: u64,
        write: impl FnOnce(&mut SegmentWriter<'_>) -> io::Result<()>,
    ) -> io::Result<(Vec<BlockEntry>, u64)> {
        let name = files::new_segment(number);
        let result = (|| {
            let file = self.disk.open(&name, true)?;
            let mut writer = SegmentWriter::new(&*file, number, &self.boot.id)?;
            write(&mut writer)?;
            let finished = writer.finish()?;
            file.sync()?;
            self.disk.rename(&name, &files::segment(number))?;
            self.disk.sync_directory()?;
            Ok(finished)
        })();
        if result.is_err() {
            // One of them may exist.
            self.state().has_stray_files = true;
            let _ = self.disk.remove(&name);
            let _ = self.disk.remove(&files::segment(number));
        }
        result
    }

    fn commit_seal(&self, group: &SealGroup, sealed: Option<(u64, Vec<BlockEntry>, u64)>) -> io::Result<()> {
        let mut writer = self.index.write();
        let mut changes = vec![Change::Meta(MetaKey::RawFloor, group.end), self.boot_change()];
        changes.extend(group.files.iter().map(|(number, _)| Change::RemoveShortRaw(*number)));
        if let Some((number, entries, len)) = sealed {
            let mut row = SegmentRow { len, ..SegmentRow::default() };
            let state = self.state();
            for entry in entries {
                row.block_bytes += u64::from(entry.stored_len);
                row.last_at_ms = row.last_at_ms.max(entry.last_at_ms);
                // It may have been deleted while it was compressed.
                if state.processes.contains_key(entry.process.as_str()) {
                    row.live_bytes += u64::from(entry.stored_len);
                    changes.push(Change::PutBlock(BlockRow { segment: number, entry }));
                }
            }
            changes.push(Change::Meta(MetaKey::NextNumber, state.next_number));
            changes.push(Change::PutSegment(number, row));
        }
        self.commit(&mut writer, &changes)
    }
}
