//! The one task of a session: takes commands from the queue, one at a time, sends them to the shell and sees to their end.
//!
//! What must be known if the server dies is written down before it is done:
//!
//! ```text
//! record "running" ─▶ files, pipes ─▶ sink ─▶ lines to the shell ─▶ frames ─▶ sink concluded ─▶ record "end"
//! ```
//!
//! Whoever takes over a running command sends a *probe* line. The shell answers in order: if the answer comes without
//! the command's own frame, its lines never arrived, and it is sent now. So a command runs exactly once.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};

use super::exec::{Exec, Running};
use super::outcome::Outcome;
use super::script::{self, NEW_STATE, SNAPSHOT, STATE, Script};
use super::session::Session;
use super::sessions::hidden;
use super::spec::OnExit;
use super::status::Frames;
use super::{collect, folder, refusal};
use crate::process::{Process, Spec};
use crate::{Error, Result, id, lock};

/// A shell that has not answered its prologue by then is none.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// What the driver finds when it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    Idle,
    TakenOver,
}

/// What there is to do.
enum Next {
    Exec(Arc<Exec>),
    /// And never will be.
    Nothing,
}

pub(super) async fn drive(session: Arc<Session>, beginning: Beginning) {
    if beginning == Beginning::TakenOver {
        session.resume().await;
    }
    while let Next::Exec(exec) = session.until(Session::next).await {
        session.run(&exec).await;
        session.forget_old_execs();
    }
}

impl Session {
    /// The next command, once there is one.
    fn next(&self) -> Option<Next> {
        let mut inner = lock(&self.inner);
        if inner.destroyed || self.services.sessions.is_closed() {
            return Some(Next::Nothing);
        }
        let exec = inner.queue.pop_front()?;
        inner.running = Some(Arc::clone(&exec));
        Some(Next::Exec(exec))
    }

    async fn run(self: &Arc<Self>, exec: &Arc<Exec>) {
        match self.send(exec).await {
            Ok(()) => self.see_to(exec, None).await,
            // The next server finds it as it is.
            Err(Error::Unavailable { .. }) => return,
            Err(error) => {
                if let Some(sink) = exec.sink() {
                    let _ = sink.conclude(Ok(1), Cause::Itself).await;
                }
                self.settle_not_run(exec, error.code(), &error.to_string());
            }
        }
        lock(&self.inner).running = None;
        self.changed.notify_waiters();
    }

    /// Goes on with what the server before was doing.
    async fn resume(self: &Arc<Self>) {
        let (exec, half_started) = {
            let inner = lock(&self.inner);
            (inner.running.clone(), !inner.record.ready && inner.shell.is_running())
        };
        if half_started {
            let _ = self.shell().kill(READY_WITHIN).await;
        }
        let Some(exec) = exec else { return };
        if exec.sink().is_none_or(|sink| sink.log().is_err()) {
            // Lines are sent only after the sink is there.
            return self.run(&exec).await;
        }
        let probe = new_nonce();
        let line = script::probe(self.kind(), &probe);
        // A dead shell cannot be asked; its exit is in its log.
        let _ = self.shell().input(line.as_bytes()).await;
        self.see_to(&exec, Some(&probe)).await;
        lock(&self.inner).running = None;
        self.changed.notify_waiters();
    }

    /// Until the command is over and written down.
    async fn see_to(self: &Arc<Self>, exec: &Arc<Exec>, probe: Option<&str>) {
        match self.await_end(exec, probe).await {
            Ok(Outcome::NeverSent) => {
                // Its files, pipes and sink are there, and somebody may read from the sink already: only the lines are not.
                if !exec.sink().is_some_and(|sink| sink.has_all_streams()) {
                    // The server before died between the one pipe and the other: the shell would wait for a reader.
                    Box::pin(self.run(exec)).await;
                } else if self.send_lines(exec).await {
                    Box::pin(self.see_to(exec, None)).await;
                }
            }
            Ok(outcome) => self.finish(exec, outcome).await,
            // Without a holder, or with another server in charge, there is nothing that could be said about it.
            Err(_) => {}
        }
    }

    async fn send(self: &Arc<Self>, exec: &Arc<Exec>) -> Result<()> {
        self.ensure_shell().await?;
        let _sending = self.services.sessions.sending.read().await;
        if self.services.sessions.is_closed() {
            return Err(Error::server_replaced());
        }
        let shell = self.shell();
        let sink = self.new_sink()?;
        let running = self.plan(exec, &shell, &sink)?;
        {
            let mut inner = lock(&exec.inner);
            inner.record.running = Some(running);
            inner.sink = Some(Arc::clone(&sink));
        }
        self.save_exec(exec)?;
        crate::hooks::reach("exec_recorded");
        let lines = self.open_sink(exec, &sink).await?;
        exec.changed.notify_waiters();
        crate::hooks::reach("exec_recorded_by_holder");
        // A shell that dies at this moment is a result like any other: its exit tells.
        let _ = shell.input(lines.as_bytes()).await;
        crate::hooks::reach("exec_sent");
        Ok(())
    }

