//! Starting a process: from a spec to the holder's `Spawn` message, and from its reply to a running process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use outlive_holder::clock;
use outlive_holder::log::{Cause, LogReader, Stream};
use outlive_holder::wire::{BriefRunResult, Io, Limit, Spawn};

use super::environment::Environment;
use super::spec::{EnvMode, Limits, Spec, StdinMode};
use super::state::{Command, Decision, Phase, decide};
use super::user::User;
use super::{Process, Record};
use crate::holder_link::{SpawnError, SpawnOutcome, StartedProcess};
use crate::log::{Log, LogEnd};
use crate::{Error, Result, signal};

/// The holder records stdout and stderr into the log of a sink.
const SINK_STREAMS: u64 = 2;

/// Result of a start.
pub(crate) enum StartOutcome {
    Running,
    /// A brief run that has already exited: its exit and output. There is no log.
    Finished(BriefRunResult),
}

impl Process {
    /// Starts the next generation. Completes even if the caller's future is dropped.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        self.enter_starting(Command::Start)?;
        self.spawn_uncancellable(false).await.map(drop)
    }

    /// Like [`start`](Self::start) for a run that may be brief: its caller only waits for the exit. If it exits soon, the
    /// outcome is `Finished`.
    pub(crate) async fn start_brief(self: &Arc<Self>) -> Result<StartOutcome> {
        self.enter_starting(Command::Start)?;
        self.spawn_uncancellable(true).await
    }

    /// Decides whether the process may start, takes a slot and records the new generation.
    pub(super) fn enter_starting(&self, command: Command) -> Result<()> {
        self.check_not_historic()?;
        let mut inner = self.lock();
        match decide(&inner.phase, command)? {
            Decision::Spawn => {}
            _ => return Err(Error::conflict("already_running", "process is already running")),
        }
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        if inner.record.is_counted() {
            let limit = self.services.process_config().max_concurrent_processes;
            if !self.services.table.processes.try_acquire(limit) {
                let message = format!("max concurrent process limit reached ({limit})");
                return Err(Error::conflict("process_limit", message));
            }
        }
        inner.phase = Phase::Starting;
        inner.is_held = true;
        inner.record.generation += 1;
        inner.record.stop_wanted = false;
        inner.record.restart_wanted = false;
        inner.restart_due = false;
        inner.start_error = None;
        if inner.record.belongs_in_journal() {
            self.save(&inner, None);
        }
        Ok(())
    }

    /// Spawns in a task of its own, so that a caller whose future is dropped leaves no half-started process.
    pub(super) async fn spawn_uncancellable(self: &Arc<Self>, brief: bool) -> Result<StartOutcome> {
        let process = Arc::clone(self);
        match tokio::spawn(async move { process.spawn(brief).await }).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "the task that starts a process failed");
                Err(Error::holder_gone())
            }
        }
    }

    async fn spawn(self: &Arc<Self>, brief: bool) -> Result<StartOutcome> {
        let (record, log_end) = {
            let mut inner = self.lock();
            let end = inner.log.as_ref().map(|log| log.end()).or(inner.record.log_end).unwrap_or_default();
            inner.record.started_offset = end.offset;
            (inner.record.clone(), end)
        };
        if record.generation > 1 {
            // It may get a new ring, and its earlier output is then only in the history.
            self.recover_span().await;
        }
        let outcome = match spawn_message(&record, brief, self.log_budget(&record.spec), log_end) {
            Ok(mut message) => {
                message.history_expected = !brief && self.is_history_expected(&record);
                let spec = &record.spec;
                let reply = self.services.link.spawn(message).await;
                reply.map_err(|failure| spawn_error(failure, &spec.command, spec.cwd.as_deref()))
            }
            Err(error) => Err(error),
        };
        crate::crash_point::reach("spawned");
        match outcome {
            Ok(SpawnOutcome::Started(started)) => {
                self.on_spawned(started).inspect_err(|error| {
                    drop(self.services.link.terminate(self.key, signal::KILL, 0, Cause::Killed));
                    self.on_start_failed(error);
                })?;
                self.arm_screen_checkpoint();
                Ok(StartOutcome::Running)
            }
            Ok(SpawnOutcome::BriefRun(result)) => {
                self.on_brief_run_finished(&result);
                Ok(StartOutcome::Finished(result))
            }
            Err(error) => {
                self.on_start_failed(&error);
                Err(error)
            }
        }
    }

    fn log_budget(&self, spec: &Spec) -> u64 {
        spec.max_log_bytes.unwrap_or(self.services.process_config().max_log_bytes_per_process)
    }

    /// Starts this process as a sink: the holder records these descriptors in its log, as it does the pipes of a program, until
    /// [`finish_sink`](Self::finish_sink). No program runs.
    pub(crate) async fn start_sink(self: &Arc<Self>, stdout: OwnedFd, stderr: OwnedFd) -> Result<()> {
        self.enter_starting(Command::Start)?;
        let budget = self.log_budget(&self.lock().record.spec);
        let streams = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)];
        let reply = self.services.link.start_sink(self.key, budget, streams).await;
        match reply.map_err(|failure| spawn_error(failure, "a log", None)) {
            Ok(started) => self.on_spawned(started)?,
            Err(error) => {
                self.on_start_failed(&error);
                return Err(error);
            }
        }
        // The reply is to the second descriptor; the first may have failed. A holder of an older version does not count.
        let open_streams = self.log()?.ring().and_then(LogReader::open_streams);
        if open_streams.is_some_and(|count| count < SINK_STREAMS) {
            let message =
                "cannot capture all output of the command: the holder has no memory or descriptor left".into();
            return Err(Error::Exhausted { code: "spawn_failed", message });
        }
        Ok(())
    }

    /// Whether all descriptors of a sink are being recorded and none has reached its end.
    pub(crate) fn has_all_streams(&self) -> bool {
        self.log().is_ok_and(|log| log.ring().is_some_and(|ring| ring.open_streams() == Some(SINK_STREAMS)))
    }

    /// Ends a sink: the holder reads what its pipes still contain, then writes the exit behind it in the log. Cursors see
    /// that exit as they would for a program.
    pub(crate) async fn finish_sink(self: &Arc<Self>, status: std::result::Result<u8, u8>, cause: Cause) -> Result<()> {
        self.services.link.finish_sink(self.key, status, cause).await?;
        self.sync_exit_from_log();
        Ok(())
    }

    fn on_spawned(self: &Arc<Self>, started: StartedProcess) -> Result<()> {
        let mut inner = self.lock();
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        let mut archived = None;
        if inner.log.as_ref().is_none_or(|log| log.ring().is_none()) {
            let log = Log::open(self.key, started.log, self.services.link.clone()).map_err(|_| Error::Exhausted {
                code: "descriptors_exhausted",
                message: "cannot open the log of the new process".into(),
            })?;
            archived = inner.log.replace(Arc::new(self.with_history(log)));
        }
        (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
        self.input.open(started.input);
        let started_at_ms = started.spawned.started_at_ms;
        inner.phase = Phase::Running { pid: started.spawned.pid, started_at_ms };
        let previous_pid = inner.record.pid.replace(started.spawned.pid);
        inner.record.started_at_ms = Some(started_at_ms);
        inner.record.exit = None;
        self.announce_update(&mut inner, crate::events::UpdateReason::Started);
        self.start_history(&inner);
        if let (Some(old), Some(new)) = (archived, &inner.log) {
            self.release_archived_log(&old);
            old.set_successor(Arc::clone(new));
        }
        drop(inner);
        self.services.table.set_pid(self, started.spawned.pid, previous_pid);
        self.changed.notify_waiters();
        // The process may have exited before the reply arrived.
        self.sync_exit_from_log();
        Ok(())
    }

    fn on_brief_run_finished(&self, result: &BriefRunResult) {
        let mut inner = self.lock();
        inner.is_held = false;
        self.enter_exited(&mut inner, result.exit());
        drop(inner);
        self.changed.notify_waiters();
    }

    fn on_start_failed(&self, error: &Error) {
        let mut inner = self.lock();
        inner.start_error = Some(error.clone());
        inner.record.generation -= 1;
        inner.phase = match (inner.record.exit, inner.record.generation) {
            (Some(exit), _) => Phase::Exited(exit.into()),
            _ => Phase::Created,
        };
        if inner.record.belongs_in_journal() {
            self.save(&inner, None);
        }
        self.release_slot(&inner);
        drop(inner);
        self.changed.notify_waiters();
    }
}

