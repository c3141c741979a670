//! The state that all processes, sessions and screens share. One instance per server, inside `Core`.

use std::sync::{Arc, RwLock};
use std::time::Instant;

use outlive_holder::clock;
use tokio::sync::Notify;

use crate::config::{Config, ProcessConfig};
use crate::events::Events;
use crate::history::History;
use crate::holder_link::HolderLink;
use crate::id;
use crate::process::{Record, Spec};
use crate::run::Collectors;
use crate::screen::ModelCache;
use crate::session::SessionRegistry;
use crate::store::archive::Archive;
use crate::store::journal::{Change, Journal};
use crate::store::values::ValueStore;
use crate::table::ProcessTable;

pub(crate) struct Services {
    pub(crate) link: HolderLink,
    pub(crate) journal: Arc<Journal>,
    pub(crate) values: ValueStore,
    pub(crate) archive: Archive,
    pub(crate) history: History,
    pub(crate) events: Events,
    pub(crate) table: ProcessTable,
    pub(crate) collectors: Collectors,
    pub(crate) sessions: SessionRegistry,
    pub(crate) process_config: RwLock<ProcessConfig>,
    pub(crate) config: RwLock<Config>,
    /// When this server took over.
    pub(crate) started_at: Instant,
    pub(crate) model_cache: ModelCache,
    /// Notified when retention has work: a process or exec has ended, the history has released a log, or limits changed.
    pub(crate) retention_due: Arc<Notify>,
}

/// Journal names of the two configurations.
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
        self.write_config(PROCESS_CONFIG, &config);
    }

    pub(crate) fn set_config(&self, config: Config) {
        *self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = config;
        self.write_config(CONFIG, &config);
    }

    fn write_config(&self, name: &str, value: &impl serde::Serialize) {
        let value = serde_json::to_vec(value).unwrap_or_default();
        self.journal.append(&[Change::Put { name: name.to_owned(), value }]);
    }

    /// The record of a new process, with an unused id and key.
    pub(crate) fn new_record(&self, spec: Spec) -> Record {
        let created_at_ms = clock::wall_ms();
        let key = std::iter::repeat_with(id::new_key).find(|key| !self.table.has_key(*key)).unwrap_or_else(id::new_key);
        Record::new(id::new_id("proc", created_at_ms, key), key, spec, created_at_ms)
    }

    pub(crate) fn notify_retention_due(&self) {
        self.retention_due.notify_one();
    }
}
