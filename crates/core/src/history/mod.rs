//! History: output and records on disk, behind the log.
//!
//! ```text
//! Process::save ──records──▶ `history-commit` thread ──put, sync──▶ outlive_history::Store ◀── reader (cold reads)
//! holder ──wake-ups──▶ tap ─▶ `history` thread ──append──────────────▶      ▲
//!                             `history-maintenance` thread ──seal, limits, purge
//! ```
//!
//! | file | content |
//! |---|---|
//! | `types` | what surfaces pass in and get back |
//! | `api` | the part of `Core` about history |
//! | `tap` | the link between a process and the thread that stores its output |
//! | `queue` | what the threads have to do |
//! | `threads` | opening and closing the store; the threads for records and maintenance |
//! | `writer`, `output` | the thread that moves output from rings to the store; one such output |
//! | `pace` | decides when the writer slows a program down too much |
//! | `records` | which record of a process, session or exec is stored |
//! | `reader` | reads output that is no longer in memory |
//!
//! The holder never waits for the disk: the writer reads rings as clients do. Its leases are of their own kind. They may
//! slow a program down, and end after 100 ms without progress. Syncs and commits have a thread of their own, so that a
//! slow one does not stop the writer, whose lease would then end. Disk accesses that a request waits for
//! run on blocking threads, a few at a time, so that a hung disk never takes the threads of the runtime.

mod api;
mod output;
mod pace;
mod queue;
pub(crate) mod reader;
pub(crate) mod records;
mod tap;
#[cfg(test)]
mod tests;
mod threads;
mod types;
mod writer;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use outlive_history::{Boot, Record, RecordKind, Span, Store, Usage};
use tokio::sync::{Notify, Semaphore, watch};

pub(crate) use self::api::reconcile;
use self::queue::{Closing, Command, CommitInbox, MaintenanceInbox, Monitor, WriterInbox};
use self::reader::{HistoryReader, StoredLog};
pub(crate) use self::tap::Tap;
pub use self::types::{BootFilter, BootInfo, HistoryExec, HistoryOptions, HistorySession, HistoryState, HistoryStatus};
use crate::holder_link::HolderLink;
use crate::log::Log;
use crate::{Error, Result, lock};

/// Disk accesses of requests at the same time, apart from reads of output.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// How long a request waits for the disk, and for the store to be opened.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a request waits for records to be written, and a kept run for the store.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// A deleted process is removed from the disk this long after its deletion, together with others.
const PURGE_DELAY: Duration = Duration::from_secs(20);

/// The history of one server: on, or off with a reason.
pub(crate) struct History {
    shared: Arc<Shared>,
}

/// What the threads of the history share with the core.
struct Shared {
    options: HistoryOptions,
    boot: Boot,
    link: HolderLink,
    /// Changes are stored: the store is open.
    is_accepting: AtomicBool,
    store: OnceLock<OpenStore>,
    health: Mutex<Health>,
    stage: watch::Sender<Stage>,
    writer: Monitor<WriterInbox>,
    commits: Monitor<CommitInbox>,
    maintenance: Monitor<MaintenanceInbox>,
    /// The processes of this server are connected with their history.
    reconciled: watch::Sender<bool>,
    /// How many commits have ended.
    commits_ended: watch::Sender<u64>,
    /// How many requested maintenance passes are done.
    passes_done: watch::Sender<u64>,
    /// Why the last one failed.
    pass_failure: Mutex<Option<String>>,
    /// Held while records are taken from `commits` and written, or deleted, so that none is written after its deletion.
    record_gate: Mutex<()>,
    requests: Arc<Semaphore>,
    /// As of the last commit or maintenance pass: a status request must not wait for the disk.
    usage: Mutex<Usage>,
    gaps: AtomicU64,
    opened_at: Instant,
    /// Notified when the writer has released the log of an exited process: retention can move it.
    retention_due: Arc<Notify>,
}

struct OpenStore {
    store: Arc<Store>,
    reader: HistoryReader,
    max_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    /// It cannot be opened at the moment, and is tried again.
    Retrying,
    Open,
    /// Turned off, or closed.
    Closed,
}

/// Why nothing is stored at the moment.
#[derive(Default)]
struct Health {
    off: Option<String>,
    output: Option<String>,
    records: Option<String>,
}

/// Which part of the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Output,
    Records,
}

