//! A managed process: its record, its phase and its log behind one lock.
//!
//! ```text
//!   created ──start──▶ starting ──spawned──▶ running ──exit──▶ exited
//!      │                  │ failed                              │
//!      └── delete         └──▶ created or exited again          ├── start, restart, policy ──▶ starting
//!                                                               └── delete, retention ──▶ removed
//! ```
//!
//! Decisions are carried out by messages to the holder, which never block, and the lock is never held across an await.
//! So no process needs a task of its own or delays another.
//!
//! | file | part of `impl Process` |
//! |---|---|
//! | `mod` | the type; creating, adopting and saving it |
//! | `state` | what a command means in a phase, as a pure function |
//! | `start`, `environment`, `user` | from a spec to a running process |
//! | `stop` | exit, stop, kill, restart, removal |
//! | `input` | writing to stdin or the terminal |
//! | `clients` | attach, resize, change of metadata |
//! | `view`, `info` | read access, waiting for a change, the public description |
//! | `compact` | the small form of an exited process |
//! | `historic` | storing it in the history, and reading one from there |

mod clients;
mod compact;
mod environment;
mod historic;
mod info;
mod input;
mod spec;
mod start;
mod state;
mod stop;
mod user;
mod view;

use std::sync::{Arc, Mutex};

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};
use outlive_holder::wire::HeldProcessInfo;
use tokio::sync::Notify;

use crate::Error;
use crate::attach::Attachments;
pub use crate::attach::SizeChange;
use crate::events::{Kind, Subject};
use crate::history::Tap;
use crate::holder_link::HeldProcess;
use crate::log::{ArchivedLog, Log, LogEnd};
use crate::screen::Screen;
use crate::services::Services;
use crate::store::journal::Change;
pub(crate) use crate::store::process_record::{Idempotency, Record};

pub(crate) use self::compact::Storage;
use self::input::Input;
pub(crate) use environment::DEFAULT_PATH;
pub use info::{ExitReason, ProcessInfo, Status};
pub(crate) use spec::check_name;
pub use spec::{
    EnvMode, IfTagExists, Limits, OnTimeout, Owner, Patch, Pty, RestartMode, RestartPolicy, Source, Spec, StdinMode,
    check_variable,
};
pub(crate) use start::StartOutcome;
pub(crate) use state::Phase;
pub(crate) use user::User;

/// A managed process. Readers that still have it may use it after its record has been removed.
pub struct Process {
    pub(crate) id: String,
    pub(crate) key: u64,
    pub(crate) services: Arc<Services>,
    storage: Mutex<Storage>,
    input: Input,
    pub(crate) screen: Screen,
    /// Set while the history stores the process, or has output of it that is not in memory.
    tap: Mutex<Option<Arc<Tap>>>,
    /// The boot in which it ran, if only the history knows it.
    historic_boot: Option<Box<str>>,
    /// Notified when the phase, record or log changed.
    changed: Notify,
}

/// The state of a process that is loaded.
pub(crate) struct Inner {
    pub(crate) record: Record,
    pub(crate) phase: Phase,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) attachments: Attachments,
    pub(crate) last_input_at_ms: Option<u64>,
    pub(crate) removed: bool,
    /// The holder may have state under this process's key.
    pub(crate) is_held: bool,
    /// A restart is scheduled; its output belongs to the same log, so the log must not be archived or dropped.
    pub(crate) restart_due: bool,
    /// Restarts by policy since the process last ran long enough to count as recovered.
    pub(crate) failures: u32,
    /// Why the last start failed; a waiting `restart` returns it.
    pub(crate) start_error: Option<Error>,
}

impl Process {
    /// A new process in phase `Created`. Its record is written, unless it is a plain run.
    pub(crate) fn create(services: Arc<Services>, record: Record) -> Arc<Self> {
        let process = Arc::new(Self::with_phase(services, record, Phase::Created));
        {
            let mut inner = process.lock();
            if inner.record.reserved {
                process.announce(&mut inner, Kind::Created);
            } else if inner.record.belongs_in_journal() {
                process.save(&inner, None);
            }
        }
        process
    }

    /// Saves the record and emits an event; the first event of a process is always `Created`. Hidden processes have no
    /// events. Does nothing for a run, whose record is saved elsewhere if it has one.
    fn announce(&self, inner: &mut Inner, kind: Kind) {
        if inner.record.ephemeral {
            return;
        }
        if inner.record.hidden {
            self.save(inner, None);
            return;
        }
        let kind = if std::mem::replace(&mut inner.record.announced, true) { kind } else { Kind::Created };
        self.save(inner, Some(kind));
    }

    fn with_phase(services: Arc<Services>, record: Record, phase: Phase) -> Self {
        Self {
            id: record.id.clone(),
            key: record.key,
            services,
            storage: Mutex::new(Storage::Loaded(Box::new(Inner::new(record, phase)))),
            input: Input::default(),
            screen: Screen::default(),
            tap: Mutex::default(),
            historic_boot: None,
            changed: Notify::new(),
        }
    }

