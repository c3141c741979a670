//! How a process ends: exit, stop, kill; and what follows: restart and removal.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};

use super::spec::RestartMode;
use super::state::{Command, Decision, Phase, decide};
use super::{Inner, Process, Record};
use crate::events::{Kind, Subject};
use crate::holder_link::Termination;
use crate::store::journal::Change;
use crate::{Error, Result, signal};

/// A process that ran this long has recovered: its restart delay starts over.
const STABLE_RUN_MS: u64 = 60_000;
const DEFAULT_RESTART_DELAY_MS: u64 = 1_000;
const MAX_RESTART_DELAY_MS: u64 = 60_000;

impl Process {
    /// Moves the process to `Exited` if its log contains the exit. Called when the holder reports a change of the log, and
    /// by every reader before it passes on an exit that it found in the log: no client may learn of an exit while the
    /// process still looks running. Cheap, never waits.
    pub fn sync_exit_from_log(self: &Arc<Self>) {
        if !self.is_running() {
            return;
        }
        let mut inner = self.lock();
        let exit = match (&inner.phase, &inner.log) {
            (Phase::Running { .. }, Some(log)) if log.generation() == inner.record.generation => log.exit(),
            _ => None,
        };
        let Some(exit) = exit else { return };
        self.enter_exited(&mut inner, exit);
        drop(inner);
        self.changed.notify_waiters();
        self.maybe_restart();
        self.services.notify_retention_due();
    }

    pub(super) fn enter_exited(&self, inner: &mut Inner, exit: Exit) {
        inner.phase = Phase::Exited(exit);
        inner.record.exit = Some(exit.into());
        self.input.close();
        let ran_ms = exit.at_ms.saturating_sub(inner.record.started_at_ms.unwrap_or(exit.at_ms));
        if ran_ms >= STABLE_RUN_MS {
            inner.failures = 0;
        }
        self.release_slot(inner);
        if inner.record.ephemeral && inner.record.belongs_in_journal() {
            self.save(inner, None);
        }
        self.announce(inner, Kind::Exited);
        self.drain_history();
    }

    pub(super) fn release_slot(&self, inner: &Inner) {
        if inner.record.is_counted() {
            self.services.table.processes.release();
        }
    }

    /// Restarts an exited process if a `restart` call waits for it or its policy demands it.
    pub(crate) fn maybe_restart(self: &Arc<Self>) {
        let Some(delay) = self.lock().schedule_restart() else { return };
        let process = Arc::clone(self);
        tokio::spawn(async move {
            if delay.is_zero() {
                // Members of the tree that ignored TERM must not run next to the new generation.
                let _ = process.services.link.terminate(process.key, signal::KILL, 0, Cause::Stopped).completed().await;
            } else {
                tokio::time::sleep(delay).await;
            }
            let still_wanted = {
                let mut inner = process.lock();
                inner.restart_due = false;
                !inner.removed && (!inner.record.stop_wanted || inner.record.restart_wanted)
            };
            if still_wanted && let Err(error) = process.start().await {
                tracing::warn!(id = process.id, %error, "cannot restart a process");
                process.abandon_restart(error);
            }
        });
    }

