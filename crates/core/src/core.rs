//! `Core`: the handle through which every surface uses the core.
//!
//! It takes over from the previous server, adopts the processes that the holder still has, creates and finds processes,
//! and dispatches the holder's events. What a process can do is in `process/`; one-shot runs are in `run`.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use outlive_holder::log::Cause;
use outlive_holder::wire::Welcome;
use tokio::sync::{Notify, watch};

use crate::config::{self, Config, ProcessConfig};
use crate::events::{Events, Follower};
use crate::history::{History, HistoryOptions};
use crate::holder_link::{Handover, HeldProcess, HolderEvent, HolderLink};
use crate::process::{Idempotency, IfTagExists, Process, Record, Spec};
use crate::screen::ModelCache;
use crate::services::{CONFIG, PROCESS_CONFIG, Services};
use crate::store::archive::Archive;
use crate::store::journal::{JOURNAL_NAME, Journal};
use crate::store::process_record;
use crate::store::values::ValueStore;
use crate::table::{ProcessTable, Reservation};
use crate::{Error, Result};

/// What the holder has announced about itself and this server; the server around the core must act on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderStatus {
    /// Another server takes over: accept nothing new and finish the requests under way.
    pub retire: bool,
    /// The holder is gone: existing output can be read, nothing can be started.
    pub holder_gone: bool,
    /// Upgrades attempted so far.
    pub upgrades: u64,
    /// Why the last upgrade failed; `None` if it succeeded.
    pub upgrade_error: Option<String>,
}

/// A process to create.
#[derive(Clone, Debug, Default)]
pub struct NewProcess {
    pub spec: Spec,
    /// False: only reserve the id, to be started later.
    pub start: bool,
    pub if_tag_exists: IfTagExists,
    pub idempotency_key: Option<String>,
    /// Hash of the caller's request for the idempotency check, where `spec` was derived from something else.
    pub request_hash: Option<u64>,
    /// The caller will read the output from the first byte, however much there is by then, if it starts reading within
    /// ten seconds.
    pub reader_expected: bool,
}

#[derive(Clone)]
pub struct Core {
    pub(crate) services: Arc<Services>,
    holder_status: watch::Receiver<HolderStatus>,
}

/// Counts for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub running: u64,
    pub exited: u64,
    pub runs: u64,
    pub log_bytes: u64,
    pub attachments: u64,
    /// Terminals whose screen is checkpointed before the log overwrites its input.
    pub screens_watched: u64,
    pub screen_checkpoints: u64,
}

impl Core {
    /// Takes over from the previous server. `initial` are the limits from the command line; they apply where no later
    /// change was recorded. The history is opened in the background. Must be called inside a tokio runtime.
    pub fn take_over(
        handover: Handover,
        initial: (ProcessConfig, Config),
        history: HistoryOptions,
    ) -> io::Result<Self> {
        let Handover { link, mut stored_fds, held, predecessor_active } = handover;
        let journal = Arc::new(Journal::open(link.clone(), stored_fds.remove(JOURNAL_NAME))?);
        let process_config: ProcessConfig = config::restore_limits(journal.read(PROCESS_CONFIG)?, initial.0);
        let config: Config = config::restore_limits(journal.read(CONFIG)?, initial.1);
        let values = ValueStore::load(Arc::clone(&journal))?;
        journal.set_max_events(config.max_events as usize);
        let retention_due = Arc::new(Notify::new());
        let services = Arc::new(Services {
            link: link.clone(),
            values,
            archive: Archive::open(link.clone(), &mut stored_fds, !predecessor_active),
            history: History::open(history, link.clone(), Arc::clone(&retention_due)),
            events: Events::new(Arc::clone(&journal)),
            journal,
            table: ProcessTable::default(),
            collectors: crate::run::Collectors::default(),
            sessions: crate::session::SessionRegistry::default(),
            process_config: RwLock::new(process_config),
            config: RwLock::new(config),
            started_at: Instant::now(),
            model_cache: ModelCache::default(),
            retention_due,
        });
        adopt_all(&services, held, predecessor_active);
        crate::session::SessionRegistry::take_over(&services);
        let (status_sender, holder_status) = watch::channel(HolderStatus::default());
        let core = Self { services, holder_status };
        tokio::spawn(dispatch_holder_events(Arc::clone(&core.services), link, status_sender));
        tokio::spawn(crate::store::retention::run(Arc::clone(&core.services)));
        tokio::spawn(crate::history::reconcile(Arc::clone(&core.services)));
        core.services.link.serving();
        Ok(core)
    }