/// Numbers from <sys/resource.h>, the same on every supported architecture.
mod resource {
    pub(super) const CPU: u32 = 0;
    pub(super) const FILE_BYTES: u32 = 1;
    pub(super) const CORE: u32 = 4;
    pub(super) const PROCESSES: u32 = 6;
    pub(super) const OPEN_FILES: u32 = 7;
    pub(super) const ADDRESS_SPACE: u32 = 9;
}

fn spawn_error(error: SpawnError, command: &str, cwd: Option<&str>) -> Error {
    match error {
        SpawnError::Failed(failed) => Error::from_spawn(failed.stage, failed.errno, command, cwd),
        SpawnError::Unavailable(error) => error,
    }
}

/// The holder's `Spawn` message for the next generation of a process. `log_end` is where the log continues if the
/// holder has no ring for it. May read the passwd and group files.
fn spawn_message(record: &Record, brief: bool, log_budget: u64, log_end: LogEnd) -> Result<Spawn> {
    let spec = &record.spec;
    let needs_current_user =
        spec.env_mode == EnvMode::Fresh || spec.cwd.as_ref().is_some_and(|cwd| cwd.starts_with('~'));
    let user = match &spec.user {
        Some(user) => Some(User::find(user)?),
        None if needs_current_user => Some(User::current()?),
        None => None,
    };
    let cwd = spec.cwd.as_deref().unwrap_or_default();
    let cwd = user.as_ref().map_or_else(|| cwd.to_owned(), |user| user.expand(cwd));
    // A `~` in cwd alone does not change the environment.
    let user_variables = user.as_ref().filter(|_| spec.user.is_some() || spec.env_mode == EnvMode::Fresh);
    let environment = Environment::new(spec, &record.id, user_variables);
    let (programs, arguments) = if spec.shell {
        let line = vec![b"sh".to_vec(), b"-c".to_vec(), spec.command.clone().into_bytes()];
        (vec![b"/bin/sh".to_vec()], line)
    } else {
        let arguments = std::iter::once(&spec.command).chain(&spec.args);
        (environment.programs(&spec.command), arguments.map(|text| text.clone().into_bytes()).collect())
    };
    let size = if spec.is_terminal() { record.effective_size() } else { None };
    Ok(Spawn {
        request: 0,
        key: record.key,
        generation: record.generation,
        programs,
        arguments,
        environment: environment.into_block(),
        cwd: cwd.into_bytes(),
        io: Io {
            cols: size.map_or(0, |size| size.cols),
            rows: size.map_or(0, |size| size.rows),
            stdin: spec.stdin_mode == StdinMode::Pipe,
            merged: spec.merge_stderr,
        },
        identity: user.filter(|_| spec.user.is_some()).and_then(User::into_identity),
        limits: rlimits(&spec.limits),
        no_new_privileges: spec.no_new_privileges,
        log_budget,
        time_limit_at: spec.timeout_ms.map_or(0, |ms| clock::boot_ms().saturating_add(ms)),
        log_start_offset: log_end.offset,
        log_start_mark: log_end.mark,
        log_start_input: log_end.input_offset,
        memory_bytes: spec.limits.memory_bytes.unwrap_or(0),
        tree_processes: spec.limits.tree_processes.unwrap_or(0),
        // No cgroup for a session's shell: processes it starts may outlive it, and could not leave its cgroup.
        wants_cgroup: record.belongs_in_journal() && !record.hidden,
        reader_expected: record.reader_expected,
        brief,
        history_expected: false,
        milli_cpus: spec.limits.cpus.map_or(0, |cpus| u64::from(cpus.milli)),
    })
}

fn rlimits(limits: &Limits) -> Vec<Limit> {
    [
        (resource::OPEN_FILES, limits.open_files),
        (resource::CPU, limits.cpu_seconds),
        (resource::ADDRESS_SPACE, limits.address_space_bytes),
        (resource::FILE_BYTES, limits.file_bytes),
        (resource::PROCESSES, limits.processes),
        (resource::CORE, limits.core_bytes),
    ]
    .into_iter()
    .filter_map(|(resource, value)| value.map(|value| Limit { resource, soft: value, hard: value }))
    .collect()
}
