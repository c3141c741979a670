//! The process itself: what it consists of, how it is made, taken over and written down.
//!
//! What can be done with it is in the files beside this one: `view`, `start`, `end`, `keep`, `clients`.

use std::sync::{Arc, Mutex};

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};
use outlive_holder::wire::Held;
use tokio::sync::Notify;

use super::input::Input;
use super::record::Record;
use super::state::Phase;
use crate::attach::Attachments;
use crate::events::Kind;
use crate::holder_link::HeldProcess;
use crate::journal::Change;
use crate::log::{Log, LogEnd};
use crate::screen::Screen;
use crate::services::Services;
use crate::{Error, lock};

pub struct Process {
    pub(crate) id: String,
    pub(crate) key: u64,
    pub(crate) services: Arc<Services>,
    pub(super) inner: Mutex<Inner>,
    pub(super) input: Input,
    pub(crate) screen: Screen,
    /// Phase, record or log changed.
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) record: Record,
    pub(super) phase: Phase,
    pub(super) log: Option<Arc<Log>>,
    pub(super) attachments: Attachments,
    pub(super) last_input_at_ms: Option<u64>,
    pub(super) removed: bool,
    /// The holder may have something under its key.
    pub(super) is_held: bool,
    /// A restart is about to happen, which the log should live to see.
    pub(super) restart_due: bool,
    /// Restarts by policy since it last ran steadily.
    pub(super) failures: u32,
    /// Why the last start failed, for whoever waits for a restart.
    pub(super) start_error: Option<Error>,
}

impl Process {
    /// A new one, reserved and written down.
    pub(crate) fn create(services: Arc<Services>, record: Record) -> Arc<Self> {
        let process = Arc::new(Self::with(services, record, Phase::Created));
        {
            let mut inner = lock(&process.inner);
            if inner.record.reserved {
                process.announce(&mut inner, Kind::Created);
            } else if inner.record.is_kept() {
                process.save(&inner, None);
            }
        }
        process
    }

    /// Sends an event; the first one about a process is always that it was created.
    pub(super) fn announce(&self, inner: &mut Inner, kind: Kind) {
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

    pub(super) fn with(services: Arc<Services>, record: Record, phase: Phase) -> Self {
        Self {
            id: record.id.clone(),
            key: record.key,
            services,
            inner: Mutex::new(Inner {
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
            }),
            input: Input::default(),
            screen: Screen::default(),
            changed: Notify::new(),
        }
    }

    /// One that an earlier server knew. `None`: its spawn was never carried out, so it never was.
    pub(crate) fn adopt(services: Arc<Services>, record: Record, held: Option<HeldProcess>) -> Option<Arc<Self>> {
        let exit: Option<Exit> = record.exit.map(Into::into);
        let phase = match (&held, exit, record.generation) {
            // With an exit of its own the log has the last word: `news` finds it there.
            (Some(HeldProcess { held, .. }), _, _) => {
                Phase::Running { pid: held.pid, started_at_ms: held.started_at_ms }
            }
            (None, Some(exit), _) => Phase::Exited(exit),
            (None, None, _) if record.reserved => Phase::Created,
            (None, None, _) => return None,
        };
        let process = Arc::new(Self::with(services, record, phase));
        {
            let mut inner = lock(&process.inner);
            match held {
                Some(held) => {
                    inner.record.generation = held.held.generation;
                    inner.record.started_at_ms = Some(held.held.started_at_ms);
                    // The holder knows of a start that nobody has written down.
                    inner.record.pid = Some(held.held.last_pid).filter(|pid| *pid != 0).or(inner.record.pid);
                    // The ring is there, whatever the server before was about to do with it.
                    (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
                    match Log::open(process.key, held.log, process.services.link.clone()) {
                        Ok(log) => {
                            // The exit that was written down, unless a later generation has ended since.
                            if let Some(exit) = exit.filter(|exit| log.exit() == Some(*exit)) {
                                inner.phase = Phase::Exited(exit);
                            }
                            inner.log = Some(Arc::new(log));
                        }
                        Err(error) => tracing::error!(%error, id = process.id, "unreadable log"),
                    }
                    process.input.open(held.input);
                    process.rearm_after_takeover(&inner, &held.held);
                }
                None if !matches!(inner.phase, Phase::Exited(_)) => inner.record.generation = 0,
                None => process.adopt_archived(&mut inner),
            }
            if matches!(inner.phase, Phase::Running { .. }) && inner.record.is_counted() {
                process.services.table.processes.take_anyway();
            }
            if !inner.record.announced {
                process.announce(&mut inner, Kind::Created);
            }
        }
        Some(process)
    }

    /// The log of an exited process that the holder has no ring for.
    pub(super) fn adopt_archived(&self, inner: &mut Inner) {
        let Phase::Exited(exit) = inner.phase else { return };
        let place = inner.record.archived;
        if let Some(log) = place.and_then(|place| self.services.archive.adopt(place, exit)) {
            inner.log = Some(Arc::new(Log::archived(self.key, log, self.services.link.clone())));
            return;
        }
        inner.record.archived = None;
        inner.record.log_dropped = true;
        inner.record.log_end.get_or_insert(LogEnd { offset: exit.offset, ..LogEnd::default() });
    }

    /// Those who were attached to the server before are gone, and nobody has noticed yet.
    pub(super) fn rearm_after_takeover(&self, inner: &Inner, held: &Held) {
        if let Some(ms) = inner.record.spec.kill_after_detach_ms
            && inner.record.last_attach_at_ms.is_some()
            && held.detach_at == 0
        {
            self.services.link.arm(self.key, Cause::Detached, clock::boot_ms().saturating_add(ms));
        }
    }

    /// Writes the record, and an event with it, as one change.
    pub(super) fn save(&self, inner: &Inner, event: Option<Kind>) {
        if inner.removed {
            // Written now, it would come back with the next server.
            return;
        }
        let put = Change::Put { name: Record::name(&self.id), value: inner.record.encode() };
        match event {
            Some(kind) => self.services.events.emit(kind, Self::describe(inner), vec![put]),
            None => drop(self.services.journal.append(&[put])),
        }
        crate::hooks::reach("record_put");
    }

    pub(super) fn updated(&self, inner: &mut Inner, why: crate::events::Why) {
        self.announce(inner, Kind::Updated(why));
    }
}
