//! Retention of exited processes: how long their records and logs are kept, and where the logs lie.
//!
//! ```text
//! exited ──▶ log in its ring ──more than maxExitedRings──▶ log archived ──more than maxExitedLogBytes──▶ log dropped (410, or read from the history)
//!                                                                └── retainMs, maxExitedProcesses ──▶ record removed
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;

use crate::config::Config;
use crate::log::Log;
use crate::process::{Inner, Phase, Process};
use crate::services::Services;

/// Expiry needs no precision; an exit or a changed limit triggers a pass at once.
const PASS_INTERVAL: Duration = Duration::from_secs(15);
/// A pass goes over all exited processes, so exits within this time share one pass.
const MIN_PASS_INTERVAL: Duration = Duration::from_millis(100);

/// Removes expired and surplus records and archives old logs, oldest first, until the server ends. Releases the memory of
/// processes that are not in use.
pub(crate) async fn run(services: Arc<Services>) {
    loop {
        let _ = tokio::time::timeout(PASS_INTERVAL, services.retention_due.notified()).await;
        let services = Arc::clone(&services);
        // Copying a large log takes long enough to delay other tasks of this thread.
        let _ = tokio::task::spawn_blocking(move || run_pass(&services)).await;
        tokio::time::sleep(MIN_PASS_INTERVAL).await;
    }
}

struct ExitedProcess {
    process: Arc<Process>,
    info: ExitedInfo,
}

/// The part of a process's state that retention decides by; cheaper than a whole `ProcessInfo`.
struct ExitedInfo {
    exited_at_ms: u64,
    retain_ms: Option<u64>,
    ephemeral: bool,
    /// Belongs to a session, which removes it.
    hidden: bool,
    /// Has a record in the journal. Of a run: its result outlives the request that started it.
    is_recorded: bool,
    log_bytes: u64,
    has_log: bool,
    has_ring: bool,
}

impl ExitedInfo {
    fn new(inner: &Inner) -> Option<Self> {
        let Phase::Exited(exit) = inner.phase else { return None };
        if inner.restart_due || inner.record.restart_wanted {
            return None;
        }
        Some(Self {
            exited_at_ms: exit.at_ms,
            retain_ms: inner.record.spec.retain_ms,
            ephemeral: inner.record.ephemeral,
            hidden: inner.record.hidden,
            is_recorded: inner.record.belongs_in_journal(),
            log_bytes: inner.log.as_ref().map_or(0, |log| log.len()),
            has_log: inner.log.is_some(),
            has_ring: inner.log.as_ref().is_some_and(|log| log.ring().is_some()),
        })
    }
}

fn run_pass(services: &Services) {
    if services.link.is_retired() {
        // The next server has taken over, and with it retention.
        return;
    }
    let all = services.table.all();
    for process in &all {
        process.release_idle_model();
    }
    apply_limits(&all, &services.config());
    for process in all {
        process.compact_if_idle();
    }
}

fn apply_limits(all: &[Arc<Process>], config: &Config) {
    let mut exited = remove_expired(all, config);
    exited.sort_by_key(|one| one.info.exited_at_ms);
    let counted = exited.iter().filter(|one| !one.info.hidden).count();
    let mut surplus = counted.saturating_sub(config.max_exited_processes as usize);
    exited.retain(|one| {
        let removed = surplus > 0 && !one.info.hidden && one.process.remove();
        surplus -= usize::from(removed);
        !removed
    });
    exited.retain(|one| one.info.has_log);
    drop_surplus_bytes(&mut exited, config.max_exited_log_bytes);
    // The sink of a session's exec is never restarted, so its ring is of no further use.
    exited.retain(|one| !one.info.hidden || one.info.has_ring && !one.process.archive_log().unwrap_or(false));
    // Runs keep their rings: their records are removed soon.
    exited.retain(|one| one.info.has_ring && !one.info.ephemeral);
    archive_surplus_rings(&mut exited, config.max_exited_rings as usize);
    let mut surplus = exited.len().saturating_sub(config.max_exited_logs as usize);
    for one in exited {
        if surplus == 0 {
            break;
        }
        surplus -= usize::from(one.process.drop_log());
    }
}

/// Removes expired processes; returns the other exited ones.
fn remove_expired(all: &[Arc<Process>], config: &Config) -> Vec<ExitedProcess> {
    let now = clock::wall_ms();
    let mut remaining = Vec::new();
    for process in all {
        let Some(info) = process.exited_info() else { continue };
        let retain_ms = match (info.ephemeral, info.retain_ms) {
            (true, _) if info.is_recorded => config.retain_runs_ms,
            // The request that started the run removes it.
            (true, _) => continue,
            (false, _) if info.hidden => u64::MAX,
            (false, Some(ms)) => ms,
            (false, None) => config.retain_exited_ms,
        };
        if info.exited_at_ms.saturating_add(retain_ms) <= now {
            process.remove();
        } else {
            remaining.push(ExitedProcess { process: Arc::clone(process), info });
        }
    }
    remaining
}

