//! What stays of a process that is over: its log in a ring, in the archive, or not at all.

use std::sync::Arc;

use super::lifecycle::{Inner, Process};
use super::state::Phase;
use crate::events::Kind;
use crate::lock;
use crate::log::Log;

/// A process that has ended, as retention sees it.
pub(crate) struct Ended {
    pub(crate) exited_at_ms: u64,
    pub(crate) retain_ms: Option<u64>,
    pub(crate) ephemeral: bool,
    /// Its session removes it.
    pub(crate) hidden: bool,
    /// Written down; of a run: its result is kept for more than the request that began it.
    pub(crate) kept: bool,
    pub(crate) log_bytes: u64,
    pub(crate) has_log: bool,
    pub(crate) has_ring: bool,
}

impl Process {
    /// What retention wants to know, without the cost of a whole description.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let inner = lock(&self.inner);
        let Phase::Exited(exit) = inner.phase else { return None };
        if inner.restart_due || inner.record.restart_wanted {
            return None;
        }
        Some(Ended {
            exited_at_ms: exit.at_ms,
            retain_ms: inner.record.spec.retain_ms,
            ephemeral: inner.record.ephemeral,
            hidden: inner.record.hidden,
            kept: inner.record.is_kept(),
            log_bytes: inner.log.as_ref().map_or(0, |log| log.len()),
            has_log: inner.log.is_some(),
            has_ring: inner.log.as_ref().is_some_and(|log| log.ring().is_some()),
        })
    }

    /// The log, if its process has exited and nobody else has a hand on it: who takes it does so under our lock.
    pub(super) fn idle_log(inner: &Inner, ours: usize) -> Option<&Arc<Log>> {
        let log = inner.log.as_ref().filter(|log| Arc::strong_count(log) == ours)?;
        matches!(inner.phase, Phase::Exited(_)).then_some(log)
    }

    /// Gives up the log of an exited process to make room. False: not now.
    pub(crate) fn drop_log(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some(log) = Self::idle_log(&inner, 1).cloned() else { return false };
        // A background child still writes, and would be killed by its next word.
        if log.is_written_to() {
            return false;
        }
        inner.record.log_end = Some(log.end());
        inner.record.log_dropped = true;
        inner.record.archived = None;
        inner.log = None;
        self.save(&inner, None);
        self.give_up_archived(&log);
        self.services.link.forget(self.key);
        true
    }

    /// Moves the log of an exited process from its ring to the archive. False: not now.
    pub(crate) fn archive_log(&self) -> std::io::Result<bool> {
        let archivable = |inner: &Inner, ours: usize| {
            let log = Self::idle_log(inner, ours).filter(|_| !inner.removed && !inner.restart_due)?;
            // A background child may still write, and what it writes belongs into the log.
            (log.ring()?.open_streams() == Some(0)).then(|| Arc::clone(log))
        };
        let Some(log) = archivable(&lock(&self.inner), 1) else { return Ok(false) };
        let (Some(ring), Some(exit)) = (log.ring(), log.exit()) else { return Ok(false) };
        // Not under our lock: a large log takes a while.
        let archived = self.services.archive.copy(ring, exit)?;
        crate::hooks::reach("log_copied");
        let place = *archived.place();
        let mut inner = lock(&self.inner);
        // Nothing happened meanwhile, and nobody came to read.
        let same = archivable(&inner, 2).is_some() && (log.generation(), log.head()) == (place.generation, place.head);
        let mut put = || {
            inner.record.archived = Some(place);
            self.save(&inner, None);
            crate::hooks::reach("log_archived");
            self.services.link.forget(self.key);
        };
        let moved = same && self.services.archive.while_open(&mut put).is_some();
        if moved {
            inner.log = Some(Arc::new(Log::archived(self.key, archived, self.services.link.clone())));
        } else {
            self.services.archive.give_up(&archived);
        }
        Ok(moved)
    }

    pub(super) fn give_up_archived(&self, log: &Log) {
        if let Some(archived) = log.as_archived() {
            self.services.archive.give_up(archived);
        }
    }

    /// A run that somebody may be told the id of, but nobody holds a key to.
    pub(crate) fn is_unclaimed_run(&self) -> bool {
        let inner = lock(&self.inner);
        inner.record.ephemeral && inner.record.detached && inner.record.idempotency.is_none()
    }

    /// A run that has turned out to be longer becomes an ordinary process.
    pub(crate) fn promote(&self) {
        let mut inner = lock(&self.inner);
        if std::mem::replace(&mut inner.record.ephemeral, false) {
            if matches!(inner.phase, Phase::Running { .. }) {
                self.services.table.processes.take_anyway();
            }
            self.announce(&mut inner, Kind::Created);
            if matches!(inner.phase, Phase::Exited(_)) {
                self.announce(&mut inner, Kind::Exited);
            }
        }
    }
}