impl History {
    /// Opens the store on a thread of its own. [`reconcile`] then stores what has happened until it is open.
    /// `retention_due` is notified when the log of an exited process is no longer in use here.
    pub(crate) fn open(options: HistoryOptions, link: HolderLink, retention_due: Arc<Notify>) -> Self {
        let welcome = link.welcome();
        let boot = Boot {
            id: format!("{:x}", welcome.boot_id),
            started_at_ms: welcome.started_at_ms,
            last_write_at_ms: welcome.started_at_ms,
        };
        let off = match &options.directory {
            _ if options.off => Some("turned off"),
            None => Some("no directory is set; name one with --history DIR"),
            Some(_) => None,
        };
        let shared = Arc::new(Shared {
            options,
            boot,
            link,
            is_accepting: AtomicBool::new(false),
            store: OnceLock::new(),
            health: Mutex::default(),
            stage: watch::Sender::new(Stage::Opening),
            writer: Monitor::default(),
            commits: Monitor::default(),
            maintenance: Monitor::default(),
            reconciled: watch::Sender::new(false),
            commits_ended: watch::Sender::new(0),
            passes_done: watch::Sender::new(0),
            pass_failure: Mutex::default(),
            record_gate: Mutex::default(),
            requests: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            usage: Mutex::default(),
            gaps: AtomicU64::new(0),
            opened_at: Instant::now(),
            retention_due,
        });
        match off {
            Some(reason) => shared.turn_off(reason.to_owned()),
            None => threads::start(&shared),
        }
        Self { shared }
    }

    pub(crate) fn status(&self) -> HistoryStatus {
        let shared = &self.shared;
        let mut status = HistoryStatus {
            directory: shared.options.directory.as_ref().map(|path| path.display().to_string()),
            gaps: shared.gaps.load(Relaxed),
            ..HistoryStatus::default()
        };
        if let Some(open) = shared.store.get() {
            let usage = *lock(&shared.usage);
            (status.bytes, status.max_bytes) = (usage.bytes, open.max_bytes);
            (status.segments, status.processes) = (usage.segments, usage.processes);
            status.unsynced_bytes = open.store.unsynced_bytes();
        }
        let health = lock(&shared.health);
        (status.state, status.reason) = match (&health.off, health.output.as_ref().or(health.records.as_ref())) {
            (Some(reason), _) => (HistoryState::Off, Some(reason.clone())),
            (None, Some(reason)) => (HistoryState::Failing, Some(reason.clone())),
            (None, None) if shared.store.get().is_some() => (HistoryState::On, None),
            (None, None) => (HistoryState::Off, Some("the directory is being opened".to_owned())),
        };
        status
    }

    /// Whether changes are stored now. One atomic load.
    pub(crate) fn is_accepting(&self) -> bool {
        self.shared.is_accepting.load(Relaxed)
    }

    pub(crate) fn boot_id(&self) -> &str {
        &self.shared.boot.id
    }

    /// Whether processes with this tag are left out.
    pub(crate) fn excludes(&self, tag: Option<&str>) -> bool {
        tag.is_some_and(|tag| self.shared.options.exclude_tags.iter().any(|excluded| excluded == tag))
    }

    // ---- hooks; none of them waits ----

    /// Stores the output of a process from now on. Called again when it continues in another log.
    pub(crate) fn open_output(&self, id: &str, tap: &Arc<Tap>, log: &Arc<Log>) {
        self.send(Command::Open { id: id.to_owned(), tap: Arc::clone(tap), log: Arc::clone(log) });
    }

    /// The holder reported a change of this log.
    pub(crate) fn wake(&self, tap: &Tap, log: &Log) {
        if tap.is_due(log) {
            self.send(Command::Wake(tap.key));
        }
    }

    /// The process has exited: the rest of its output is stored now.
    pub(crate) fn drain_output(&self, tap: &Tap) {
        self.send(Command::Drain(tap.key));
    }

    /// The process was removed, but its history is kept.
    pub(crate) fn finish_output(&self, tap: &Tap) {
        self.send(Command::Finish(tap.key));
    }

    /// Stops storing the output of a process that is being deleted.
    pub(crate) fn discard_output(&self, tap: &Tap) {
        self.send(Command::Discard(tap.key));
    }

