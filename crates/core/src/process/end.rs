//! The ends of a process: by itself, by a stop, by a kill; its restart and its removal.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};

use super::lifecycle::{Inner, Process};
use super::record::Record;
use super::spec::RestartMode;
use super::state::{Command, Decision, Phase, decide};
use crate::events::Kind;
use crate::holder_link::Ending;
use crate::journal::Change;
use crate::{Error, Result, lock};

const HUP: u8 = 1;
const TERM: u8 = 15;
/// A process that ran this long has recovered: its restart delay begins anew.
const STEADY_MS: u64 = 60_000;
const LONGEST_RESTART_DELAY_MS: u64 = 60_000;

impl Process {
    /// The holder says that something changed, or a reader found the exit in the log before that word came: whoever
    /// tells of an exit calls this first, so that the process is seen as exited from then on. Cheap, never waits.
    pub fn news(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        let Some(log) = inner.log.clone() else { return };
        let exit = match inner.phase {
            Phase::Running { .. } if log.generation() == inner.record.generation => log.exit(),
            _ => None,
        };
        if let Some(exit) = exit {
            self.exited(&mut inner, exit);
        }
        drop(inner);
        // After the phase: whoever is woken by the log finds the process exited too.
        log.woken();
        self.keep_up_if_due();
        if exit.is_some() {
            self.changed.notify_waiters();
            self.maybe_restart();
            self.services.process_ended();
        }
    }

    pub(super) fn exited(&self, inner: &mut Inner, exit: Exit) {
        inner.phase = Phase::Exited(exit);
        inner.record.exit = Some(exit.into());
        self.input.close();
        let ran_ms = exit.at_ms.saturating_sub(inner.record.started_at_ms.unwrap_or(exit.at_ms));
        if ran_ms >= STEADY_MS {
            inner.failures = 0;
        }
        self.give_back_slot(inner);
        if inner.record.ephemeral && inner.record.is_kept() {
            self.save(inner, None);
        }
        self.announce(inner, Kind::Exited);
    }

    pub(super) fn give_back_slot(&self, inner: &Inner) {
        if inner.record.is_counted() {
            self.services.table.processes.give_back();
        }
    }