    pub fn holder_status(&self) -> watch::Receiver<HolderStatus> {
        self.holder_status.clone()
    }

    pub fn welcome(&self) -> &Welcome {
        self.services.link.welcome()
    }

    // ---- values of other modules that survive the server ----

    /// Stored values whose names start with `prefix`, by the rest of the name.
    pub fn list_stored(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        self.services.values.with_prefix(prefix)
    }

    /// The stored value with exactly this name.
    pub fn load(&self, name: &str) -> Option<Vec<u8>> {
        self.services.values.get(name)
    }

    /// Stores a value under a name; `None` deletes it.
    pub fn store(&self, name: &str, value: Option<Vec<u8>>) -> Result<()> {
        self.services.values.set(name, value)
    }

    pub fn holder_is_gone(&self) -> bool {
        self.services.link.is_gone()
    }

    /// Resolves when the holder is gone.
    pub async fn wait_holder_gone(&self) {
        self.services.link.wait_gone().await;
    }

    // ---- processes ----

    /// Creates a process, and starts it unless it is only to be reserved. Returns the process with the same tag or
    /// idempotency key if there is one and the request allows that.
    pub async fn create(&self, create: NewProcess) -> Result<Arc<Process>> {
        match self.create_or_find(create).await? {
            Reservation::New(process) | Reservation::Existing(process) => Ok(process),
        }
    }

    pub(crate) async fn create_or_find(&self, create: NewProcess) -> Result<Reservation> {
        create.spec.check()?;
        let idempotency = create.idempotency_key.as_ref().map(|key| Idempotency {
            key: format!("start/{key}"),
            request_hash: create.request_hash.unwrap_or_else(|| request_hash(&create.spec)),
        });
        loop {
            let mut record = self.new_record(create.spec.clone());
            record.reserved = !create.start;
            record.reader_expected = create.reader_expected;
            record.idempotency.clone_from(&idempotency);
            match self.services.table.reserve(&self.services, record, create.if_tag_exists)? {
                Reservation::New(process) => {
                    if create.start
                        && let Err(error) = process.start().await
                    {
                        process.remove();
                        return Err(error);
                    }
                    return Ok(Reservation::New(process));
                }
                Reservation::Existing(process) => {
                    // The request that created it may still be starting it, and may fail.
                    let exists = process
                        .wait_for(|process| {
                            let starting =
                                create.start && process.info().started_at_ms.is_none() && !process.is_reserved();
                            (process.is_removed() || !starting).then(|| !process.is_removed())
                        })
                        .await;
                    if exists {
                        return Ok(Reservation::Existing(process));
                    }
                }
            }
        }
    }

    pub(crate) fn new_record(&self, spec: Spec) -> Record {
        self.services.new_record(spec)
    }

    /// Finds a process by id, `tag:NAME` or `pid:NUMBER`.
    pub fn find(&self, name: &str) -> Result<Arc<Process>> {
        let process = self.services.table.find(name)?;
        if process.is_hidden() { Err(Error::not_found(name)) } else { Ok(process) }
    }

    /// The newest process with this annotation; an exited one only if no running process has it.
    pub fn find_by_annotation(&self, name: &str, value: &str) -> Option<Arc<Process>> {
        let found = self.list(true).into_iter().filter(|process| process.is_annotated(name, value));
        found.max_by_key(|process| (!process.has_exited(), process.id().to_owned()))
    }

    /// All processes, oldest first; includes one-shot runs if `with_runs`.
    pub fn list(&self, with_runs: bool) -> Vec<Arc<Process>> {
        let mut all = self.services.table.all();
        all.retain(|process| !process.is_hidden() && (with_runs || !process.is_ephemeral()));
        all
    }

    // ---- configuration ----

    pub fn process_config(&self) -> ProcessConfig {
        self.services.process_config()
    }

    pub fn set_process_config(&self, config: ProcessConfig) -> Result<ProcessConfig> {
        let config = config.validated()?;
        self.services.set_process_config(config);
        Ok(config)
    }

    pub fn config(&self) -> Config {
        self.services.config()
    }

    pub fn set_config(&self, config: Config) -> Result<Config> {
        let config = config.validated()?;
        self.services.set_config(config);
        self.services.journal.set_max_events(config.max_events as usize);
        self.services.notify_retention_due();
        Ok(config)
    }

    // ---- events ----

