//! A model together with its position in the log, and the terminal sizes it needs on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_holder::clock;
use serde::{Deserialize, Serialize};

use super::model::{MAX_SCROLLBACK_LINES, Model};
use super::repaint::{overlay, repaint};
use crate::attach::Size;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use crate::process::{Process, SizeChange};

const READ_BYTES: usize = 64 * 1024;
/// If the beginning of the log is gone, the model starts this far before the end: enough output to fill a screen.
const APPROXIMATION_BYTES: u64 = 256 * 1024;
/// More output than this is not read from the history: a model that is further behind starts near the end.
const MAX_HISTORY_BYTES: u64 = 16 << 20;
/// Limit of one update. Output that takes longer is skipped.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(3);
/// Cells that sequences may touch before the clock is checked again; a few bytes can touch every cell.
const CELLS_PER_CLOCK_CHECK: usize = 32 << 20;
/// A repaint resumes the log before an incomplete sequence, unless the sequence is longer than this.
const MAX_PENDING_BYTES: u64 = 64 * 1024;
/// A larger repaint is made again with fewer lines of scrollback.
const LARGE_REPAINT_BYTES: usize = 1 << 20;
const REDUCED_SCROLLBACK: [usize; 2] = [200, 0];
/// A larger terminal is modelled at this size: the model's memory grows with it.
const MAX_SIZE: Size = Size { cols: 640, rows: 240 };
const DEFAULT_SIZE: Size = Size { cols: 80, rows: 24 };

/// Bytes that restore a terminal, and the log offset at which the output continues after them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaint {
    pub offset: u64,
    pub size: Size,
    pub bytes: String,
    pub approximate: bool,
}

pub(super) struct ModelReader {
    model: Model,
    /// All output before this offset has been fed to the model.
    pub(super) offset: u64,
    /// Output was skipped or lost, so the screen may differ from the real one.
    pub(super) approximate: bool,
    /// CPU time of the last `catch_up`.
    pub(super) cpu_time: Duration,
}

impl ModelReader {
    /// Starts at the checkpoint, if its offset is still in the log, or else at the first byte of a short log.
    pub(super) fn from_checkpoint(log: &Log, sizes: &SizeTimeline, checkpoint: Option<Repaint>) -> Self {
        let is_in_log = |checkpoint: &Repaint| (log.tail()..=log.head()).contains(&checkpoint.offset);
        if let Some(checkpoint) = checkpoint.filter(is_in_log) {
            let model = Model::restored(checkpoint.size, &checkpoint.bytes);
            return Self::at(checkpoint.offset, model, checkpoint.approximate);
        }
        if log.tail() > 0 || is_far_behind(log, 0) {
            return Self::near_the_end(log, sizes);
        }
        Self::at(0, Model::new(sizes.at(0)), false)
    }

    /// Starts with an empty screen where the output that follows is enough to fill it.
    pub(super) fn near_the_end(log: &Log, sizes: &SizeTimeline) -> Self {
        let offset = log.tail().max(log.head().saturating_sub(APPROXIMATION_BYTES));
        Self::at(offset, Model::new(sizes.at(offset)), true)
    }

    /// Starts with an empty screen at the end of the log.
    pub(super) fn blank(log: &Log, sizes: &SizeTimeline) -> Self {
        let offset = log.head();
        Self::at(offset, Model::new(sizes.at(offset)), true)
    }

    fn at(offset: u64, model: Model, approximate: bool) -> Self {
        Self { model, offset, approximate, cpu_time: Duration::ZERO }
    }

    /// Reads up to the head that the log has now. May wait for the disk.
    pub(super) fn catch_up(&mut self, log: &Arc<Log>, sizes: &SizeTimeline) {
        let until = log.head();
        if is_far_behind(log, self.offset) {
            self.skip_to(until.saturating_sub(APPROXIMATION_BYTES));
        }
        let mut cursor = Cursor::new(Arc::clone(log), Start::At(self.offset), Flow::Live, StreamFilter::All);
        let (started, cpu_before) = (Instant::now(), clock::thread_cpu());
        while self.offset < until {
            if started.elapsed() > UPDATE_TIMEOUT {
                self.skip_to(until);
                break;
            }
            let max_bytes = (CELLS_PER_CLOCK_CHECK / self.model.cells()).clamp(64, READ_BYTES);
            match cursor.next_now_blocking(max_bytes) {
                Some(Item::Bytes { offset, bytes, .. }) => self.feed(offset, &bytes, sizes),
                Some(Item::Gap { to_offset, .. }) => {
                    self.skip_to(to_offset.max(until.saturating_sub(APPROXIMATION_BYTES)));
                    let start = Start::At(self.offset);
                    cursor = Cursor::new(Arc::clone(log), start, Flow::Live, StreamFilter::All);
                }
                Some(Item::BecameLive | Item::Exit(_)) => {}
                Some(Item::End) | None => break,
            }
        }
        self.model.resize(sizes.at(self.offset));
        self.cpu_time = clock::thread_cpu().saturating_sub(cpu_before);
    }