    fn send(&self, command: Command) {
        if self.is_accepting() && !self.shared.writer.update(|inbox| inbox.push(command)) {
            tracing::debug!("the history does not keep up; the output of a process is not stored");
        }
    }

    /// Writes a record soon. The body of a process's record is that of the journal.
    pub(crate) fn put(&self, record: Record, urgent: bool) {
        if self.is_accepting() {
            let accepted = self.shared.commits.update(|inbox| inbox.put(record, urgent, Instant::now()));
            if !accepted {
                tracing::debug!("too many records wait for the history; one was dropped");
            }
        }
    }

    // ---- requests ----

    /// The stored output of a process, for readers of its log. `None` until the writer has opened it.
    pub(crate) fn stored_log(&self, id: &str, tap: &Tap) -> Option<StoredLog> {
        self.open_log(id, tap.span()?)
    }

    /// The stored output of a process. `None` until the store is open.
    pub(crate) fn open_log(&self, id: &str, span: &Arc<Span>) -> Option<StoredLog> {
        Some(self.shared.store.get()?.reader.open_log(id, Arc::clone(span)))
    }

    /// Runs `work` on a thread that may wait for the disk. Waits until the store is open.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let run = async {
            let store = self.wait_open().await?;
            let permit = Arc::clone(&self.shared.requests).acquire_owned().await.map_err(|_| self.off_error())?;
            let work = tokio::task::spawn_blocking(move || {
                // Held by the thread, so that a request that timed out still counts.
                let _permit = permit;
                work(&store)
            });
            match work.await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(unavailable(&error)),
                Err(error) => Err(unavailable(&error)),
            }
        };
        tokio::time::timeout(REQUEST_TIMEOUT, run)
            .await
            .unwrap_or_else(|_| Err(unavailable(&"the disk does not respond")))
    }

    /// Waits until the store is open. Fails if it is off or closed.
    async fn wait_open(&self) -> Result<Arc<Store>> {
        let mut stage = self.shared.stage.subscribe();
        // Cannot fail: the sender lives as long as `self`.
        let open = stage.wait_for(|stage| *stage != Stage::Opening).await.is_ok_and(|stage| *stage == Stage::Open);
        match self.shared.store.get() {
            Some(store) if open => Ok(Arc::clone(&store.store)),
            _ => Err(self.off_error()),
        }
    }

    /// Waits until all records that were put are written, so that a reader finds the newest ones; not for long if the
    /// disk fails.
    pub(crate) async fn flush_records(&self) {
        let flush = async {
            let mut ended = self.shared.commits_ended.subscribe();
            while self.shared.commits.update(|inbox| inbox.hurry(Instant::now())) {
                let _ = ended.changed().await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flush).await;
    }

    /// Waits until the store is open, for something that must be stored; not for long if it cannot be opened.
    pub(crate) async fn wait_ready(&self) {
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, self.wait_open()).await;
    }

    fn set_reconciled(&self) {
        self.shared.reconciled.send_replace(true);
    }

    /// Waits until the processes of this server are connected with their history, or history is off.
    async fn wait_reconciled(&self) {
        if self.wait_open().await.is_ok() {
            let _ = self.shared.reconciled.subscribe().wait_for(|reconciled| *reconciled).await;
        }
    }

    /// Waits until changes are stored; forever if they never are.
    async fn wait_accepting(&self) {
        let _ = self.shared.stage.subscribe().wait_for(|stage| *stage == Stage::Open).await;
    }

    fn off_error(&self) -> Error {
        if self.shared.store.get().is_some() {
            // It was closed for the next server, or because outlive stops.
            return Error::being_replaced();
        }
        let reason = lock(&self.shared.health).off.clone().unwrap_or_default();
        Error::Unavailable { code: "history_off", message: format!("history is off: {reason}") }
    }

    /// Deletes a record with its output and its children. Nothing of it can be read once this returns. False: there is
    /// no such record, or history is off.
    pub(crate) async fn delete(&self, kind: RecordKind, id: &str) -> Result<bool> {
        let owned_id = id.to_owned();
        self.delete_by(kind, id, move |store| store.delete(kind, &owned_id)).await
    }

    /// As `delete`, for a process or session of this server: its first record or output may be about to be written.
    pub(crate) async fn delete_live(&self, kind: RecordKind, id: &str) -> Result<bool> {
        let owned_id = id.to_owned();
        self.delete_by(kind, id, move |store| store.delete_live(kind, &owned_id)).await
    }

    async fn delete_by(
        &self,
        kind: RecordKind,
        id: &str,
        delete: impl FnOnce(&Store) -> std::io::Result<bool> + Send + 'static,
    ) -> Result<bool> {
        let is_first_server = self.shared.link.epoch() <= 1;
        match *self.shared.stage.borrow() {
            // A server that is being replaced cannot delete any more.
            Stage::Closed if self.shared.store.get().is_some() => return Err(Error::being_replaced()),
            // Without history there is nothing to delete.
            Stage::Closed => return Ok(false),
            // Only an earlier server of this boot can have stored anything.
            Stage::Retrying if is_first_server => return Ok(false),
            _ => {}
        }
        let (shared, id) = (Arc::clone(&self.shared), id.to_owned());
        self.with_store(move |store| {
            let _gate = lock(&shared.record_gate);
            shared.commits.update(|inbox| inbox.forget(kind, &id));
            let deleted = delete(store)?;
            if deleted {
                shared.maintenance.update(|inbox| inbox.pass_within(PURGE_DELAY, Instant::now()));
            }
            Ok(deleted)
        })
        .await
    }

    /// Runs a maintenance pass, and waits for its end.
    pub(crate) async fn maintain_now(&self) -> Result<()> {
        self.wait_open().await?;
        let number = self.shared.maintenance.update(|inbox| {
            inbox.requested += 1;
            inbox.requested
        });
        let mut done = self.shared.passes_done.subscribe();
        let _ = done.wait_for(|done| *done >= number).await;
        let failure = lock(&self.shared.pass_failure).clone();
        failure.map_or(Ok(()), |reason| {
            let message = format!("cannot maintain the history: {reason}; it is tried again");
            Err(Error::Unavailable { code: "history_unavailable", message })
        })
    }

    /// Closes the store for the next server, which finds unstored output in the rings.
    pub(crate) async fn hand_over(&self, timeout: Duration) {
        self.close(Closing::HandOver, timeout).await;
    }

    /// Stores everything, and closes the store.
    pub(crate) async fn shut_down(&self, timeout: Duration) {
        self.close(Closing::Shutdown, timeout).await;
    }

    async fn close(&self, closing: Closing, timeout: Duration) {
        self.shared.is_accepting.store(false, Relaxed);
        self.shared.writer.update(|inbox| inbox.closing = Some(closing));
        let mut stage = self.shared.stage.subscribe();
        let closed = stage.wait_for(|stage| *stage == Stage::Closed);
        if tokio::time::timeout(timeout, closed).await.is_err() {
            tracing::warn!("the history is not closed in time; its newest output may be missing");
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.shared.writer.update(|inbox| {
            inbox.closing.get_or_insert(Closing::HandOver);
        });
    }
}

