//! The task that owns a session's shell: runs queued execs one at a time and records their ends.
//!
//! An exec is recorded as running before its first step and as ended after the last one, so that the next server can
//! continue if this one dies in between:
//!
//! ```text
//! save "running" ─▶ files, pipes ─▶ sink ─▶ control lines to the shell ─▶ frames ─▶ finish the sink ─▶ save "end"
//! ```
//!
//! A server that takes over a running exec sends a *probe* line. The shell processes its input in order: if the reply
//! comes without a frame of the exec, the exec's lines never arrived and are sent now. So a command never runs twice.

use std::sync::Arc;

use outlive_holder::clock;
use outlive_holder::log::Cause;

use super::exec::{Exec, ExecOutcome, RunningRecord, count_output};
use super::registry::reserve_hidden;
use super::session::Session;
use super::shell::READY_TIMEOUT;
use super::shell_protocol::StatusReader;
use super::shell_protocol::{self, ExecScript, NEW_STATE_FILE, STATE_FILE};
use super::stop_sequence::StopSequence;
use super::types::OnExit;
use crate::events::{Kind, UpdateReason};
use crate::process::{Process, Spec};
use crate::{Error, Result, id, lock};

/// Enough to recognize a command. The record of the exec has all of it.
const MAX_SINK_COMMAND_CHARS: usize = 200;

/// Starts the task of a session that this server has created.
pub(super) fn spawn(session: Arc<Session>) {
    tokio::spawn(run_queue(session));
}

/// Starts the task of a session that another server has left, perhaps in the middle of a command.
pub(super) fn spawn_resumed(session: Arc<Session>) {
    tokio::spawn(async move {
        session.resume().await;
        run_queue(session).await;
    });
}

async fn run_queue(session: Arc<Session>) {
    loop {
        let step = tokio::select! {
            // The exit of a shell is announced before the next exec restarts the shell.
            biased;
            () = session.wait_unannounced_exit() => NextStep::AnnounceExit,
            step = session.wait_for(Session::next_step) => step,
        };
        match step {
            NextStep::Run(exec) => {
                session.run(&exec).await;
                session.evict_old_execs();
            }
            NextStep::AnnounceExit => session.announce_exit(),
            NextStep::Stop => return,
        }
    }
}

enum NextStep {
    Run(Arc<Exec>),
    /// The shell has exited.
    AnnounceExit,
    /// The session was deleted, or another server takes over.
    Stop,
}

impl Session {
    fn next_step(&self) -> Option<NextStep> {
        let mut inner = lock(&self.inner);
        if inner.destroyed || self.services.sessions.is_closed() {
            return Some(NextStep::Stop);
        }
        let exec = inner.queue.pop_front()?;
        inner.running = Some(Arc::clone(&exec));
        Some(NextStep::Run(exec))
    }

    /// Waits for an exit of the shell that was not announced. Only this task announces exits and restarts shells; the
    /// first shell is ready before the task starts.
    async fn wait_unannounced_exit(&self) {
        let (shell, is_announced) = {
            let inner = lock(&self.inner);
            (Arc::clone(&inner.shell), inner.record.exit_announced >= inner.record.generation)
        };
        if is_announced {
            std::future::pending::<()>().await;
        }
        shell.wait_exited().await;
    }

    /// Emits `session.exited`. The next server emits it if this one dies before: the record says which exits were
    /// announced.
    fn announce_exit(&self) {
        let mut inner = lock(&self.inner);
        inner.record.exit_announced = inner.record.generation;
        if let Err(error) = self.save_with_event(&inner, Some(Kind::Exited)) {
            tracing::debug!(%error, session = self.id, "the exit of a shell is not announced");
        }
    }

    async fn run(self: &Arc<Self>, exec: &Arc<Exec>) {
        match self.dispatch(exec).await {
            Ok(()) => self.wait_and_finish(exec).await,
            // The next server continues from the record.
            Err(Error::Unavailable { .. }) => return,
            Err(error) => {
                if let Some(sink) = exec.sink() {
                    let _ = sink.finish_sink(Ok(1), Cause::SelfExit).await;
                }
                self.record_refusal(exec, error.code(), &error.to_string());
            }
        }
        self.clear_running();
    }

