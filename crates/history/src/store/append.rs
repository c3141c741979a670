//! Appending to raw segments, and making them durable.

use std::io;
use std::sync::Arc;

use super::index::Change;
use super::state::{Extent, Raw};
use super::{OpenStore, files, lock};
use crate::disk::{self, DiskFile};
use crate::format::{self, FileHeader, FileKind};
use crate::{ChunkMark, Piece, Record};

/// Appended bytes after which the free space of the file system is looked at again.
const FREE_CHECK_BYTES: u64 = 1024 * 1024;

/// What the appending thread owns.
#[derive(Default)]
pub(super) struct Appender {
    /// Number of the raw segment that is appended to.
    open: Option<u64>,
    frame: Vec<u8>,
    /// Bytes that may be appended before the free space is checked.
    unchecked_bytes: u64,
}

impl OpenStore {
    pub(super) fn put(&self, records: &[Record]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.check_free_space()?;
        self.settle_if_needed()?;
        let mut writer = self.index.write();
        let mut changes: Vec<Change> = {
            // Under the writer's lock, so that a delete comes before or after all of it.
            let state = self.state();
            let is_deleted = |record: &&Record| {
                state.is_deleted(&record.id) || record.parent.as_deref().is_some_and(|parent| state.is_deleted(parent))
            };
            let records = records.iter().filter(|record| !is_deleted(record));
            // A process that the limits had removed was started again: what is stored of it counts from now on.
            let is_retired = |record: &&Record| state.retired.contains(record.id.as_str());
            let again = records.clone().filter(is_retired).map(|record| Change::RemoveTombstone(record.id.clone()));
            records.cloned().map(Change::PutRecord).chain(again).collect()
        };
        if changes.is_empty() {
            return Ok(());
        }
        changes.push(self.boot_change());
        self.commit(&mut writer, &changes)
    }

    fn check_free_space(&self) -> io::Result<()> {
        if self.has_free_space()? {
            return Ok(());
        }
        let message = format!("the file system has less than {} free bytes", self.limits.min_free_bytes);
        Err(io::Error::new(io::ErrorKind::StorageFull, message))
    }

    pub(super) fn has_free_space(&self) -> io::Result<bool> {
        Ok(self.disk.free_bytes()? >= self.limits.min_free_bytes)
    }

    pub(super) fn append(&self, piece: &Piece<'_>) -> io::Result<()> {
        let mut appender = lock(&self.appender);
        if piece.bytes.is_empty() {
            return Ok(());
        }
        if appender.unchecked_bytes < piece.bytes.len() as u64 {
            self.check_free_space()?;
            appender.unchecked_bytes = FREE_CHECK_BYTES.max(piece.bytes.len() as u64);
        }
        appender.unchecked_bytes -= piece.bytes.len() as u64;
        let Some(end) = self.stored_end(piece.process)? else { return Ok(()) };
        let Some(piece) = bytes_after(piece, end) else { return Ok(()) };
        for part in format::split_piece(&piece) {
            self.append_frame(&mut appender, &part)?;
        }
        Ok(())
    }

    pub(super) fn release_buffers(&self) {
        lock(&self.appender).frame = Vec::new();
    }

    fn append_frame(&self, appender: &mut Appender, part: &Piece<'_>) -> io::Result<()> {
        let mut frame = std::mem::take(&mut appender.frame);
        frame.clear();
        let result = format::encode_frame(part, &mut frame).and_then(|()| self.write_frame(appender, part, &frame));
        // A large frame does not keep its memory for the small ones that usually follow.
        if frame.capacity() <= 2 * format::MAX_BLOCK_BYTES {
            appender.frame = frame;
        }
        result
    }

    fn write_frame(&self, appender: &mut Appender, part: &Piece<'_>, frame: &[u8]) -> io::Result<()> {
        let (number, file, at) = self.open_raw(appender)?;
        if let Err(error) = file.write_all_at(frame, at) {
            // Part of the frame may be in the file. If it cannot be cut off, the segment ends here.
            if file.set_len(at).is_err() {
                self.abandon_raw(appender, frame.len() as u64);
            }
            return Err(error);
        }
        let header = format::decode_frame_header(frame)?;
        let extent = Extent {
            offset: header.offset,
            raw: number,
            at,
            first_mark: header.first_mark,
            end_mark: header.end_mark(),
            last_at_ms: header.last_at_ms,
            len: header.len,
            stored_len: frame.len() as u32,
        };
        let mut state = self.state();
        let is_deleted = state.is_deleted(part.process);
        let Some(raw) = state.raws.get_mut(&number) else {
            return Err(io::Error::other("the open raw segment was removed"));
        };
        raw.len += frame.len() as u64;
        raw.unsynced_bytes += frame.len() as u64;
        raw.frame_count += 1;
        if Raw::is_full(raw.len, raw.frame_count, self.segment_bytes) {
            raw.is_closed = true;
            appender.open = None;
        }
        if is_deleted {
            raw.dead_bytes += frame.len() as u64;
        } else {
            state.add_extent(part.process, extent);
        }
        Ok(())
    }