    /// Continues at `offset` without the output before it.
    fn skip_to(&mut self, offset: u64) {
        self.approximate = true;
        self.model.skip();
        self.offset = offset;
    }

    /// Feeds the bytes, and applies each size change before the byte at its offset.
    fn feed(&mut self, offset: u64, bytes: &[u8], sizes: &SizeTimeline) {
        let end = offset + bytes.len() as u64;
        let mut fed = offset;
        let mut feed_until = |model: &mut Model, until: u64| {
            let range = (fed - offset) as usize..(until - offset) as usize;
            model.feed(&bytes[range]);
            fed = until;
        };
        for change in sizes.between(offset, end) {
            feed_until(&mut self.model, change.offset);
            self.model.resize(change.size);
        }
        feed_until(&mut self.model, end);
        self.offset = end;
        if self.model.take_was_reset() {
            // A full reset also cleared everything that could have been wrong.
            self.approximate = false;
        }
    }

    /// A copy of the model that also shows the text of an incomplete sequence, as far as that is possible.
    pub(super) fn complete_model(&self) -> Model {
        self.model.clone().with_pending_text()
    }

    pub(super) fn repaint(&self, scrollback: usize) -> Repaint {
        self.with_offset(repaint(&self.model, scrollback))
    }

    pub(super) fn overlay(&self) -> Repaint {
        self.with_offset(overlay(&self.model))
    }

    /// Adds the offset at which the log continues after `bytes`: before a sequence that is not complete yet.
    fn with_offset(&self, bytes: String) -> Repaint {
        let size = self.model.size();
        let pending = self.model.pending_bytes();
        // The beginning of a sequence without an end may be gone from the log, and is of no use to the terminal.
        let is_endless = pending > MAX_PENDING_BYTES;
        let offset = if is_endless { self.offset } else { self.offset - pending };
        Repaint { offset, size, bytes, approximate: self.approximate || is_endless }
    }

    pub(super) fn checkpoint(&self) -> Repaint {
        self.bounded_repaint(MAX_SCROLLBACK_LINES)
    }

    /// A repaint with `scrollback` lines above the screen, or fewer if it would be very large.
    pub(super) fn bounded_repaint(&self, scrollback: usize) -> Repaint {
        let mut result = self.repaint(scrollback);
        for fewer in REDUCED_SCROLLBACK.into_iter().filter(|fewer| *fewer < scrollback) {
            if result.bytes.len() > LARGE_REPAINT_BYTES {
                result = self.repaint(fewer);
            }
        }
        result
    }
}

/// Whether so much output after `offset` is only in the history that reading it would take too long.
fn is_far_behind(log: &Log, offset: u64) -> bool {
    log.memory_tail().saturating_sub(offset) > MAX_HISTORY_BYTES
}

/// The size of the terminal at each byte of the log.
pub(super) struct SizeTimeline {
    initial: Size,
    changes: Vec<SizeChange>,
}

impl SizeTimeline {
    pub(super) fn for_process(process: &Process) -> Self {
        let (initial, mut changes) = process.sizes();
        let clamp = |size: Size| Size { cols: size.cols.min(MAX_SIZE.cols), rows: size.rows.min(MAX_SIZE.rows) };
        for change in &mut changes {
            change.size = clamp(change.size);
        }
        Self { initial: clamp(initial.unwrap_or(DEFAULT_SIZE)), changes }
    }

    pub(super) fn at(&self, offset: u64) -> Size {
        self.changes.iter().rev().find(|change| change.offset <= offset).map_or(self.initial, |change| change.size)
    }

    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &SizeChange> {
        self.changes.iter().filter(move |change| (from..to).contains(&change.offset))
    }
}