    fn clear_running(&self) {
        lock(&self.inner).running = None;
        self.changed.notify_waiters();
    }

    /// Continues what the previous server was doing.
    async fn resume(self: &Arc<Self>) {
        let (exec, is_half_started) = {
            let inner = lock(&self.inner);
            (inner.running.clone(), !inner.record.ready && inner.shell.is_running())
        };
        if is_half_started {
            let _ = self.shell().kill(READY_TIMEOUT).await;
        }
        let Some(exec) = exec else { return };
        if exec.sink().is_none_or(|sink| sink.log().is_err()) {
            // Control lines are sent only after the sink exists, so the shell has not seen the command.
            return self.run(&exec).await;
        }
        let probe = new_nonce();
        let line = shell_protocol::probe(self.shell_kind(), &probe);
        // Fails if the shell is dead; its exit is in its log.
        let _ = self.shell().input(line.as_bytes()).await;
        match self.wait_outcome(&exec, Some(&probe)).await {
            Ok(Some(outcome)) => self.finish(&exec, outcome).await,
            // The lines did not arrive. The previous server died between one pipe and the other: the shell would wait
            // for a reader.
            Ok(None) if !exec.sink().is_some_and(|sink| sink.has_all_streams()) => return self.run(&exec).await,
            // Files, pipes and sink exist, and clients may read the sink already; only the lines are missing.
            Ok(None) => {
                if self.send_control_lines(&exec).await {
                    self.wait_and_finish(&exec).await;
                }
            }
            Err(_) => {}
        }
        self.clear_running();
    }

    /// Makes files, pipes and sink, and sends the control lines to the shell.
    async fn dispatch(self: &Arc<Self>, exec: &Arc<Exec>) -> Result<()> {
        self.ensure_shell().await?;
        let _sending = self.services.sessions.send_gate.read().await;
        if self.services.sessions.is_closed() {
            return Err(Error::server_replaced());
        }
        let shell = self.shell();
        let sink = self.reserve_sink(exec)?;
        let running = self.new_running_record(exec, &shell, &sink)?;
        self.record_running(exec, running, &sink)?;
        crate::crash_point::reach("exec_saved");
        let control_lines = self.prepare_files(exec, &sink).await?;
        exec.changed.notify_waiters();
        crate::crash_point::reach("exec_pipes_recorded");
        // If the shell dies now, its exit becomes the result of the exec.
        let _ = shell.input(control_lines.as_bytes()).await;
        crate::crash_point::reach("exec_sent");
        Ok(())
    }

    fn record_running(&self, exec: &Exec, running: RunningRecord, sink: &Arc<Process>) -> Result<()> {
        let session_inner = lock(&self.inner);
        let is_repeated = {
            let mut inner = lock(&exec.inner);
            inner.sink = Some(Arc::clone(sink));
            inner.record.running.replace(running).is_some()
        };
        // The server that recorded the exec first has announced it.
        if is_repeated {
            return self.save_exec(exec);
        }
        self.save_exec_with_event(&session_inner, exec, UpdateReason::ExecStarted)
    }

    /// Starts the shell if there is none. With `OnExit::Fail` a shell that has exited is an error.
    async fn ensure_shell(self: &Arc<Self>) -> Result<()> {
        let (exit, on_exit, ready) = {
            let inner = lock(&self.inner);
            if inner.destroyed {
                return Err(self.destroyed_error());
            }
            (inner.shell.exit(), inner.record.spec.on_exit, inner.record.ready)
        };
        match (exit, on_exit) {
            (None, _) if ready => Ok(()),
            (Some(exit), OnExit::Fail) => Err(self.exited_error(&exit)),
            _ => self.start_shell().await,
        }
    }

    fn new_running_record(&self, exec: &Exec, shell: &Process, sink: &Process) -> Result<RunningRecord> {
        let timeout = lock(&exec.inner).record.timeout_ms;
        let (log, inner, now) = (shell.log()?, lock(&self.inner), clock::boot_ms());
        Ok(RunningRecord {
            nonce: new_nonce(),
            sink: sink.id().to_owned(),
            status_from: log.head(),
            generation: inner.record.generation,
            started_at_ms: clock::wall_ms(),
            started_at: now,
            last_pid: last_pid(),
            deadline: timeout.map(|ms| now.saturating_add(ms)),
            stop: None,
            previous_status: inner.record.status,
            options: inner.record.options.clone(),
        })
    }