    fn plan(&self, exec: &Exec, shell: &Process, sink: &Process) -> Result<Running> {
        let timeout = lock(&exec.inner).record.timeout_ms;
        let (log, inner, now) = (shell.log()?, lock(&self.inner), clock::boot_ms());
        Ok(Running {
            nonce: new_nonce(),
            sink: sink.id().to_owned(),
            status_from: log.head(),
            generation: inner.record.generation,
            started_at_ms: clock::wall_ms(),
            started_at: now,
            last_pid: last_pid(),
            deadline: timeout.map(|ms| now.saturating_add(ms)),
            stop: None,
            carried: inner.record.status,
            options: inner.record.options.clone(),
        })
    }

    fn new_sink(&self) -> Result<Arc<Process>> {
        let budget = self.services.config().max_log_bytes_per_exec;
        let spec = Spec { command: "sink".to_owned(), max_log_bytes: Some(budget), ..Spec::default() };
        hidden(&self.services, self.services.new_record(spec))
    }

    /// Makes the files and pipes, has the pipes recorded, and returns the lines that use them.
    async fn open_sink(&self, exec: &Arc<Exec>, sink: &Arc<Process>) -> Result<String> {
        let (record, kind) = (lock(&exec.inner).record.clone(), self.kind());
        let running = record.running.clone().unwrap_or_default();
        let is_snapshot = lock(&self.inner).record.spec.on_exit == OnExit::Restore;
        let (lines, stdout, stderr) = self
            .on_disk(move |folder| {
                let is_wrapped = record.cwd.is_some() || !record.env.is_empty();
                let script = Script {
                    kind,
                    folder,
                    exec: &record.id,
                    running: &running,
                    has_stdin: record.has_stdin,
                    is_wrapped,
                    is_snapshot,
                };
                // The line break ends a last line that is continued, or a here-document without its end.
                folder.write(&record.id, "", &[script.opening().as_bytes(), record.command.as_bytes(), b"\n"])?;
                if is_wrapped {
                    let complaints = folder.file(&record.id, ".err");
                    let (before, after) = script::wrapping(kind, record.cwd.as_deref(), &record.env, &complaints);
                    folder.write(&record.id, ".pre", &[before.as_bytes()])?;
                    folder.write(&record.id, ".post", &[after.as_bytes()])?;
                }
                let (stdout, stderr) = folder.open_sinks(&record.id)?;
                Ok((script.lines(), stdout, stderr))
            })
            .await?;
        sink.start_sink(stdout, stderr).await?;
        Ok(lines)
    }

    /// The lines of a command for which everything else is there. False: another server sends them.
    async fn send_lines(&self, exec: &Exec) -> bool {
        let _sending = self.services.sessions.sending.read().await;
        if self.services.sessions.is_closed() {
            return false;
        }
        let (lines, _) = self.lines_of(exec);
        // A dead shell is a result like any other.
        let _ = self.shell().input(lines.as_bytes()).await;
        true
    }

    /// The second line alone, for a shell that may have lost it.
    pub(super) fn closing_line(&self, exec: &Exec) -> String {
        self.lines_of(exec).1
    }

    /// Both lines, and the second one alone.
    fn lines_of(&self, exec: &Exec) -> (String, String) {
        let record = lock(&exec.inner).record.clone();
        let is_snapshot = lock(&self.inner).record.spec.on_exit == OnExit::Restore;
        let script = Script {
            kind: self.kind(),
            folder: &self.folder,
            exec: &exec.id,
            running: &record.running.clone().unwrap_or_default(),
            has_stdin: record.has_stdin,
            is_wrapped: record.cwd.is_some() || !record.env.is_empty(),
            is_snapshot,
        };
        (script.lines(), script.second_line())
    }

    async fn ensure_shell(self: &Arc<Self>) -> Result<()> {
        let (exit, on_exit, ready) = {
            let inner = lock(&self.inner);
            if inner.destroyed {
                return Err(refusal::destroyed(&self.id));
            }
            (inner.shell.exit(), inner.record.spec.on_exit, inner.record.ready)
        };
        match (exit, on_exit) {
            (None, _) if ready => Ok(()),
            (Some(exit), OnExit::Fail) => Err(refusal::exited(&self.id, &exit)),
            _ => self.start_shell().await,
        }
    }