    /// Starts it again if somebody waits for that, or if its policy says so.
    pub(crate) fn maybe_restart(self: &Arc<Self>) {
        let delay = {
            let mut inner = lock(&self.inner);
            let Phase::Exited(exit) = inner.phase else { return };
            if inner.removed || inner.restart_due {
                return;
            }
            if inner.record.restart_wanted {
                inner.restart_due = true;
                0
            } else {
                let policy = inner.record.spec.restart;
                let wanted = match policy.mode {
                    RestartMode::Never => false,
                    RestartMode::OnFailure => exit.status != Ok(0),
                    RestartMode::Always => true,
                };
                let exhausted = policy.max_restarts > 0 && inner.record.restarts >= policy.max_restarts;
                if !wanted || exhausted || inner.record.stop_wanted {
                    return;
                }
                inner.record.restarts += 1;
                inner.failures += 1;
                inner.restart_due = true;
                let first = if policy.delay_ms == 0 { 1000 } else { policy.delay_ms };
                first
                    .min(LONGEST_RESTART_DELAY_MS)
                    .saturating_mul(1 << (inner.failures - 1).min(16))
                    .min(LONGEST_RESTART_DELAY_MS)
            }
        };
        let process = Arc::clone(self);
        tokio::spawn(async move {
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            } else {
                // What ignored the TERM must not live on beside the next generation.
                let _ = process.services.link.end(process.key, 9, 0, Cause::Stopped).carried_out().await;
            }
            let still_wanted = {
                let mut inner = lock(&process.inner);
                inner.restart_due = false;
                !inner.removed && (!inner.record.stop_wanted || inner.record.restart_wanted)
            };
            if still_wanted && let Err(error) = process.start().await {
                tracing::warn!(id = process.id, %error, "could not be restarted");
                process.give_up_restart(error);
            }
        });
    }

    pub(super) fn give_up_restart(&self, error: Error) {
        let mut inner = lock(&self.inner);
        inner.start_error = Some(error);
        if std::mem::take(&mut inner.record.restart_wanted) && inner.record.is_kept() {
            self.save(&inner, None);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Waits out the moment in which the holder starts it.
    pub(super) async fn settled(&self, command: Command) -> Result<Decision> {
        loop {
            let decision = decide(&lock(&self.inner).phase, command)?;
            if decision != Decision::Wait {
                return Ok(decision);
            }
            self.until(|process| (!matches!(lock(&process.inner).phase, Phase::Starting)).then_some(())).await;
        }
    }

    /// TERM to the tree now, KILL after `grace`; returns at the exit, or after `wait`.
    pub async fn stop(self: &Arc<Self>, grace: Duration, wait: Duration) -> Result<()> {
        self.stop_by(TERM, grace, wait).await
    }

    /// As when the line of a terminal is cut: HUP, which interactive shells heed (they ignore TERM), and KILL after `grace`.
    pub async fn hang_up(self: &Arc<Self>, grace: Duration, wait: Duration) -> Result<()> {
        self.stop_by(HUP, grace, wait).await
    }

    async fn stop_by(self: &Arc<Self>, signal: u8, grace: Duration, wait: Duration) -> Result<()> {
        if self.settled(Command::Stop).await? == Decision::Stop {
            self.want_stop(false);
            let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
            let ending = self.services.link.end(self.key, signal, kill_at, Cause::Stopped);
            crate::hooks::reach("between_term_and_kill");
            self.await_end(ending, wait).await?;
        } else if self.is_over() && self.spec().restart.mode != RestartMode::Never {
            // It may only be waiting for its next start.
            self.want_stop(false);
        }
        Ok(())
    }

    /// KILL to the tree; returns when it is gone, or after `wait`.
    pub async fn kill(self: &Arc<Self>, wait: Duration) -> Result<()> {
        match self.settled(Command::Kill).await? {
            Decision::Kill => {
                self.want_stop(false);
                let ending = self.services.link.end(self.key, 9, 0, Cause::Killed);
                self.await_end(ending, wait).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn await_end(&self, ending: Ending, wait: Duration) -> Result<()> {
        let both = async {
            ending.carried_out().await?;
            self.exited_or_gone().await
        };
        tokio::time::timeout(wait, both).await.unwrap_or(Ok(()))
    }

    /// Waits for the exit, which without a holder nobody would ever hear of.
    async fn exited_or_gone(&self) -> Result<()> {
        tokio::select! {
            _ = self.until_exited() => Ok(()),
            () = self.services.link.until_gone() => Err(Error::holder_gone()),
        }
    }

    pub(super) fn want_stop(&self, restart: bool) {
        let mut inner = lock(&self.inner);
        inner.record.stop_wanted = true;
        inner.record.restart_wanted = restart;
        self.updated(&mut inner, crate::events::Why::StopRequested);
    }

    /// Ends it if it runs, and starts the next generation in place: same id, same log, rising offsets.
    pub async fn restart(self: &Arc<Self>, grace: Duration) -> Result<()> {
        if self.settled(Command::Restart).await? == Decision::EndThenSpawn {
            let generation = lock(&self.inner).record.generation;
            self.want_stop(true);
            let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
            drop(self.services.link.end(self.key, 15, kill_at, Cause::Stopped));
            let settled = self.until(|process| {
                let inner = lock(&process.inner);
                let next_runs = inner.record.generation > generation && !matches!(inner.phase, Phase::Starting);
                (next_runs || inner.removed || !inner.record.restart_wanted && matches!(inner.phase, Phase::Exited(_)))
                    .then_some(())
            });
            tokio::select! {
                () = settled => {}
                () = self.services.link.until_gone() => return Err(Error::holder_gone()),
            }
            let inner = lock(&self.inner);
            if inner.removed {
                return Err(Error::not_found(&self.id));
            }
            match &inner.start_error {
                _ if inner.record.generation > generation => Ok(()),
                Some(error) => Err(error.clone()),
                None => Err(Error::conflict("stopped_meanwhile", "somebody else stopped the process meanwhile")),
            }
        } else {
            self.begin_start(Command::Restart)?;
            self.carry_out_start().await
        }
    }

    pub async fn signal(&self, signal: u8) -> Result<u32> {
        self.settled(Command::Signal).await?;
        self.services.link.signal(self.key, signal).await
    }

    /// Forgets it; a running one is killed first if `force`.
    pub async fn delete(self: &Arc<Self>, force: bool) -> Result<()> {
        loop {
            match self.settled(Command::Delete { force }).await? {
                Decision::KillThenRemove => {
                    self.kill(Duration::from_secs(60)).await?;
                    self.exited_or_gone().await?;
                }
                Decision::Remove if force && self.is_over() => {
                    // Its command has ended, but its children may live. Not waiting for an exit: somebody may be
                    // starting it again this very moment.
                    let _ = self.services.link.end(self.key, 9, 0, Cause::Killed).carried_out().await;
                }
                _ => {}
            }
            if self.remove() {
                return Ok(());
            }
        }
    }

    /// Takes the record away. Its log goes too, once nobody reads it any more. False: somebody has started it.
    pub(crate) fn remove(&self) -> bool {
        let mut inner = lock(&self.inner);
        if matches!(inner.phase, Phase::Running { .. } | Phase::Starting) {
            return false;
        }
        if inner.removed {
            return true;
        }
        let delete = Change::Delete { name: Record::name(&self.id) };
        if inner.record.announced {
            self.services.events.emit(Kind::Deleted, Self::describe(&inner), vec![delete]);
        } else if inner.record.is_kept() {
            self.services.journal.append(&[delete]);
        }
        inner.removed = true;
        if let Some(log) = &inner.log {
            self.give_up_archived(log);
        }
        let is_held = inner.is_held;
        drop(inner);
        if is_held {
            self.services.link.forget(self.key);
        }
        self.services.table.remove(self);
        self.services.collectors.forget(&self.id);
        self.forget_checkpoint();
        self.changed.notify_waiters();
        true
    }
}