impl Shared {
    fn turn_off(&self, reason: String) {
        self.is_accepting.store(false, Relaxed);
        lock(&self.health).off = Some(reason);
        self.stage.send_replace(Stage::Closed);
    }

    /// The store cannot be opened, and is tried again. True: the reason is new.
    fn report_retry(&self, reason: &str) -> bool {
        let old = lock(&self.health).off.replace(reason.to_owned());
        self.stage.send_replace(Stage::Retrying);
        old.as_deref() != Some(reason)
    }

    fn turn_on(&self) {
        lock(&self.health).off = None;
        self.is_accepting.store(true, Relaxed);
        self.stage.send_replace(Stage::Open);
    }

    fn update_usage(&self, store: &Store) {
        let usage = store.usage();
        *lock(&self.usage) = usage;
    }

    /// Reports that a part of the store fails, or works again. Logged when that changes.
    fn set_health(&self, part: Part, failure: Option<String>) {
        let mut health = lock(&self.health);
        let state = match part {
            Part::Output => &mut health.output,
            Part::Records => &mut health.records,
        };
        match (&failure, state.is_some()) {
            (Some(reason), false) => {
                tracing::warn!(reason, ?part, "cannot write history; programs are not affected, trying again");
            }
            (None, true) => tracing::info!(?part, "history is written again"),
            _ => {}
        }
        *state = failure;
    }
}

fn unavailable(reason: &dyn std::fmt::Display) -> Error {
    Error::Unavailable { code: "history_unavailable", message: format!("cannot read the history: {reason}; try again") }
}
