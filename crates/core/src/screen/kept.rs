//! Models that are kept between uses, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::behind::Behind;
use crate::process::Process;
use crate::services::Services;

/// A model that was not used for so long is given up.
const IDLE: Duration = Duration::from_secs(30);
/// Working out what a model would know again must not take longer than storing what it knows.
const CHEAP_BYTES: u64 = 256 * 1024;
/// Each takes some megabytes, and somebody may ask for the screens of a thousand terminals.
const MOST_KEPT: usize = 8;

/// The screen of a process, as far as anybody has wanted to know it.
#[derive(Default)]
pub(crate) struct Screen {
    pub(super) state: Arc<Mutex<State>>,
    /// At this offset of the log the model has to go on; 0: nobody has asked to be told.
    pub(super) due: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) behind: Option<Behind>,
    /// The checkpoint is true for this offset.
    pub(super) known: u64,
    pub(super) used: Option<Instant>,
    /// The model is one of those that are kept.
    place: Option<Place>,
}

/// One of the places for models that are kept between uses.
struct Place(Arc<Services>);

impl Place {
    fn take(services: &Arc<Services>) -> Option<Self> {
        let free = |kept: usize| (kept < MOST_KEPT).then_some(kept + 1);
        services.models_kept.fetch_update(Relaxed, Relaxed, free).ok().map(|_| Self(Arc::clone(services)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.models_kept.fetch_sub(1, Relaxed);
    }
}

impl Screen {
    pub(crate) fn is_watched(&self) -> bool {
        self.due.load(Relaxed) != 0
    }
}

impl Process {
    /// Gives up a model that nobody has used for a while.
    pub(crate) fn rest_screen(&self) {
        let Ok(mut state) = self.screen.state.try_lock() else { return };
        if state.used.is_some_and(|used| used.elapsed() >= IDLE) {
            self.give_up_model(&mut state);
        }
    }

    /// Keeps the model for the next one who asks, unless there are enough of them.
    pub(super) fn keep_model(&self, state: &mut State) {
        if state.place.is_none() {
            state.place = Place::take(&self.services);
        }
        if state.place.is_none() {
            self.give_up_model(state);
        }
    }

    fn give_up_model(&self, state: &mut State) {
        let known = state.known;
        let is_costly = |behind: &&Behind| behind.offset.saturating_sub(known) > CHEAP_BYTES;
        if let Some(checkpoint) = state.behind.as_ref().filter(is_costly).map(Behind::checkpoint) {
            self.store_checkpoint(state, &checkpoint);
        }
        (state.behind, state.used, state.place) = (None, None, None);
    }
}