    /// Starts the next shell and waits until it is ready.
    pub(super) async fn start_shell(self: &Arc<Self>) -> Result<()> {
        let shell = self.shell();
        {
            let mut inner = lock(&self.inner);
            inner.record.generation += 1;
            (inner.record.ready, inner.record.status) = (false, 0);
            inner.record.options.clear();
        }
        self.save()?;
        shell.start().await.map_err(|error| match error {
            Error::Spawn { code: "command_not_found", message } => Error::Spawn { code: "shell_not_found", message },
            other => other,
        })?;
        if lock(&self.inner).destroyed {
            // Whoever deletes the session may have ended the shell before this one, and waits for the end of this one.
            let _ = shell.kill(READY_WITHIN).await;
            return Err(refusal::destroyed(&self.id));
        }
        let (nonce, log) = (new_nonce(), shell.log()?);
        let mut frames = Frames::from(Arc::clone(&log), log.head());
        let first = self.first().await;
        shell.input(script::prologue(self.kind(), &nonce, &first).as_bytes()).await?;
        let ready = async {
            while !frames.is_ready(&nonce) {
                frames.more().await?;
            }
            Ok::<(), Exit>(())
        };
        let not_ready = |why: String| Error::Spawn {
            code: "shell_not_ready",
            message: format!("the shell did not get ready: {why}; is it one of bash, zsh, dash or busybox?"),
        };
        match tokio::time::timeout(READY_WITHIN, ready).await {
            Ok(Ok(())) => {}
            Ok(Err(exit)) => return Err(not_ready(format!("it ended ({:?})", exit.status))),
            Err(_) => {
                let _ = shell.kill(READY_WITHIN).await;
                return Err(not_ready(format!("it said nothing for {} s", READY_WITHIN.as_secs())));
            }
        }
        lock(&self.inner).record.ready = true;
        self.save()?;
        self.changed.notify_waiters();
        Ok(())
    }

    /// What a new shell does before it is ready.
    async fn first(&self) -> String {
        let (kind, spec) = (self.kind(), lock(&self.inner).record.spec.clone());
        let mut first = String::from(":");
        let inherited = || std::env::var("ENV").ok();
        if let Some(file) = spec.env.get("ENV").cloned().unwrap_or_else(inherited).filter(|_| kind.reads_env_file()) {
            first.extend([format!("; ENV={}; \\export ENV", folder::quote(&file))]);
        }
        let has_state = async || self.on_disk(|folder| Ok(folder.has(STATE))).await.unwrap_or(false);
        if spec.on_exit == OnExit::Restore && has_state().await {
            let state = folder::quoted(&self.folder.file(STATE, ""));
            first.extend([format!("; {} . {state} </dev/null >/dev/null 2>/dev/null 9>&-", kind.builtin())]);
        }
        first
    }

    /// The file by which a restorable session writes its state down.
    pub(super) async fn prepare_snapshots(&self) -> Result<()> {
        if lock(&self.inner).record.spec.on_exit != OnExit::Restore {
            return Ok(());
        }
        let text = script::snapshot(self.kind());
        self.on_disk(move |folder| folder.write(SNAPSHOT, "", &[text.as_bytes()])).await
    }

    /// Closes the books on a command that ran.
    async fn finish(self: &Arc<Self>, exec: &Arc<Exec>, outcome: Outcome) {
        let Some(sink) = exec.sink() else { return };
        let mut end = outcome.end();
        end.destroyed = lock(&self.inner).destroyed;
        let status = end.signal.map_or(Ok(end.exit_code), Err);
        if sink.conclude(status, outcome.cause()).await.is_err() {
            return;
        }
        crate::hooks::reach("exec_concluded");
        if let Ok(log) = sink.log() {
            (end.stdout_bytes, end.stderr_bytes) = collect::count(&log);
        }
        if let Some((status, options)) = outcome.left_behind() {
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
        let id = exec.id.clone();
        // A shell that died may have died while it wrote its state.
        let is_whole = outcome.left_behind().is_some();
        let tidied = self.on_disk(move |folder| {
            folder.clear(&id);
            match folder.has(NEW_STATE) {
                true if is_whole => folder.rename(NEW_STATE, STATE),
                true => folder.remove_file(NEW_STATE),
                false => Ok(()),
            }
        });
        if let Err(error) = tidied.await {
            tracing::warn!(%error, session = self.id, "a command's files are left behind");
        }
        self.settle(exec, end);
        // What it printed goes to the archive as soon as nobody reads it.
        self.services.process_ended();
    }
}

/// The number that the system gave out last; 0 where it does not tell.
fn last_pid() -> i32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(super) fn new_nonce() -> String {
    format!("{:016x}{:016x}", id::random_u64(), id::random_u64())
}