    fn abandon_restart(&self, error: Error) {
        let mut inner = self.lock();
        inner.start_error = Some(error);
        if std::mem::take(&mut inner.record.restart_wanted) && inner.record.belongs_in_journal() {
            self.save(&inner, None);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Decides `command`, waiting while the process is starting.
    pub(super) async fn decide(&self, command: Command) -> Result<Decision> {
        self.check_not_historic()?;
        loop {
            let decision = decide(&self.lock().phase, command)?;
            if decision != Decision::Wait {
                return Ok(decision);
            }
            self.wait_for(|process| (!matches!(process.lock().phase, Phase::Starting)).then_some(())).await;
        }
    }

    /// Sends TERM to the tree now and KILL after `grace`; returns at the exit, or after `wait`.
    pub async fn stop(self: &Arc<Self>, grace: Duration, wait: Duration) -> Result<()> {
        self.stop_with(signal::TERM, grace, wait).await
    }

    /// Like [`stop`](Self::stop) with HUP, as when a terminal is closed: interactive shells ignore TERM.
    pub async fn hang_up(self: &Arc<Self>, grace: Duration, wait: Duration) -> Result<()> {
        self.stop_with(signal::HUP, grace, wait).await
    }

    async fn stop_with(self: &Arc<Self>, signal: u8, grace: Duration, wait: Duration) -> Result<()> {
        if self.decide(Command::Stop).await? == Decision::Stop {
            self.record_stop_request(false);
            let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
            let termination = self.services.link.terminate(self.key, signal, kill_at, Cause::Stopped);
            crate::crash_point::reach("between_term_and_kill");
            self.wait_for_termination(termination, wait).await?;
        } else if self.has_exited() && self.spec().restart.mode != RestartMode::Never {
            // A restart by policy may be pending.
            self.record_stop_request(false);
        }
        Ok(())
    }

    /// Sends KILL to the tree; returns when the killer is done with it and the command has exited, or after `wait`.
    pub async fn kill(self: &Arc<Self>, wait: Duration) -> Result<()> {
        match self.decide(Command::Kill).await? {
            Decision::Kill => {
                self.record_stop_request(false);
                let termination = self.services.link.terminate(self.key, signal::KILL, 0, Cause::Killed);
                self.wait_for_termination(termination, wait).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn wait_for_termination(&self, termination: Termination, wait: Duration) -> Result<()> {
        let ended = async {
            termination.completed().await?;
            self.exited_or_holder_gone().await
        };
        tokio::time::timeout(wait, ended).await.unwrap_or(Ok(()))
    }

    /// Waits for the exit; fails if the holder, which would report it, is gone.
    async fn exited_or_holder_gone(&self) -> Result<()> {
        tokio::select! {
            _ = self.wait_exited() => Ok(()),
            () = self.services.link.wait_gone() => Err(Error::holder_gone()),
        }
    }

    fn record_stop_request(&self, restart: bool) {
        let mut inner = self.lock();
        inner.record.stop_wanted = true;
        inner.record.restart_wanted = restart;
        self.announce_update(&mut inner, crate::events::UpdateReason::StopRequested);
    }

    /// Ends the process if it runs, and starts the next generation in place: same id and log, offsets continue.
    pub async fn restart(self: &Arc<Self>, grace: Duration) -> Result<()> {
        if self.decide(Command::Restart).await? == Decision::EndThenSpawn {
            let generation = self.lock().record.generation;
            self.record_stop_request(true);
            let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
            drop(self.services.link.terminate(self.key, signal::TERM, kill_at, Cause::Stopped));
            let restarted = self.wait_for(|process| {
                let inner = process.lock();
                let next_runs = inner.record.generation > generation && !matches!(inner.phase, Phase::Starting);
                (next_runs || inner.removed || !inner.record.restart_wanted && matches!(inner.phase, Phase::Exited(_)))
                    .then_some(())
            });
            tokio::select! {
                () = restarted => {}
                () = self.services.link.wait_gone() => return Err(Error::holder_gone()),
            }
            let inner = self.lock();
            if inner.removed {
                return Err(Error::not_found(&self.id));
            }
            match &inner.start_error {
                _ if inner.record.generation > generation => Ok(()),
                Some(error) => Err(error.clone()),
                None => {
                    Err(Error::conflict("stopped_meanwhile", "another request stopped the process during the restart"))
                }
            }
        } else {
            self.enter_starting(Command::Restart)?;
            self.spawn_uncancellable(false).await.map(drop)
        }
    }

    pub async fn signal(&self, signal: u8) -> Result<()> {
        self.decide(Command::Signal).await?;
        self.services.link.signal(self.key, signal).await
    }

    /// Removes the process, also from the history; a running one is killed first if `force`, otherwise refused.
    pub async fn delete(self: &Arc<Self>, force: bool) -> Result<()> {
        // Read before the record is gone.
        let is_in_history = self.is_in_history();
        if !self.is_historic() {
            self.end_and_remove(force).await?;
        }
        if is_in_history { self.delete_history().await } else { Ok(()) }
    }

    /// Kills and removes the process, and keeps what the history has of it.
    pub(crate) async fn kill_and_remove(self: &Arc<Self>) -> Result<()> {
        self.end_and_remove(true).await
    }

    async fn end_and_remove(self: &Arc<Self>, force: bool) -> Result<()> {
        loop {
            match self.decide(Command::Delete { force }).await? {
                Decision::KillThenRemove => {
                    self.kill(Duration::from_secs(60)).await?;
                    self.exited_or_holder_gone().await?;
                }
                Decision::Remove if force && self.has_exited() => {
                    // The command has exited, but its children may live. Do not wait for an exit here: a concurrent
                    // request may be starting the process again.
                    let _ = self.services.link.terminate(self.key, signal::KILL, 0, Cause::Killed).completed().await;
                }
                _ => {}
            }
            if self.remove() {
                return Ok(());
            }
        }
    }

    /// Removes the record. The log is freed when its last reader closes it. False: the process was started in the meantime.
    pub(crate) fn remove(&self) -> bool {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Running { .. } | Phase::Starting) {
            return false;
        }
        if inner.removed {
            return true;
        }
        let delete = Change::Delete { name: Record::name(&self.id) };
        if inner.record.announced {
            let info = Self::describe(&inner);
            self.services.events.emit(Kind::Deleted, Subject::Process(&info), vec![delete]);
        } else if inner.record.belongs_in_journal() {
            self.services.journal.append(&[delete]);
        }
        inner.removed = true;
        if let Some(log) = &inner.log {
            self.release_archived_log(log);
        }
        let is_held = inner.is_held;
        drop(inner);
        if is_held {
            self.services.link.forget(self.key);
        }
        self.services.table.remove(self);
        self.services.collectors.forget(&self.id);
        self.delete_checkpoint();
        self.finish_history();
        self.changed.notify_waiters();
        true
    }
}

impl Inner {
    /// Whether the policy demands a restart after this exit.
    pub(super) fn is_restart_demanded(&self, exit: Exit) -> bool {
        let policy = self.record.spec.restart;
        let is_demanded = match policy.mode {
            RestartMode::Never => false,
            RestartMode::OnFailure => exit.status != Ok(0),
            RestartMode::Always => true,
        };
        let is_exhausted = policy.max_restarts > 0 && self.record.restarts >= policy.max_restarts;
        is_demanded && !is_exhausted && !self.record.stop_wanted
    }

    /// Marks a restart as due if one is requested or the policy demands it, and returns the delay before it: zero for a
    /// requested restart, otherwise doubling with every failure.
    fn schedule_restart(&mut self) -> Option<Duration> {
        let Phase::Exited(exit) = self.phase else { return None };
        if self.removed || self.restart_due {
            return None;
        }
        if self.record.restart_wanted {
            self.restart_due = true;
            return Some(Duration::ZERO);
        }
        if !self.is_restart_demanded(exit) {
            return None;
        }
        let policy = self.record.spec.restart;
        self.record.restarts += 1;
        self.failures += 1;
        self.restart_due = true;
        let first_ms = if policy.delay_ms == 0 { DEFAULT_RESTART_DELAY_MS } else { policy.delay_ms };
        let factor = 1 << (self.failures - 1).min(16);
        Some(Duration::from_millis(first_ms.min(MAX_RESTART_DELAY_MS).saturating_mul(factor).min(MAX_RESTART_DELAY_MS)))
    }
}
