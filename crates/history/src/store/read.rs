//! Reading blocks. Raw segments are looked up first: bytes leave them only after the index has them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::BlockRow;
use super::state::{Extent, ProcessState};
use super::{OpenStore, files, is_damage, lock};
use crate::disk::DiskFile;
use crate::format;
use crate::{Block, Span};

/// Frames of a raw segment are joined up to this size, so that a reader of many small ones does not look each up.
const JOIN_BYTES: u64 = 64 * 1024;
const MAX_JOINED_FRAMES: usize = 256;

/// A segment may be rewritten between the look-up and the read. If it is missing this often, it is lost.
const MAX_ATTEMPTS: u32 = 8;

/// Frames of one process that follow each other.
struct RawFrames {
    offset: u64,
    frames: Vec<(Arc<dyn DiskFile>, Extent)>,
}

impl OpenStore {
    /// Loads what is known of a process. `None`: it was deleted.
    fn with_process<T>(&self, process: &str, use_it: impl Fn(&ProcessState) -> T) -> io::Result<Option<T>> {
        self.settle_if_needed()?;
        loop {
            let generation = {
                let state = self.state();
                if state.is_deleted(process) {
                    return Ok(None);
                }
                if let Some(known) = state.processes.get(process) {
                    return Ok(Some(use_it(known)));
                }
                state.generation
            };
            let ends = self.index.read(|view| view.ends(process))?;
            let mut state = self.state();
            if state.generation != generation {
                continue;
            }
            let span = Arc::new(Span::default());
            if let Some((first, last)) = ends {
                span.start.store(first.entry.offset, Ordering::Relaxed);
                span.first_mark.store(first.entry.first_mark, Ordering::Relaxed);
                span.end_mark.store(last.entry.end_mark(), Ordering::Relaxed);
                span.end.store(last.entry.end(), Ordering::Relaxed);
            }
            let new = ProcessState::new(span);
            let known = state.processes.entry(process.into()).or_insert(new);
            return Ok(Some(use_it(known)));
        }
    }

    pub(super) fn span(&self, process: &str) -> io::Result<Arc<Span>> {
        let span = self.with_process(process, |known| known.span.clone())?;
        Ok(span.unwrap_or_else(|| Arc::new(Span { deleted: true.into(), ..Span::default() })))
    }

    /// Offset after the last stored byte. `None`: the process was deleted.
    pub(super) fn stored_end(&self, process: &str) -> io::Result<Option<u64>> {
        self.with_process(process, |known| known.span.end.load(Ordering::Relaxed))
    }

    pub(super) fn block_at(&self, process: &str, mut offset: u64) -> io::Result<Option<Arc<Block>>> {
        // A failed commit may have removed what is still known here. If the disk refuses to tell, it can still be read.
        let _ = self.settle_if_needed();
        let mut attempts = 0;
        loop {
            let raw = self.raw_frames(process, |extent| extent.end() > offset);
            if let Some(raw) = raw.as_ref().filter(|raw| raw.offset <= offset) {
                match read_frames(raw) {
                    Err(error) if is_damage(&error) => {
                        offset = skip_damaged(process, raw.frames[0].1.end(), &error);
                        continue;
                    }
                    result => return result.map(Some),
                }
            }
            if self.state().is_deleted(process) {
                return Ok(None);
            }
            let sealed = self.index.read(|view| view.block_at(process, offset))?;
            let before_raw = |row: &BlockRow| raw.as_ref().is_none_or(|raw| row.entry.offset < raw.offset);
            let Some(row) = sealed.filter(before_raw) else {
                let Some(raw) = raw else { return Ok(None) };
                offset = raw.offset;
                continue;
            };
            match self.sealed_block(&row) {
                Ok(block) => return Ok(Some(block)),
                // It was rewritten in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS => attempts += 1,
                Err(error) if is_damage(&error) => offset = skip_damaged(process, row.entry.end(), &error),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn block_with_mark(&self, process: &str, number: u64) -> io::Result<Option<Arc<Block>>> {
        if self.state().is_deleted(process) {
            return Ok(None);
        }
        let raw = self.raw_frames(process, |extent| extent.end_mark > number).map(|raw| raw.offset);
        let sealed = self.index.read(|view| view.block_with_mark(process, number))?;
        let Some(mut offset) = sealed.map(|row| row.entry.offset).or(raw) else { return Ok(None) };
        // Usually the first one. It may contain only the end of the chunk, if its beginning is gone.
        while let Some(block) = self.block_at(process, offset)? {
            let starts_here = block.marks.iter().any(|mark| mark.sequence > number && mark.offset >= block.offset);
            if starts_here {
                return Ok(Some(block));
            }
            offset = block.end();
        }
        Ok(None)
    }

    /// The first frame in raw segments that satisfies `condition`, and those that follow it without a gap. Frames that
    /// satisfy it come after all that do not.
    fn raw_frames(&self, process: &str, condition: impl Fn(&Extent) -> bool) -> Option<RawFrames> {
        let state = self.state();
        let extents = &state.processes.get(process)?.extents;
        let first = extents.partition_point(|extent| !condition(extent));
        let mut end = extents.get(first)?.offset;
        let mut frames = Vec::new();
        for extent in extents.range(first..).take(MAX_JOINED_FRAMES) {
            let joined = end - extents[first].offset + u64::from(extent.len);
            if extent.offset != end || (!frames.is_empty() && joined > JOIN_BYTES) {
                break;
            }
            frames.push((state.raws.get(&extent.raw)?.file.clone(), *extent));
            end = extent.end();
        }
        Some(RawFrames { offset: extents[first].offset, frames })
    }

    fn sealed_block(&self, row: &BlockRow) -> io::Result<Arc<Block>> {
        if let Some(block) = lock(&self.cache).get(row.segment, row.entry.at) {
            return Ok(block);
        }
        let file = self.disk.open(&files::segment(row.segment), false)?;
        let block = Arc::new(format::read_block(&*file, &row.entry)?);
        lock(&self.cache).insert(row.segment, row.entry.at, block.clone());
        Ok(block)
    }
}

fn read_frames(raw: &RawFrames) -> io::Result<Arc<Block>> {
    let mut blocks = Vec::with_capacity(raw.frames.len());
    for (file, extent) in &raw.frames {
        match read_frame(&**file, extent) {
            Ok(block) => blocks.push(block),
            // The next read begins here and reports it.
            Err(_) if !blocks.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    let joined = format::merge_blocks(&blocks).into_iter().next();
    joined.map(Arc::new).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a frame is empty"))
}

pub(super) fn read_frame(file: &dyn DiskFile, extent: &Extent) -> io::Result<Block> {
    let mut frame = vec![0; extent.stored_len as usize];
    file.read_exact_at(&mut frame, extent.at)?;
    Ok(format::decode_frame(&frame)?.1)
}

/// Damaged bytes become a gap: the rest of the output stays readable.
fn skip_damaged(process: &str, end: u64, error: &io::Error) -> u64 {
    tracing::warn!(process, end, %error, "history: a block is damaged and skipped");
    end
}