    /// A process that an earlier server recorded. `None`: it was never spawned, so its record is obsolete.
    pub(crate) fn adopt(services: Arc<Services>, record: Record, held: Option<HeldProcess>) -> Option<Arc<Self>> {
        let exit: Option<Exit> = record.exit.map(Into::into);
        let phase = match (&held, exit, record.generation) {
            // The process may have exited: `sync_exit_from_log` finds that in the log.
            (Some(HeldProcess { info, .. }), _, _) => {
                Phase::Running { pid: info.pid, started_at_ms: info.started_at_ms }
            }
            (None, Some(exit), _) => Phase::Exited(exit),
            (None, None, _) if record.reserved => Phase::Created,
            (None, None, _) => return None,
        };
        let process = Arc::new(Self::with_phase(services, record, phase));
        {
            let mut inner = process.lock();
            match held {
                Some(held) => {
                    inner.record.generation = held.info.generation;
                    inner.record.started_at_ms = Some(held.info.started_at_ms);
                    // The holder may know of a later start than the record.
                    inner.record.pid = Some(held.info.last_pid).filter(|pid| *pid != 0).or(inner.record.pid);
                    // The ring exists, even if the previous server was about to archive or drop it.
                    (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
                    match Log::open(process.key, held.log, process.services.link.clone()) {
                        Ok(log) => {
                            // The recorded exit counts only if no later generation has ended since.
                            if let Some(exit) = exit.filter(|exit| log.exit() == Some(*exit)) {
                                inner.phase = Phase::Exited(exit);
                            }
                            inner.log = Some(Arc::new(log));
                        }
                        Err(error) => {
                            tracing::error!(%error, id = process.id, "cannot open the log of an adopted process");
                        }
                    }
                    process.input.open(held.input);
                    process.rearm_after_takeover(&inner, &held.info);
                }
                None if !matches!(inner.phase, Phase::Exited(_)) => inner.record.generation = 0,
                None => process.adopt_archived(&mut inner),
            }
            if matches!(inner.phase, Phase::Running { .. }) && inner.record.is_counted() {
                process.services.table.processes.acquire_unlimited();
            }
            if !inner.record.announced {
                process.announce(&mut inner, Kind::Created);
            }
        }
        Some(process)
    }

    /// Opens the archived log of an exited process that the holder has no ring for.
    fn adopt_archived(&self, inner: &mut Inner) {
        let Phase::Exited(exit) = inner.phase else { return };
        let location = inner.record.archived;
        let log = location.and_then(|location| self.services.archive.adopt(location, exit));
        self.set_archived_log(inner, log);
    }

    /// Sets the log of an exited process; without one, the log counts as dropped.
    fn set_archived_log(&self, inner: &mut Inner, log: Option<ArchivedLog>) {
        let Phase::Exited(exit) = inner.phase else { return };
        if let Some(log) = log {
            inner.log = Some(Arc::new(self.with_history(Log::archived(self.key, log, self.services.link.clone()))));
            return;
        }
        inner.record.archived = None;
        inner.record.log_dropped = true;
        inner.record.log_end.get_or_insert(LogEnd { offset: exit.offset, ..LogEnd::default() });
    }

    /// Sets the detach deadline again: the attachments of the previous server ended with it.
    fn rearm_after_takeover(&self, inner: &Inner, held: &HeldProcessInfo) {
        if let Some(ms) = inner.record.spec.kill_after_detach_ms
            && inner.record.last_attach_at_ms.is_some()
            && held.detach_at == 0
        {
            self.services.link.set_deadline(self.key, Cause::Detached, clock::boot_ms().saturating_add(ms));
        }
    }

    /// Writes the record, and an event with it, as one journal change.
    pub(crate) fn save(&self, inner: &Inner, event: Option<Kind>) {
        if inner.removed || self.is_historic() {
            // A record written now would bring the process back with the next server.
            return;
        }
        let value = inner.record.encode();
        self.store_record(inner, &value, event.is_some_and(historic::is_urgent));
        let put = Change::Put { name: Record::name(&self.id), value };
        match event {
            Some(kind) => {
                let info = Self::describe(inner);
                self.services.events.emit(kind, Subject::Process(&info), vec![put]);
            }
            None => drop(self.services.journal.append(&[put])),
        }
        crate::crash_point::reach("record_put");
    }

    /// Writes a record of which only the location of the log has changed, which the history does not store.
    pub(crate) fn save_log_location(&self, inner: &Inner) {
        if !inner.removed && !self.is_historic() {
            let put = Change::Put { name: Record::name(&self.id), value: inner.record.encode() };
            let _ = self.services.journal.append(&[put]);
            crate::crash_point::reach("record_put");
        }
    }

    fn announce_update(&self, inner: &mut Inner, why: crate::events::UpdateReason) {
        self.announce(inner, Kind::Updated(why));
    }

    /// A recorded run without an idempotency key: after the server that started it is gone, no request will fetch its
    /// result.
    pub(crate) fn is_unclaimed_run(&self) -> bool {
        self.read(|Inner { record, .. }| record.ephemeral && record.id_outlives_request && record.idempotency.is_none())
    }

    /// Makes a run an ordinary process, because it lasts longer than its request.
    pub(crate) fn promote(&self) {
        let mut inner = self.lock();
        if std::mem::replace(&mut inner.record.ephemeral, false) {
            if matches!(inner.phase, Phase::Running { .. }) {
                self.services.table.processes.acquire_unlimited();
            }
            self.announce(&mut inner, Kind::Created);
            if matches!(inner.phase, Phase::Exited(_)) {
                self.announce(&mut inner, Kind::Exited);
            }
        }
    }
}

impl Inner {
    fn new(record: Record, phase: Phase) -> Self {
        Self {
            record,
            phase,
            log: None,
            attachments: Attachments::default(),
            last_input_at_ms: None,
            removed: false,
            is_held: true,
            restart_due: false,
            failures: 0,
            start_error: None,
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Process").field("id", &self.id).finish_non_exhaustive()
    }
}
