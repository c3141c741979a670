//! A model, and how far it has come in its log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_holder::clock;
use serde::{Deserialize, Serialize};

use super::model::{MOST_SCROLLBACK, Model};
use super::repaint::{overlay, repaint};
use super::sizes::Sizes;
use crate::attach::Size;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

/// Read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Of a past that is not known from its beginning, so much is enough to fill a screen.
const ENOUGH_BYTES: u64 = 256 * 1024;
/// Working out a screen may take so long. What is printed to take longer is passed over.
const LONGEST_WORK: Duration = Duration::from_secs(3);
/// Cells that may be touched, by sequences that touch all of them, before the clock is looked at again.
const CELLS_PER_LOOK: usize = 32 << 20;
/// A sequence that goes on for longer is not waited for.
const MOST_KEPT_BACK: u64 = 64 * 1024;
/// A repaint that is larger has fewer lines above the screen.
const ROOMY_BYTES: usize = 1 << 20;
const FEWER_LINES: [usize; 2] = [200, 0];

/// Bytes that restore a terminal, and from where the log goes on after them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaint {
    pub offset: u64,
    pub size: Size,
    pub bytes: String,
    pub approximate: bool,
}

pub(super) struct Behind {
    model: Model,
    /// Everything before it has been fed.
    pub(super) offset: u64,
    pub(super) approximate: bool,
    /// How long a processor was busy with the last piece of the way.
    pub(super) worked: Duration,
}

impl Behind {
    /// From what is kept, or from the oldest byte there is.
    pub(super) fn begin(log: &Log, sizes: &Sizes, checkpoint: Option<Repaint>) -> Self {
        if let Some(kept) = checkpoint.filter(|kept| (log.tail()..=log.head()).contains(&kept.offset)) {
            let model = Model::restored(kept.size, &kept.bytes);
            return Self::at(kept.offset, model, kept.approximate);
        }
        if log.tail() > 0 {
            return Self::near_the_end(log, sizes);
        }
        Self::at(0, Model::new(sizes.at(0)), false)
    }

    /// Where what follows is enough to show nearly the same.
    pub(super) fn near_the_end(log: &Log, sizes: &Sizes) -> Self {
        let offset = log.tail().max(log.head().saturating_sub(ENOUGH_BYTES));
        Self::at(offset, Model::new(sizes.at(offset)), true)
    }

    /// Nothing is known but the size.
    pub(super) fn blank(log: &Log, sizes: &Sizes) -> Self {
        let offset = log.head();
        Self::at(offset, Model::new(sizes.at(offset)), true)
    }

    fn at(offset: u64, model: Model, approximate: bool) -> Self {
        Self { model, offset, approximate, worked: Duration::ZERO }
    }

    /// Up to where the log ends now.
    pub(super) fn catch_up(&mut self, log: &Arc<Log>, sizes: &Sizes) {
        let until = log.head();
        let mut cursor = Cursor::new(Arc::clone(log), Start::At(self.offset), Flow::Live, StreamFilter::All);
        let (began, worked) = (Instant::now(), clock::thread_cpu());
        while self.offset < until {
            if began.elapsed() > LONGEST_WORK {
                self.approximate = true;
                self.model.skip();
                self.offset = until;
                break;
            }
            // A few bytes can touch every cell.
            let most = (CELLS_PER_LOOK / self.model.cells()).clamp(64, PIECE_BYTES);
            match cursor.try_next(most) {
                Some(Item::Bytes { offset, bytes, .. }) => self.feed(offset, &bytes, sizes),
                Some(Item::Gap { to, .. }) => {
                    self.approximate = true;
                    self.model.skip();
                    self.offset = to.max(until.saturating_sub(ENOUGH_BYTES));
                    let start = Start::At(self.offset);
                    cursor = Cursor::new(Arc::clone(log), start, Flow::Live, StreamFilter::All);
                }
                Some(Item::BecameLive | Item::Exit(_)) => {}
                None => break,
            }
        }
        self.model.resize(sizes.at(self.offset));
        self.worked = clock::thread_cpu().saturating_sub(worked);
    }

    /// A new size comes before the byte that it is noted for.
    fn feed(&mut self, offset: u64, bytes: &[u8], sizes: &Sizes) {
        let end = offset + bytes.len() as u64;
        let mut fed = offset;
        let mut feed_until = |model: &mut Model, until: u64| {
            let range = (fed - offset) as usize..(until - offset) as usize;
            model.feed(&bytes[range]);
            fed = until;
        };
        for change in sizes.within(offset, end) {
            feed_until(&mut self.model, change.offset);
            self.model.resize(change.size);
        }
        feed_until(&mut self.model, end);
        self.offset = end;
        if self.model.take_was_reset() {
            // Whatever was missed was undone.
            self.approximate = false;
        }
    }

    /// With what is kept back, as far as it can be shown.
    pub(super) fn shown(&self) -> Model {
        self.model.clone().with_the_rest()
    }

    pub(super) fn repaint(&self, scrollback: usize) -> Repaint {
        self.with_offset(repaint(&self.model, scrollback))
    }

    pub(super) fn overlay(&self) -> Repaint {
        self.with_offset(overlay(&self.model))
    }

    /// From where the log goes on after what a model became.
    fn with_offset(&self, bytes: String) -> Repaint {
        let size = self.model.size();
        let kept_back = self.model.kept_back();
        // The beginning of what has no end may be gone from the log, and nobody would want it.
        let is_endless = kept_back > MOST_KEPT_BACK;
        let offset = if is_endless { self.offset } else { self.offset - kept_back };
        Repaint { offset, size, bytes, approximate: self.approximate || is_endless }
    }

    pub(super) fn checkpoint(&self) -> Repaint {
        self.repaint_within(MOST_SCROLLBACK)
    }

    /// As many of these lines above the screen as there is room for.
    pub(super) fn repaint_within(&self, scrollback: usize) -> Repaint {
        let mut made = self.repaint(scrollback);
        for fewer in FEWER_LINES.into_iter().filter(|fewer| *fewer < scrollback) {
            if made.bytes.len() > ROOMY_BYTES {
                made = self.repaint(fewer);
            }
        }
        made
    }
}
