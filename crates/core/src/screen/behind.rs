//! The model of one terminal, how far it has come in the log, and when it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::model::{MOST_SCROLLBACK, Model};
use super::picture;
use super::repaint::repaint;
use super::snapshot::{Snapshot, snapshot};
use crate::attach::Size;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use crate::process::{Process, SizeChange};
use crate::services::Services;
use crate::{Error, Result};

/// Read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Of a past that is not known from its beginning, so much is enough to fill a screen.
const ENOUGH_BYTES: u64 = 256 * 1024;
/// A model that was not used for so long is given up.
const IDLE: Duration = Duration::from_secs(30);
/// Working out what a model would know again must not take longer than keeping what it knows.
const CHEAP_BYTES: u64 = 256 * 1024;
/// What runs ahead of a flood rests as many times longer than it works.
const RESTS: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(10);
/// Models that are kept between uses. Each takes some megabytes, and somebody may ask for the screens of a thousand terminals.
const MOST_KEPT: usize = 8;
/// Nobody has a larger window; a model of it would take all memory.
const LARGEST: Size = Size { cols: 640, rows: 240 };
/// Working out a screen may take so long. What is printed to take longer is passed over.
const LONGEST_WORK: Duration = Duration::from_secs(3);
/// Cells that may be touched, by sequences that touch all of them, before the clock is looked at again.
const CELLS_PER_LOOK: usize = 32 << 20;
/// So long somebody waits for others' screens to be worked out.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A sequence that goes on for longer is not waited for.
const MOST_KEPT_BACK: u64 = 64 * 1024;
/// A checkpoint that is larger has fewer lines above the screen.
const CHECKPOINT_BYTES: usize = 1 << 20;
/// A server that was started again and again leaves screens alone for a while: one of them may be the reason.
const SAFE_FOR: Duration = Duration::from_secs(60);

/// Bytes that restore a terminal, and from where the log goes on after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaint {
    pub offset: u64,
    pub size: Size,
    pub bytes: String,
    pub approximate: bool,
}

/// What is kept of a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Checkpoint {
    offset: u64,
    size: Size,
    bytes: String,
    approximate: bool,
}

/// The screen of a process, as far as anybody has wanted to know it.
pub(crate) struct Screen {
    state: Arc<Mutex<State>>,
    /// At this offset of the log the model has to go on; 0: nobody has asked to be told.
    due: AtomicU64,
    begun: Instant,
}

#[derive(Default)]
struct State {
    behind: Option<Behind>,
    /// What is kept is true for this offset.
    known: u64,
    used: Option<Instant>,
    /// The model is one of those that are kept.
    place: Option<Place>,
}

/// One of the places for models that are kept between uses.
struct Place(Arc<Services>);

