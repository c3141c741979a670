//! From a decision to a running program.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use outlive_holder::log::{Cause, Stream};
use outlive_holder::wire::Over;

use super::launch::Plan;
use super::lifecycle::Process;
use super::state::{Command, Decision, Phase, decide};
use crate::holder_link::{Life, SpawnFailure, Started};
use crate::log::Log;
use crate::{Error, Result, lock};

/// stdout and stderr.
const SINK_STREAMS: u64 = 2;

impl Process {
    /// Starts it (again). Runs to its end even if the caller goes away.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        self.begin_start(Command::Start)?;
        self.carry_out_start().await
    }

    /// As [`start`](Self::start) for somebody who waits for its end. If that comes soon, here it is with all that was printed;
    /// there is then no log.
    pub(crate) async fn start_brief(self: &Arc<Self>) -> Result<Option<Over>> {
        self.begin_start(Command::Start)?;
        self.spawn_apart(true).await
    }

    pub(super) fn begin_start(&self, command: Command) -> Result<()> {
        let mut inner = lock(&self.inner);
        match decide(&inner.phase, command)? {
            Decision::Spawn => {}
            _ => return Err(Error::conflict("already_running", "process is already running")),
        }
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        if inner.record.is_counted() {
            self.services.table.processes.take(self.services.process_config().max_concurrent_processes)?;
        }
        inner.phase = Phase::Starting;
        inner.is_held = true;
        inner.record.generation += 1;
        inner.record.stop_wanted = false;
        inner.record.restart_wanted = false;
        inner.restart_due = false;
        inner.start_error = None;
        if inner.record.is_kept() {
            self.save(&inner, None);
        }
        Ok(())
    }

    pub(super) async fn carry_out_start(self: &Arc<Self>) -> Result<()> {
        self.spawn_apart(false).await.map(drop)
    }

    async fn spawn_apart(self: &Arc<Self>, brief: bool) -> Result<Option<Over>> {
        let process = Arc::clone(self);
        // A task of its own: nobody who goes away leaves a process half-started.
        match tokio::spawn(async move { process.spawn(brief).await }).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "a start broke off");
                Err(Error::holder_gone())
            }
        }
    }

    async fn spawn(self: &Arc<Self>, brief: bool) -> Result<Option<Over>> {
        let (record, log_end) = {
            let mut inner = lock(&self.inner);
            let end = inner.log.as_ref().map(|log| log.end()).or(inner.record.log_end).unwrap_or_default();
            inner.record.started_offset = end.offset;
            (inner.record.clone(), end)
        };
        let budget = record.spec.max_log_bytes.unwrap_or(self.services.process_config().max_log_bytes_per_process);
        let plan = Plan {
            id: &record.id,
            key: self.key,
            generation: record.generation,
            spec: &record.spec,
            // What is started from a session's shell must be able to outlive it, and could not leave its cgroup.
            wants_cgroup: record.is_kept() && !record.hidden,
            brief,
            reader_comes: record.reader_comes,
            size: record.size,
            log_budget: budget,
            log_end,
        };
        let outcome = match plan.spawn() {
            Ok(spawn) => self.services.link.spawn(spawn).await.map_err(|failure| match failure {
                SpawnFailure::Failed(failed) => {
                    Error::from_spawn(failed.stage, failed.errno, &record.spec.command, record.spec.cwd.as_deref())
                }
                SpawnFailure::Unavailable(error) => error,
            }),
            Err(error) => Err(error),
        };
        crate::hooks::reach("spawned");
        match outcome {
            Ok(Life::Begun(started)) => {
                self.started(started).inspect_err(|error| {
                    drop(self.services.link.end(self.key, 9, 0, Cause::Killed));
                    self.not_started(error);
                })?;
                self.watch_screen();
                Ok(None)
            }
            Ok(Life::Over(over)) => {
                self.began_and_ended(&over);
                Ok(Some(over))
            }
            Err(error) => {
                self.not_started(&error);
                Err(error)
            }
        }
    }

    /// Makes it the place where these descriptors are recorded, until [`conclude`](Self::conclude).
    pub(crate) async fn start_sink(self: &Arc<Self>, stdout: OwnedFd, stderr: OwnedFd) -> Result<()> {
        self.begin_start(Command::Start)?;
        let budget = lock(&self.inner).record.spec.max_log_bytes;
        let budget = budget.unwrap_or(self.services.process_config().max_log_bytes_per_process);
        let streams = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)];
        let outcome = self.services.link.record(self.key, budget, streams).await;
        let outcome = outcome.map_err(|failure| match failure {
            SpawnFailure::Failed(failed) => Error::from_spawn(failed.stage, failed.errno, "a log", None),
            SpawnFailure::Unavailable(error) => error,
        });
        match outcome {
            Ok(started) => self.started(started),
            Err(error) => {
                self.not_started(&error);
                Err(error)
            }
        }
    }

    /// Whether all descriptors of a sink are recorded, and none of them has ended.
    pub(crate) fn has_all_streams(&self) -> bool {
        self.log().is_ok_and(|log| log.ring().is_some_and(|ring| ring.open_streams() == Some(SINK_STREAMS)))
    }

    /// The end of a sink: everything that was written until now comes before it.
    pub(crate) async fn conclude(self: &Arc<Self>, status: std::result::Result<u8, u8>, cause: Cause) -> Result<()> {
        self.services.link.conclude(self.key, status, cause).await?;
        self.news();
        Ok(())
    }

    pub(super) fn started(self: &Arc<Self>, started: Started) -> Result<()> {
        let mut inner = lock(&self.inner);
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        let mut archived = None;
        if inner.log.as_ref().is_none_or(|log| log.ring().is_none()) {
            let log = Log::open(self.key, started.log, self.services.link.clone());
            archived = inner.log.replace(Arc::new(log.map_err(|_| Error::Exhausted {
                code: "descriptors_exhausted",
                message: "the log of the new process could not be opened".into(),
            })?));
        }
        (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
        self.input.open(started.input);
        let started_at_ms = started.spawned.started_at_ms;
        inner.phase = Phase::Running { pid: started.spawned.pid, started_at_ms };
        let pid_before = inner.record.pid.replace(started.spawned.pid);
        inner.record.started_at_ms = Some(started_at_ms);
        inner.record.exit = None;
        self.updated(&mut inner, crate::events::Why::Started);
        if let (Some(old), Some(new)) = (archived, &inner.log) {
            self.give_up_archived(&old);
            old.continue_in(Arc::clone(new));
        }
        drop(inner);
        self.services.table.note_pid(self, started.spawned.pid, pid_before);
        self.changed.notify_waiters();
        // It may have ended before we heard that it began.
        self.news();
        Ok(())
    }

    fn began_and_ended(&self, over: &Over) {
        let mut inner = lock(&self.inner);
        inner.is_held = false;
        self.exited(&mut inner, over.exit());
        drop(inner);
        self.changed.notify_waiters();
    }

    pub(super) fn not_started(&self, error: &Error) {
        let mut inner = lock(&self.inner);
        inner.start_error = Some(error.clone());
        inner.record.generation -= 1;
        inner.phase = match (inner.record.exit, inner.record.generation) {
            (Some(exit), _) => Phase::Exited(exit.into()),
            _ => Phase::Created,
        };
        if inner.record.is_kept() {
            self.save(&inner, None);
        }
        self.give_back_slot(&inner);
        drop(inner);
        self.changed.notify_waiters();
    }
}