    /// The sink is a hidden process without a program; its log records the exec's output. Its command says in the history
    /// whose output it is.
    fn reserve_sink(&self, exec: &Exec) -> Result<Arc<Process>> {
        let budget = self.services.config().max_log_bytes_per_exec;
        let (command, is_internal) = {
            let record = &lock(&exec.inner).record;
            (record.command.trim().chars().take(MAX_SINK_COMMAND_CHARS).collect(), record.internal)
        };
        let spec = Spec { command, shell: true, max_log_bytes: Some(budget), ..Spec::default() };
        let mut record = self.services.new_record(spec);
        if !is_internal {
            record.session_shell = Some(self.shell().id().to_owned());
        }
        reserve_hidden(&self.services, record)
    }

    /// Makes the files and pipes, has the holder record the pipes, and returns the control lines that use them.
    async fn prepare_files(&self, exec: &Arc<Exec>, sink: &Arc<Process>) -> Result<String> {
        let (record, kind, saves_state) = (lock(&exec.inner).record.clone(), self.shell_kind(), self.saves_state());
        let (control_lines, stdout, stderr) = self
            .with_directory(move |directory| {
                let running = record.running.clone().unwrap_or_default();
                let script = ExecScript::new(kind, directory, &record, &running, saves_state);
                // The line break ends a continued last line, or a here-document without its delimiter.
                let command = [script.command_prefix().as_bytes(), record.command.as_bytes(), b"\n"];
                directory.write_file(&record.id, "", &command)?;
                if script.is_wrapped {
                    let stderr_pipe = directory.file_path(&record.id, ".err");
                    let (pre, post) =
                        shell_protocol::wrapper_files(kind, record.cwd.as_deref(), &record.env, &stderr_pipe);
                    directory.write_file(&record.id, ".pre", &[pre.as_bytes()])?;
                    directory.write_file(&record.id, ".post", &[post.as_bytes()])?;
                }
                let (stdout, stderr) = directory.create_output_pipes(&record.id)?;
                Ok((script.control_lines(), stdout, stderr))
            })
            .await?;
        sink.start_sink(stdout, stderr).await?;
        Ok(control_lines)
    }

    fn saves_state(&self) -> bool {
        lock(&self.inner).record.spec.on_exit == OnExit::Restore
    }

    /// Waits for the end of an exec that was dispatched, and records it.
    async fn wait_and_finish(self: &Arc<Self>, exec: &Arc<Exec>) {
        // Without a holder, or with another server in charge, the outcome is unknown here.
        if let Ok(Some(outcome)) = self.wait_outcome(exec, None).await {
            self.finish(exec, outcome).await;
        }
    }

    /// Waits for the status frames of a running exec or the exit of its shell, and stops it when that is due.
    /// `None`: the reply to `probe` shows that the control lines did not reach the shell.
    async fn wait_outcome(self: &Arc<Self>, exec: &Arc<Exec>, probe: Option<&str>) -> Result<Option<ExecOutcome>> {
        let Some(running) = lock(&exec.inner).record.running.clone() else { return Ok(None) };
        let nonce = running.nonce.as_str();
        let mut status = StatusReader::new(self.shell().log()?, running.status_from);
        let mut sequence = StopSequence::new(&running);
        loop {
            if let Some(idle) = status.idle_frame(nonce) {
                let command_status = status.command_status(nonce);
                return Ok(Some(ExecOutcome::ShellIdle { command_status, idle, stop: sequence.reason }));
            }
            // Not if it is being stopped: the interrupt may have made the shell discard the lines.
            if sequence.reason.is_none() && probe.is_some_and(|probe| status.has_probe_reply(probe)) {
                return Ok(None);
            }
            tokio::select! {
                more = status.read_more() => {
                    if let Err(exit) = more {
                        // Before any client learns of the end: the session must then be `exited`.
                        self.shell().sync_exit_from_log();
                        return Ok(Some(ExecOutcome::ShellExited { exit, stop: sequence.reason }));
                    }
                }
                () = exec.wait_for(|exec| exec.is_cancel_requested().then_some(())), if sequence.reason.is_none() => {
                    sequence.cancel(&running);
                }
                () = sequence.wait_due() => self.run_stop_step(exec, &running, &mut sequence).await?,
                () = self.services.link.wait_gone() => return Err(Error::holder_gone()),
                () = self.services.sessions.wait_closed() => return Err(Error::server_replaced()),
            }
        }
    }