/// Drops logs, oldest first, until the rest has at most `max_bytes`. A log with a reader stays.
fn drop_surplus_bytes(exited: &mut Vec<ExitedProcess>, max_bytes: u64) {
    let mut bytes: u64 = exited.iter().map(|one| one.info.log_bytes).sum();
    exited.retain(|one| {
        let dropped = bytes > max_bytes && one.process.drop_log();
        if dropped {
            bytes -= one.info.log_bytes;
        }
        !dropped
    });
}

/// Archives logs, oldest first, until at most `max_rings` rings are left.
fn archive_surplus_rings(exited: &mut Vec<ExitedProcess>, max_rings: usize) {
    let mut surplus = exited.len().saturating_sub(max_rings);
    exited.retain(|one| {
        if surplus == 0 {
            return true;
        }
        match one.process.archive_log() {
            Ok(archived) => {
                surplus -= usize::from(archived);
                !archived
            }
            Err(error) => {
                tracing::warn!(%error, "cannot archive logs");
                surplus = 0;
                true
            }
        }
    });
}

impl Process {
    /// `None`: the process has not exited, or will be restarted.
    fn exited_info(&self) -> Option<ExitedInfo> {
        self.peek(ExitedInfo::new, |summary| {
            Some(ExitedInfo {
                exited_at_ms: summary.exit.at_ms,
                retain_ms: summary.retain_ms,
                ephemeral: false,
                hidden: summary.hidden,
                is_recorded: true,
                log_bytes: summary.log_bytes.unwrap_or(0),
                has_log: summary.log_bytes.is_some(),
                has_ring: false,
            })
        })
    }

    /// The log of an exited process, if nothing but our own `references` refers to it. Readers get theirs under the
    /// lock of `inner`, so none can appear while the caller holds it.
    fn unreferenced_log(inner: &Inner, references: usize) -> Option<&Arc<Log>> {
        let log = inner.log.as_ref().filter(|log| Arc::strong_count(log) == references)?;
        matches!(inner.phase, Phase::Exited(_)).then_some(log)
    }

    /// Drops the log of an exited process to free its memory. False: the log is in use.
    fn drop_log(&self) -> bool {
        if self.has_unknown_span() {
            // This is a thread that may wait.
            tokio::runtime::Handle::current().block_on(self.recover_span());
        }
        let mut inner = self.lock();
        let Some(log) = Self::unreferenced_log(&inner, 1).cloned() else { return false };
        // A background child still has the output pipe: without a log its next write would kill it by SIGPIPE.
        if log.has_open_writers() {
            return false;
        }
        inner.record.log_end = Some(log.end());
        inner.record.log_dropped = true;
        inner.record.archived = None;
        inner.log = None;
        self.save_log_location(&inner);
        self.release_archived_log(&log);
        self.services.link.forget(self.key);
        true
    }

    /// Moves the log of an exited process from its ring to the archive. False: the log is in use.
    fn archive_log(&self) -> io::Result<bool> {
        let archivable = |inner: &Inner, references: usize| {
            let log = Self::unreferenced_log(inner, references).filter(|_| !inner.removed && !inner.restart_due)?;
            // A background child may still write, and its output belongs into the log.
            (log.ring()?.open_streams() == Some(0)).then(|| Arc::clone(log))
        };
        let Some(log) = archivable(&self.lock(), 1) else { return Ok(false) };
        let (Some(ring), Some(exit)) = (log.ring(), log.exit()) else { return Ok(false) };
        // Without the lock: copying a large log takes a while.
        let archived = self.services.archive.copy(ring, exit)?;
        crate::crash_point::reach("log_copied");
        let location = *archived.location();
        let mut inner = self.lock();
        // Meanwhile the process may have been restarted, or a reader may have appeared.
        let unchanged =
            archivable(&inner, 2).is_some() && (log.generation(), log.head()) == (location.generation, location.head);
        let mut record_location = || {
            inner.record.archived = Some(location);
            self.save_log_location(&inner);
            crate::crash_point::reach("log_archived");
            self.services.link.forget(self.key);
        };
        let moved = unchanged && self.services.archive.run_if_open(&mut record_location).is_some();
        if moved {
            let archived = Log::archived(self.key, archived, self.services.link.clone());
            inner.log = Some(Arc::new(self.with_history(archived)));
        } else {
            self.services.archive.release(&archived);
        }
        Ok(moved)
    }

    /// Frees the log's space in the archive, if that is where it lies.
    pub(crate) fn release_archived_log(&self, log: &Log) {
        if let Some(archived) = log.as_archived() {
            self.services.archive.release(archived);
        }
    }
}