    /// The raw segment that is appended to, its file, and its length.
    fn open_raw(&self, appender: &mut Appender) -> io::Result<(u64, Arc<dyn DiskFile>, u64)> {
        if let Some(number) = appender.open
            && let Some(raw) = self.state().raws.get(&number)
        {
            return Ok((number, raw.file.clone(), raw.len));
        }
        // A power loss may forget names. If it forgot an older segment and not this one, the output would have a hole.
        if self.state().raws.values().any(|raw| !raw.is_name_synced) {
            self.sync_names()?;
        }
        let number = self.state().allocate_number();
        let header = FileHeader { kind: FileKind::Raw, segment: number, boot: self.boot.id.clone() }.encode()?;
        let name = files::raw(number);
        let file: Arc<dyn DiskFile> = self.disk.open(&name, true)?.into();
        let len = header.len() as u64;
        let mut raw = Raw::new(file.clone(), len);
        if let Err(error) = file.write_all_at(&header, 0) {
            if self.disk.remove(&name).is_err() {
                // It stays as one that was closed early.
                (raw.is_closed, raw.needs_short_mark) = (true, true);
                self.state().raws.insert(number, raw);
            }
            return Err(error);
        }
        self.state().raws.insert(number, raw);
        appender.open = Some(number);
        Ok((number, file, len))
    }

    /// Closes the open raw segment although it is not full, if `condition` holds for it.
    pub(super) fn close_raw_if(&self, condition: impl Fn(u64, &Raw) -> bool) -> io::Result<()> {
        // Most of the waiting, before appends must wait too.
        self.sync()?;
        let mut appender = lock(&self.appender);
        let Some(number) = appender.open else { return Ok(()) };
        if !self.state().raws.get(&number).is_some_and(|raw| condition(number, raw)) {
            return Ok(());
        }
        // The mark comes first: without it, recovery would take the next segment for one after a loss.
        self.sync()?;
        self.commit(&mut self.index.write(), &[Change::PutShortRaw(number)])?;
        appender.open = None;
        if let Some(raw) = self.state().raws.get_mut(&number) {
            raw.is_closed = true;
        }
        Ok(())
    }

    /// Gives up the open raw segment after an error. The next sync marks it as one that is not full.
    fn abandon_raw(&self, appender: &mut Appender, torn_bytes: u64) {
        let Some(number) = appender.open.take() else { return };
        if let Some(raw) = self.state().raws.get_mut(&number) {
            raw.is_closed = true;
            raw.needs_short_mark = true;
            raw.dead_bytes += torn_bytes;
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        let numbers: Vec<u64> = self.state().raws.keys().copied().collect();
        self.disk.sync_directory()?;
        let mut state = self.state();
        for number in numbers {
            if let Some(raw) = state.raws.get_mut(&number) {
                raw.is_name_synced = true;
            }
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        let _syncing = lock(&self.syncing);
        let unsynced: Vec<u64> = {
            let state = self.state();
            state.raws.iter().filter(|(_, raw)| raw.unsynced_bytes > 0).map(|(number, _)| *number).collect()
        };
        for number in unsynced {
            self.sync_raw(number)?;
        }
        if self.state().raws.values().any(|raw| !raw.is_name_synced) {
            self.sync_names()?;
        }
        self.mark_short_raws()
    }

    fn sync_raw(&self, number: u64) -> io::Result<()> {
        let Some((file, unsynced, is_doubtful)) = self
            .state()
            .raws
            .get(&number)
            .map(|raw| (raw.file.clone(), raw.len - raw.unsynced_bytes..raw.len, raw.is_sync_doubtful))
        else {
            return Ok(());
        };
        let write_again = || if is_doubtful { disk::write_again(&*file, unsynced.clone()) } else { Ok(()) };
        let result = write_again().and_then(|()| file.sync());
        if let Some(raw) = self.state().raws.get_mut(&number) {
            raw.is_sync_doubtful = result.is_err();
            if result.is_ok() {
                raw.unsynced_bytes -= unsynced.end - unsynced.start;
            }
        }
        result
    }

    /// Tells the index which raw segments were closed early, so that recovery does not take them for torn ones.
    fn mark_short_raws(&self) -> io::Result<()> {
        let short: Vec<u64> = {
            let state = self.state();
            let short = state.raws.iter().filter(|(_, raw)| raw.needs_short_mark && raw.unsynced_bytes == 0);
            short.map(|(number, _)| *number).collect()
        };
        if short.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change> = short.iter().copied().map(Change::PutShortRaw).collect();
        self.commit(&mut self.index.write(), &changes)?;
        let mut state = self.state();
        for number in short {
            if let Some(raw) = state.raws.get_mut(&number) {
                raw.needs_short_mark = false;
            }
        }
        Ok(())
    }
}

/// The part of a piece that starts at `end` or later.
fn bytes_after<'a>(piece: &Piece<'a>, end: u64) -> Option<Piece<'a>> {
    if piece.offset >= end {
        return Some(*piece);
    }
    let bytes = piece.bytes.get((end - piece.offset) as usize..).filter(|bytes| !bytes.is_empty())?;
    Some(Piece { offset: end, marks: marks_from(piece.marks, end), bytes, ..*piece })
}

/// The marks of the chunks that end after `offset`.
fn marks_from(marks: &[ChunkMark], offset: u64) -> &[ChunkMark] {
    let first = marks.partition_point(|mark| mark.offset <= offset).saturating_sub(1);
    &marks[first..]
}