    /// Sends the lines of an exec for which everything else exists. False: the next server sends them.
    async fn send_control_lines(&self, exec: &Exec) -> bool {
        let _sending = self.services.sessions.send_gate.read().await;
        if self.services.sessions.is_closed() {
            return false;
        }
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general over its lifetime")]
        let control_lines = self.with_script(exec, |script| script.control_lines());
        // If the shell is dead, its exit becomes the result of the exec.
        let _ = self.shell().input(control_lines.as_bytes()).await;
        true
    }

    /// Sends only the second line, to a shell that may have discarded it.
    pub(super) async fn resend_second_line(&self, exec: &Exec) {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general over its lifetime")]
        let line = self.with_script(exec, |script| script.second_line());
        let _ = self.shell().input(line.as_bytes()).await;
    }

    fn with_script(&self, exec: &Exec, write: impl FnOnce(&ExecScript<'_>) -> String) -> String {
        let record = lock(&exec.inner).record.clone();
        let running = record.running.clone().unwrap_or_default();
        write(&ExecScript::new(self.shell_kind(), &self.directory, &record, &running, self.saves_state()))
    }

    /// Finishes the sink, updates the session from the outcome, and records the end of the exec.
    async fn finish(self: &Arc<Self>, exec: &Arc<Exec>, outcome: ExecOutcome) {
        let Some(sink) = exec.sink() else { return };
        let mut end = outcome.end_record();
        end.destroyed = lock(&self.inner).destroyed;
        let status = end.signal.map_or(Ok(end.exit_code), Err);
        if sink.finish_sink(status, outcome.cause()).await.is_err() {
            return;
        }
        crate::crash_point::reach("sink_finished");
        if let Ok(log) = sink.log() {
            (end.stdout_bytes, end.stderr_bytes) = count_output(&log);
        }
        let shell_status = outcome.shell_status();
        let is_shell_alive = shell_status.is_some();
        if let Some((status, options)) = shell_status {
            let pid = self.shell().pid();
            let cwd = pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).ok());
            end.cwd_deleted = cwd.is_some_and(|path| path.to_string_lossy().ends_with(" (deleted)"));
            let internal = lock(&exec.inner).record.internal;
            let mut inner = lock(&self.inner);
            if !internal {
                inner.record.status = status;
            }
            inner.record.options = options;
            inner.record.cwd.clone_from(&end.cwd);
        }
        let _ = self.save();
        self.tidy_files(exec, is_shell_alive).await;
        self.record_end(exec, end);
        // Lets the retention archive the sink's log as soon as it has no reader.
        self.services.notify_retention_due();
    }

    /// Removes the files of an exec. A state that the shell has written completely replaces the previous one.
    async fn tidy_files(&self, exec: &Exec, is_state_complete: bool) {
        let id = exec.id.clone();
        let tidied = self.with_directory(move |directory| {
            directory.remove_exec_files(&id);
            match directory.contains(NEW_STATE_FILE) {
                true if is_state_complete => directory.rename_file(NEW_STATE_FILE, STATE_FILE),
                true => directory.remove_file(NEW_STATE_FILE),
                false => Ok(()),
            }
        });
        if let Err(error) = tidied.await {
            tracing::warn!(%error, session = self.id, "cannot remove the files of a command");
        }
    }
}

/// The last pid that the system assigned; 0 if it is unknown.
fn last_pid() -> i32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(super) fn new_nonce() -> String {
    format!("{:016x}{:016x}", id::random_u64(), id::random_u64())
}