    /// Follows events after number `after`; without it, from now on.
    pub fn subscribe_events(&self, after: Option<u64>) -> Follower {
        let next = after.map_or_else(|| self.services.events.next_sequence(), |after| after.saturating_add(1));
        Follower { services: Arc::clone(&self.services), next }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            runs: self.services.table.runs.in_use(),
            screen_checkpoints: self.services.model_cache.checkpoints_written.load(Relaxed),
            ..Counts::default()
        };
        self.services.table.all().iter().for_each(|process| process.count(&mut counts));
        counts
    }

    /// Starts an upgrade to the binary on disk; the result arrives in `holder_status`.
    pub fn upgrade(&self) {
        self.services.link.upgrade();
    }

    /// Retires this server on the holder's request: waits briefly for open holder requests, then writes no more records
    /// and sends no more commands.
    pub async fn retire(&self) {
        const OPEN_REQUESTS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
        const CLOSE_HISTORY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
        let open_requests = async {
            self.services.sessions.close().await;
            self.services.link.wait_idle().await;
        };
        let _ = tokio::time::timeout(OPEN_REQUESTS_TIMEOUT, open_requests).await;
        // Before the next server opens it.
        self.services.history.hand_over(CLOSE_HISTORY_TIMEOUT).await;
        // The archive first: the journal must still record the segments that the archive releases.
        self.services.archive.close();
        self.services.journal.close();
        self.services.link.retired();
    }
}

/// FNV-1a, which does not depend on the compiler: the next server must compute the same hash for a repeated request.
pub(crate) fn request_hash(request: &impl serde::Serialize) -> u64 {
    let text = serde_json::to_string(request).unwrap_or_default();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Matches the recorded processes with those that the holder has.
fn adopt_all(services: &Arc<Services>, held: Vec<HeldProcess>, predecessor_active: bool) {
    let mut held: std::collections::HashMap<u64, HeldProcess> =
        held.into_iter().map(|process| (process.info.key, process)).collect();
    let mut adopted = Vec::new();
    for (_, record) in services.journal.records_with_prefix(process_record::PREFIX) {
        let record = match record.and_then(|bytes| Ok(Record::decode(&bytes)?)) {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%error, "cannot read a process record; the process is lost");
                continue;
            }
        };
        let (id, key) = (record.id.clone(), record.key);
        match Process::adopt(Arc::clone(services), record, held.remove(&key)) {
            Some(process) => {
                services.table.adopt(&process);
                // Most processes have exited long ago: one at a time is in memory.
                if !process.compact_if_idle() {
                    adopted.push(process);
                }
            }
            None => drop(services.journal.append(&[crate::store::journal::Change::Delete { name: Record::name(&id) }])),
        }
    }
    services.archive.drop_unused_segments();
    for process in adopted {
        process.sync_exit_from_log();
        process.arm_screen_checkpoint();
        process.maybe_restart();
        if !predecessor_active && process.is_unclaimed_run() {
            process.promote();
        }
    }
    for key in held.keys() {
        // A process without a record is a plain run, which lives as long as its request. Either the previous server is
        // still answering that request, or the request died with it.
        if !predecessor_active {
            drop(services.link.terminate(*key, crate::signal::KILL, 0, Cause::Killed));
        }
        services.link.forget(*key);
    }
}

/// Dispatches the holder's events in their order; no handler here waits.
async fn dispatch_holder_events(services: Arc<Services>, link: HolderLink, status: watch::Sender<HolderStatus>) {
    link.receive(|event| match event {
        HolderEvent::Wake(keys) => {
            for process in keys.into_iter().filter_map(|key| services.table.by_key(key)) {
                // Compact processes have no ring that could have changed.
                let Some(log) = process.log_if_loaded() else { continue };
                // First the exit: readers that wake up must find the process exited.
                process.sync_exit_from_log();
                // For clients: the cursors that sleep at the head.
                log.wake_readers();
                // For the screen and the history, which share one request for a wake-up at an offset.
                log.renew_offset_wakeups();
                // For the writer of the history.
                process.wake_history(&log);
                // For a screen that no client looks at.
                process.checkpoint_before_overwrite();
            }
        }
        HolderEvent::Retire => status.send_modify(|status| status.retire = true),
        HolderEvent::HolderGone => status.send_modify(|status| status.holder_gone = true),
        HolderEvent::Upgraded(result) => status.send_modify(|status| {
            status.upgrades += 1;
            status.upgrade_error = result.err();
        }),
        HolderEvent::PredecessorExited => services.archive.set_exclusive(),
    })
    .await;
}
