//! What every process needs of the rest of the core.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use outlive_holder::clock;
use tokio::sync::{Notify, Semaphore};

use crate::archive::Archive;
use crate::config::{Config, ProcessConfig};
use crate::events::Events;
use crate::holder_link::HolderLink;
use crate::id;
use crate::journal::{Change, Journal};
use crate::process::{Record, SizeHistory, Spec};
use crate::run::Collectors;
use crate::session::Sessions;
use crate::stored::Stored;
use crate::table::Table;

pub(crate) struct Services {
    pub(crate) link: HolderLink,
    pub(crate) journal: Arc<Journal>,
    pub(crate) stored: Stored,
    pub(crate) archive: Archive,
    pub(crate) events: Events,
    pub(crate) table: Table,
    pub(crate) collectors: Collectors,
    pub(crate) sessions: Sessions,
    pub(crate) process_config: RwLock<ProcessConfig>,
    pub(crate) config: RwLock<Config>,
    /// When this server began.
    pub(crate) begun: Instant,
    /// Screens that are brought up to date although nobody looks do so one after the other.
    pub(crate) keep_up_turn: Semaphore,
    /// Screens that are worked out at the same time.
    pub(crate) model_turns: Arc<Semaphore>,
    /// Models that are kept between uses.
    pub(crate) models_kept: AtomicUsize,
    /// How often it was kept what one shows.
    pub(crate) screen_checkpoints: AtomicU64,
    /// Something ended, so something may have to be cleaned up.
    pub(crate) ended: Notify,
}

/// Names of the two configurations in the journal.
pub(crate) const PROCESS_CONFIG: &str = "config/process";
pub(crate) const CONFIG: &str = "config/outlive";

impl Services {
    pub(crate) fn process_config(&self) -> ProcessConfig {
        *self.process_config.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> Config {
        *self.config.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn set_process_config(&self, config: ProcessConfig) {
        *self.process_config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = config;
        self.keep(PROCESS_CONFIG, &config);
    }

    pub(crate) fn set_config(&self, config: Config) {
        *self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = config;
        self.keep(CONFIG, &config);
    }

    fn keep(&self, name: &str, value: &impl serde::Serialize) {
        let value = serde_json::to_vec(value).unwrap_or_default();
        self.journal.append(&[Change::Put { name: name.to_owned(), value }]);
    }

    /// The record of a new process, under an id and a key that nobody else has.
    pub(crate) fn new_record(&self, spec: Spec) -> Record {
        let created_at_ms = clock::wall_ms();
        let key = std::iter::repeat_with(id::new_key).find(|key| !self.table.has_key(*key)).unwrap_or_else(id::new_key);
        Record {
            id: id::new_id("proc", created_at_ms, key),
            key,
            spec,
            created_at_ms,
            generation: 0,
            started_at_ms: None,
            pid: None,
            exit: None,
            log_dropped: false,
            log_end: None,
            started_offset: 0,
            archived: None,
            ephemeral: false,
            detached: false,
            reader_comes: false,
            announced: false,
            idempotency: None,
            size: None,
            sizes: SizeHistory::default(),
            restarts: 0,
            stop_wanted: false,
            reserved: false,
            restart_wanted: false,
            last_attach_at_ms: None,
            hidden: false,
        }
    }

    pub(crate) fn process_ended(&self) {
        self.ended.notify_one();
    }
}