impl Place {
    fn take(services: &Arc<Services>) -> Option<Self> {
        let free = |kept: usize| (kept < MOST_KEPT).then_some(kept + 1);
        services.screens_kept.fetch_update(Relaxed, Relaxed, free).ok().map(|_| Self(Arc::clone(services)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.screens_kept.fetch_sub(1, Relaxed);
    }
}

impl Screen {
    pub(crate) fn is_watched(&self) -> bool {
        self.due.load(Relaxed) != 0
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self { state: Arc::default(), due: AtomicU64::new(0), begun: Instant::now() }
    }
}

struct Behind {
    model: Model,
    /// Everything before it has been fed.
    offset: u64,
    approximate: bool,
}

impl Behind {
    fn begin(log: &Log, sizes: &Sizes, checkpoint: Option<Checkpoint>) -> Self {
        if let Some(kept) = checkpoint.filter(|kept| (log.tail()..=log.head()).contains(&kept.offset)) {
            let model = Model::restored(kept.size, &kept.bytes);
            return Self { model, offset: kept.offset, approximate: kept.approximate };
        }
        let (offset, approximate) = match log.tail() {
            0 => (0, false),
            oldest => (oldest.max(log.head().saturating_sub(ENOUGH_BYTES)), true),
        };
        Self { model: Model::new(sizes.at(offset)), offset, approximate }
    }

    /// Nothing is known but the size.
    fn blank(log: &Log, sizes: &Sizes) -> Self {
        let offset = log.head();
        Self { model: Model::new(sizes.at(offset)), offset, approximate: true }
    }

    /// Up to where the log ends now.
    fn catch_up(&mut self, log: &Arc<Log>, sizes: &Sizes) {
        let until = log.head();
        let mut cursor = Cursor::new(Arc::clone(log), Start::At(self.offset), Flow::Live, StreamFilter::All);
        let began = Instant::now();
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
    }

    /// With what is kept back, as far as it can be shown.
    fn shown(&self) -> Model {
        self.model.clone().with_the_rest()
    }

    fn repaint(&self, scrollback: usize) -> Repaint {
        let size = Size { cols: small(self.model.cols), rows: small(self.model.rows) };
        let kept_back = self.model.behind();
        // The beginning of what has no end may be gone from the log, and nobody would want it.
        let is_endless = kept_back > MOST_KEPT_BACK;
        let offset = if is_endless { self.offset } else { self.offset - kept_back };
        Repaint { offset, size, bytes: repaint(&self.model, scrollback), approximate: self.approximate || is_endless }
    }

    /// As many lines above the screen as there is room for.
    fn checkpoint(&self) -> Repaint {
        let mut kept = self.repaint(MOST_SCROLLBACK);
        for scrollback in [200, 0] {
            if kept.bytes.len() > CHECKPOINT_BYTES {
                kept = self.repaint(scrollback);
            }
        }
        kept
    }
}

fn small(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Which size the terminal had at which byte.
struct Sizes {
    born: Size,
    changes: Vec<SizeChange>,
}

impl Sizes {
    fn of(process: &Process) -> Self {
        let (born, mut changes) = process.sizes();
        let within = |size: Size| Size { cols: size.cols.min(LARGEST.cols), rows: size.rows.min(LARGEST.rows) };
        for change in &mut changes {
            change.size = within(change.size);
        }
        Self { born: within(born.unwrap_or(Size { cols: 80, rows: 24 })), changes }
    }

    fn at(&self, offset: u64) -> Size {
        self.changes.iter().rev().find(|change| change.offset <= offset).map_or(self.born, |change| change.size)
    }

    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &SizeChange> {
        self.changes.iter().filter(move |change| (from..to).contains(&change.offset))
    }
}

/// The name under which what is known of a screen survives the server.
fn stored_as(id: &str) -> String {
    format!("screen/{id}")
}

impl Process {
    /// What the terminal shows now.
    pub async fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.with_screen(|behind| snapshot(&behind.shown(), behind.offset, behind.approximate)).await
    }

    /// The same as a picture, and after which byte of the log.
    pub async fn picture(self: &Arc<Self>) -> Result<(String, u64)> {
        self.with_screen(|behind| (picture::svg(&behind.shown()), behind.offset)).await
    }

    /// What a terminal must print to show the same, with so many lines above the screen.
    pub async fn repaint(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        self.with_screen(move |behind| behind.repaint(scrollback.min(MOST_SCROLLBACK))).await
    }

    async fn with_screen<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn(&Behind) -> T + Clone + Send + 'static,
    ) -> Result<T> {
        if !self.is_terminal() {
            return Err(Error::conflict("not_a_terminal", "only what runs on a terminal has a screen; see /output"));
        }
        if self.services.link.welcome().safe_mode && self.screen.begun.elapsed() < SAFE_FOR {
            let message =
                "the server has died several times, and leaves screens alone for a minute; attach without one"
                    .to_owned();
            return Err(Error::Exhausted { code: "safe_mode", message });
        }
        let log = self.log()?;
        let sizes = Arc::new(Sizes::of(self));
        let work = async |blank: bool| {
            let state: OwnedMutexGuard<State> = Arc::clone(&self.screen.state).lock_owned().await;
            // So many at a time: each needs memory, and a processor. It is done when it is done, whoever has hung up meanwhile.
            let turns = Arc::clone(&self.services.screen_turns);
            let Ok(Ok(turn)) = tokio::time::timeout(LONGEST_WAIT, turns.acquire_owned()).await else { return Ok(None) };
            let (process, log, sizes, look) = (Arc::clone(self), Arc::clone(&log), Arc::clone(&sizes), look.clone());
            // A long log takes a while, and no other task should wait for that.
            tokio::task::spawn_blocking(move || {
                let (_turn, mut state) = (turn, state);
                // Taken out: should it fail in the midst of something, nobody uses it again.
                let mut behind = match state.behind.take() {
                    Some(behind) if !blank => behind,
                    _ if blank => Behind::blank(&log, &sizes),
                    _ => Behind::begin(&log, &sizes, process.checkpoint()),
                };
                behind.catch_up(&log, &sizes);
                let seen = look(&behind);
                state.behind = Some(behind);
                state.used = Some(Instant::now());
                process.keep_model(&mut state);
                Some(seen)
            })
            .await
        };
        let busy = || {
            let message = "other screens are being worked out; ask again, or attach without one".to_owned();
            Error::Exhausted { code: "screen_busy", message }
        };
        if let Ok(seen) = work(false).await {
            return seen.ok_or_else(busy);
        }
        tracing::error!(id = self.id(), "the screen of a process could not be worked out; it begins anew");
        let failed =
            |_| Error::Exhausted { code: "screen_failed", message: "the screen could not be worked out".to_owned() };
        work(true).await.map_err(failed)?.ok_or_else(busy)
    }

    /// What this or an earlier server has kept.
    fn checkpoint(&self) -> Option<Checkpoint> {
        let kept = self.services.stored.get(&stored_as(self.id()))?;
        serde_json::from_slice(&kept).ok()
    }

    fn keep_checkpoint(&self, state: &mut State) {
        if let Some(checkpoint) = state.behind.as_ref().map(Behind::checkpoint) {
            self.keep(state, checkpoint);
        }
    }

    fn keep(&self, state: &mut State, repaint: Repaint) {
        let Repaint { offset, size, bytes, approximate } = repaint;
        let kept = Checkpoint { offset, size, bytes, approximate };
        let value = serde_json::to_vec(&kept).unwrap_or_default();
        // Without memory for it, the screen will be worked out from what the log still has.
        if !self.is_removed() && self.services.stored.put(&stored_as(self.id()), Some(value)).is_ok() {
            state.known = kept.offset;
            self.services.screen_checkpoints.fetch_add(1, Relaxed);
        }
    }

    /// It is over with the process.
    pub(crate) fn forget_screen(&self) {
        if let Ok(mut state) = self.screen.state.try_lock() {
            self.give_up_model(&mut state);
        }
        if self.services.stored.get(&stored_as(self.id())).is_some() {
            let _ = self.services.stored.put(&stored_as(self.id()), None);
        }
    }

    /// Gives up a model that nobody has used for a while.
    pub(crate) fn rest_screen(&self) {
        let Ok(mut state) = self.screen.state.try_lock() else { return };
        let is_idle = state.used.is_some_and(|used| used.elapsed() >= IDLE);
        if !is_idle {
            return;
        }
        self.give_up_model(&mut state);
    }

    /// Keeps the model for the next one who asks, unless there are enough of them.
    fn keep_model(&self, state: &mut State) {
        if state.place.is_none() {
            state.place = Place::take(&self.services);
        }
        if state.place.is_none() {
            self.give_up_model(state);
        }
    }

    fn give_up_model(&self, state: &mut State) {
        let known = state.known;
        if state.behind.as_ref().is_some_and(|behind| behind.offset.saturating_sub(known) > CHEAP_BYTES) {
            self.keep_checkpoint(state);
        }
        (state.behind, state.used, state.place) = (None, None, None);
    }

    /// Asks to be told before the log loses what the model has not seen.
    pub(crate) fn watch_screen(self: &Arc<Self>) {
        if !self.is_terminal() || self.services.link.welcome().safe_mode {
            return;
        }
        if let Ok(log) = self.log() {
            self.screen.due.store(log.tell_at(log.head()), Relaxed);
        }
    }

    /// The log has news.
    pub(crate) fn keep_up_if_due(self: &Arc<Self>) {
        let due = self.screen.due.load(Relaxed);
        if due == 0 || self.log().is_ok_and(|log| log.head() < due) {
            return;
        }
        if self.screen.due.compare_exchange(due, 0, Relaxed, Relaxed).is_err() {
            return;
        }
        let process = Arc::clone(self);
        tokio::spawn(async move {
            let took = process.keep_up().await;
            tokio::time::sleep((took * RESTS).min(LONGEST_REST)).await;
            process.watch_screen();
            // It may have been there before anybody asked.
            process.keep_up_if_due();
        });
    }

    /// Brings the model to the end of the log, and keeps what it knows.
    async fn keep_up(self: &Arc<Self>) -> Duration {
        let Ok(_turn) = self.services.screens.acquire().await else { return Duration::ZERO };
        let began = Instant::now();
        if let Ok(repaint) = self.with_screen(Behind::checkpoint).await {
            let mut state = self.screen.state.lock().await;
            self.keep(&mut state, repaint);
        }
        began.elapsed()
    }
}
