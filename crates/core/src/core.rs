//! The whole of the core behind one handle.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use outlive_holder::log::Cause;
use outlive_holder::wire::Welcome;
use tokio::sync::{Notify, Semaphore, watch};

use crate::archive::Archive;
use crate::config::{self, Config, ProcessConfig};
use crate::events::{Events, Follower};
use crate::holder_link::{Handover, HeldProcess, HolderLink, News};
use crate::journal::{Journal, KEPT_AS};
use crate::process::{Idempotency, IfTagExists, Process, Record, Spec};
use crate::services::{CONFIG, PROCESS_CONFIG, Services};
use crate::stored::Stored;
use crate::table::{Reserved, Table};
use crate::{Error, Result};

/// What the surface around the core must act on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Another server takes over: accept nothing more, finish what is under way.
    pub retire: bool,
    /// The holder is gone: what there is can be read, nothing can be started.
    pub holder_gone: bool,
    /// How the last upgrade went, and how many there were.
    pub upgrades: u64,
    pub upgrade_error: Option<String>,
}

/// A process to be made.
#[derive(Clone, Debug, Default)]
pub struct Create {
    pub spec: Spec,
    /// False only reserves it.
    pub start: bool,
    pub if_tag_exists: IfTagExists,
    pub idempotency_key: Option<String>,
    /// Of what the caller asked for, where `spec` is something else.
    pub asked: Option<u64>,
    /// The caller will read its output from the first byte on, however much that is by the time it begins.
    pub reader_comes: bool,
}

impl Create {
    fn request_hash(&self) -> u64 {
        self.asked.unwrap_or_else(|| request_hash(&self.spec))
    }
}

#[derive(Clone)]
pub struct Core {
    pub(crate) services: Arc<Services>,
    notice: watch::Receiver<Notice>,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub running: u64,
    pub exited: u64,
    pub runs: u64,
    pub log_bytes: u64,
    pub attachments: u64,
    /// Terminals whose logs are watched, so that their screens miss nothing.
    pub screens_watched: u64,
    pub screen_checkpoints: u64,
}

impl Core {
    /// Takes up what the holder handed over; limits that nobody has changed since are as at the start. Must be called
    /// inside of a runtime.
    pub fn take_over(handover: Handover, start: (ProcessConfig, Config)) -> io::Result<Self> {
        let Handover { link, mut kept, held, another_finishes } = handover;
        // All that are there; how many are kept is known only after the configuration has been read.
        let (journal, mut contents) = Journal::open(link.clone(), kept.remove(KEPT_AS), usize::MAX)?;
        let journal = Arc::new(journal);
        let mut read = |name: &str| contents.records.remove(name);
        let process_config: ProcessConfig = config::read_kept(read(PROCESS_CONFIG), start.0);
        let config: Config = config::read_kept(read(CONFIG), start.1);
        let stored = Stored::take_from(&mut contents.records, Arc::clone(&journal));
        journal.set_max_events(config.max_events as usize);
        let services = Arc::new(Services {
            link: link.clone(),
            stored,
            archive: Archive::open(link.clone(), &mut kept, !another_finishes),
            events: Events::new(Arc::clone(&journal), contents.events, config.max_events as usize),
            journal,
            table: Table::default(),
            collectors: crate::run::Collectors::default(),
            sessions: crate::session::Sessions::default(),
            process_config: RwLock::new(process_config),
            config: RwLock::new(config),
            begun: Instant::now(),
            keep_up_turn: Semaphore::new(1),
            model_turns: Arc::new(Semaphore::new(2)),
            models_kept: AtomicUsize::new(0),
            screen_checkpoints: AtomicU64::new(0),
            ended: Notify::new(),
        });
        adopt_all(&services, contents.records.into_values(), held, another_finishes);
        crate::session::Sessions::take_over(&services);
        let (tell, notice) = watch::channel(Notice::default());
        let core = Self { services, notice };
        tokio::spawn(listen(core.clone(), link, tell));
        tokio::spawn(crate::retention::tidy(Arc::clone(&core.services)));
        core.services.link.serving();
        Ok(core)
    }

    pub fn notice(&self) -> watch::Receiver<Notice> {
        self.notice.clone()
    }

    pub fn welcome(&self) -> &Welcome {
        self.services.link.welcome()
    }

    // ---- what others want to survive the server ----

    /// What was stored under names that begin like this, the beginning left out.
    pub fn stored(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        self.services.stored.all(prefix)
    }

    /// Stores a value under a name, or gives it up.
    pub fn store(&self, name: &str, value: Option<Vec<u8>>) -> Result<()> {
        self.services.stored.put(name, value)
    }

    pub fn holder_is_gone(&self) -> bool {
        self.services.link.is_gone()
    }

    /// Resolves when there is no holder any more.
    pub async fn until_holder_gone(&self) {
        self.services.link.until_gone().await;
    }

    // ---- processes ----

    /// Makes a process, and starts it unless it is only to be reserved. True: it is new.
    pub async fn create(&self, create: Create) -> Result<(Arc<Process>, bool)> {
        create.spec.check()?;
        let idempotency = create
            .idempotency_key
            .as_ref()
            .map(|key| Idempotency { key: format!("start/{key}"), request_hash: create.request_hash() });
        loop {
            let mut record = self.new_record(create.spec.clone());
            record.reserved = !create.start;
            record.reader_comes = create.reader_comes;
            record.idempotency.clone_from(&idempotency);
            match self.services.table.reserve(&self.services, record, create.if_tag_exists)? {
                Reserved::New(process) => {
                    if create.start
                        && let Err(error) = process.start().await
                    {
                        process.remove();
                        return Err(error);
                    }
                    return Ok((process, true));
                }
                Reserved::Existing(process) => {
                    // The one who was first may still be starting it, or fail to.
                    let there = process
                        .until(|process| {
                            let starts =
                                create.start && process.info().started_at_ms.is_none() && !process.is_reserved();
                            (process.is_removed() || !starts).then(|| !process.is_removed())
                        })
                        .await;
                    if there {
                        return Ok((process, false));
                    }
                }
            }
        }
    }

