//! The cache of terminal models: computing a model from its log takes time, keeping it takes megabytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::model_reader::ModelReader;
use crate::lock;
use crate::process::Process;

/// A model that was not used for this long is released.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A released model is checkpointed if more bytes than this would have to be read again to rebuild it.
const CHECKPOINT_THRESHOLD_BYTES: u64 = 256 * 1024;
/// Each model takes some megabytes, and a client may request the screens of a thousand terminals.
const MAX_CACHED_MODELS: usize = 8;
/// Models that are brought up to date at the same time: each needs memory and a CPU.
const MAX_CONCURRENT_UPDATES: usize = 2;

/// Limits shared by the models of all processes.
pub(crate) struct ModelCache {
    slots: Arc<Semaphore>,
    /// One permit per model that is being brought up to date.
    pub(super) updates: Arc<Semaphore>,
    /// Models that are brought up to date without a client waiting for them take turns.
    pub(super) background_updates: Semaphore,
    /// Screen checkpoints written.
    pub(crate) checkpoints_written: AtomicU64,
}

impl Default for ModelCache {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_CACHED_MODELS)),
            updates: Arc::new(Semaphore::new(MAX_CONCURRENT_UPDATES)),
            background_updates: Semaphore::new(1),
            checkpoints_written: AtomicU64::new(0),
        }
    }
}

/// The right to stay in memory between uses, for one of [`MAX_CACHED_MODELS`] models.
struct ModelSlot(#[expect(dead_code, reason = "released on drop")] OwnedSemaphorePermit);

/// The screen of one process.
#[derive(Default)]
pub(crate) struct Screen {
    /// `None` until the screen is first requested.
    state: std::sync::Mutex<Option<Arc<Mutex<ScreenState>>>>,
    /// The model must be brought up to date before the log's head passes this offset. 0: no wake-up is requested.
    pub(super) update_due: AtomicU64,
}

#[derive(Default)]
pub(crate) struct ScreenState {
    pub(super) reader: Option<ModelReader>,
    /// Offset of the latest checkpoint.
    pub(crate) checkpoint_offset: u64,
    pub(super) last_used: Option<Instant>,
    slot: Option<ModelSlot>,
}

impl Screen {
    pub(super) fn state(&self) -> Arc<Mutex<ScreenState>> {
        Arc::clone(lock(&self.state).get_or_insert_default())
    }

    /// Frees the state of the screen of an exited process. False: a model is in memory, or the state is in use.
    pub(crate) fn release_state(&self) -> bool {
        let mut state = lock(&self.state);
        let is_idle = |state: &Arc<Mutex<ScreenState>>| {
            Arc::strong_count(state) == 1 && state.try_lock().is_ok_and(|state| state.reader.is_none())
        };
        let is_released = state.as_ref().is_none_or(is_idle);
        if is_released {
            *state = None;
            self.update_due.store(0, Relaxed);
        }
        is_released
    }

    /// Whether the log wakes the server before it overwrites output that the model has not read.
    pub(crate) fn is_armed(&self) -> bool {
        self.update_due.load(Relaxed) != 0
    }
}

impl Process {
    pub(crate) fn release_idle_model(&self) {
        let Some(state) = lock(&self.screen.state).clone() else { return };
        let Ok(mut state) = state.try_lock() else { return };
        if state.last_used.is_some_and(|used| used.elapsed() >= IDLE_TIMEOUT) {
            self.release_model(&mut state);
        }
    }

    /// Keeps the model in memory if a slot is free, and releases it otherwise.
    pub(super) fn cache_model(&self, state: &mut ScreenState) {
        if state.slot.is_none() {
            state.slot = Arc::clone(&self.services.model_cache.slots).try_acquire_owned().ok().map(ModelSlot);
        }
        if state.slot.is_none() {
            self.release_model(state);
        }
    }

    fn release_model(&self, state: &mut ScreenState) {
        let checkpoint_offset = state.checkpoint_offset;
        let needs_checkpoint =
            |reader: &&ModelReader| reader.offset.saturating_sub(checkpoint_offset) > CHECKPOINT_THRESHOLD_BYTES;
        if let Some(checkpoint) = state.reader.as_ref().filter(needs_checkpoint).map(ModelReader::checkpoint) {
            self.write_checkpoint(state, &checkpoint);
        }
        (state.reader, state.last_used, state.slot) = (None, None, None);
    }
}