    pub(crate) fn new_record(&self, spec: Spec) -> Record {
        self.services.new_record(spec)
    }

    /// By id, `tag:NAME` or `pid:NUMBER`.
    pub fn find(&self, name: &str) -> Result<Arc<Process>> {
        let process = self.services.table.find(name)?;
        if process.is_hidden() { Err(Error::not_found(name)) } else { Ok(process) }
    }

    /// The newest process with this annotation; one that has ended only if none else has it.
    pub fn find_annotated(&self, name: &str, value: &str) -> Option<Arc<Process>> {
        let found = self.list(true).into_iter().filter(|process| process.is_annotated(name, value));
        found.max_by_key(|process| (!process.is_over(), process.id().to_owned()))
    }

    /// All processes, oldest first; one-shot runs only if `with_runs`.
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
        let config = config.checked()?;
        self.services.set_process_config(config);
        Ok(config)
    }

    pub fn config(&self) -> Config {
        self.services.config()
    }

    pub fn set_config(&self, config: Config) -> Result<Config> {
        let config = config.checked()?;
        self.services.set_config(config);
        self.services.events.set_most(config.max_events as usize);
        self.services.journal.set_max_events(config.max_events as usize);
        self.services.process_ended();
        Ok(config)
    }

    // ---- events ----

    /// Follows events after number `after`, or from now on.
    pub fn follow_events(&self, after: Option<u64>) -> Follower {
        let next = after.map_or_else(|| self.services.events.next_sequence(), |after| after.saturating_add(1));
        Follower { services: Arc::clone(&self.services), next }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            runs: self.services.table.runs.taken(),
            screen_checkpoints: self.services.screen_checkpoints.load(Relaxed),
            ..Counts::default()
        };
        for process in self.services.table.all() {
            let info = process.info();
            match info.status {
                _ if process.is_hidden() => {}
                crate::process::Status::Exited => counts.exited += 1,
                crate::process::Status::Running => counts.running += 1,
                crate::process::Status::Created => {}
            }
            counts.log_bytes += info.output_end - info.output_start;
            counts.attachments += info.attachments as u64;
            counts.screens_watched += u64::from(process.screen.is_watched());
        }
        counts
    }

    /// Starts an upgrade to the binary on disk; `notice` tells how it went.
    pub fn upgrade(&self) {
        self.services.link.upgrade();
    }

    /// Answers the holder's wish that this server retires: waits a moment for what is under way, and then
    /// neither writes nor asks for anything any more.
    pub async fn retire(&self) {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);
        let settled = async {
            self.services.sessions.close().await;
            self.services.link.until_answered().await;
        };
        let _ = tokio::time::timeout(PATIENCE, settled).await;
        // In this order: what the archive gives up must be known in the journal.
        self.services.archive.close();
        self.services.journal.close();
        self.services.link.retired();
    }
}

/// FNV-1a: the next server may be built by another compiler and must come to the same number.
pub(crate) fn request_hash(request: &impl serde::Serialize) -> u64 {
    let text = serde_json::to_string(request).unwrap_or_default();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Brings records and held processes together.
fn adopt_all(
    services: &Arc<Services>,
    records: impl Iterator<Item = Vec<u8>>,
    held: Vec<HeldProcess>,
    another_finishes: bool,
) {
    let mut held: std::collections::HashMap<u64, HeldProcess> =
        held.into_iter().map(|process| (process.held.key, process)).collect();
    let mut adopted = Vec::new();
    for bytes in records {
        let record = match Record::decode(&bytes) {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%error, "a record cannot be read, its process is not known any more");
                continue;
            }
        };
        let (id, key) = (record.id.clone(), record.key);
        match Process::adopt(Arc::clone(services), record, held.remove(&key)) {
            Some(process) => {
                services.table.adopt(&process);
                adopted.push(process);
            }
            None => drop(services.journal.append(&[crate::journal::Change::Delete { name: Record::name(&id) }])),
        }
    }
    services.archive.adopted_all();
    for process in adopted {
        process.news();
        process.watch_screen();
        process.maybe_restart();
        if !another_finishes && process.is_unclaimed_run() {
            process.promote();
        }
    }
    for key in held.keys() {
        // A plain run: it lives as long as its request. That one is still being answered by the server before us,
        // or it died with it.
        if !another_finishes {
            drop(services.link.end(*key, 9, 0, Cause::Killed));
        }
        services.link.forget(*key);
    }
}

/// Passes the holder's news on, one after the other; nothing here waits.
async fn listen(core: Core, link: HolderLink, tell: watch::Sender<Notice>) {
    let services = Arc::clone(&core.services);
    link.receive(|news| match news {
        News::Wake(keys) => {
            for key in keys {
                if let Some(process) = services.table.by_key(key) {
                    process.news();
                }
            }
        }
        News::Retire => tell.send_modify(|notice| notice.retire = true),
        News::HolderGone => tell.send_modify(|notice| notice.holder_gone = true),
        News::Upgraded(result) => tell.send_modify(|notice| {
            notice.upgrades += 1;
            notice.upgrade_error = result.err();
        }),
        News::Alone => services.archive.make_alone(),
    })
    .await;
}
