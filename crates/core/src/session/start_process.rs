//! Managed processes that start with a copy of a session's state. They do not change the session.
//!
//! The shell writes its state to a file, as an internal exec in the queue. The process is a new shell that reads this
//! file. So it is an ordinary process from its first instruction, with its own tree.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::directory::PrivateDirectory;
use super::session::Session;
use super::shell::Shell;
use super::shell_protocol::{self, quote_path};
use super::types::ExecSpec;
use crate::core::{Core, NewProcess, request_hash};
use crate::process::{Process, Spec};
use crate::table::Reservation;
use crate::{Error, Result, id, lock};

/// A process to start from a session. `spec.command` is code for the session's shell.
#[derive(Clone, Debug, Default)]
pub struct StartSpec {
    pub spec: Spec,
    /// Kill it when the session is deleted.
    pub kill_with_session: bool,
    pub idempotency_key: Option<String>,
}

/// After this time the new shell has read its files, and they are removed.
pub(super) const START_FILES_TTL: Duration = Duration::from_secs(60);
/// Start directories are beside those of sessions, because a process may start after its session has ended. A session
/// id cannot start like this.
pub(super) const START_DIRECTORY_PREFIX: &str = ".start_";
const STATE_FILE: &str = "state";
const COMMAND_FILE: &str = "command";
const SCRIPT_FILE: &str = "script";

/// Length of the command in the annotation that lists show.
const MAX_ANNOTATION_CHARS: usize = 1000;

/// Annotation of a process that ends with its session; the value is the session id.
pub(super) const KILL_WITH_SESSION: &str = "outlive.killWithSession";

impl Core {
    /// Starts a process with the state that the session has when its turn comes. Continues even if the
    /// caller's future is dropped, because the files must be removed again.
    pub async fn start_in_session(&self, session: &Arc<Session>, start: StartSpec) -> Result<Arc<Process>> {
        let (core, session) = (self.clone(), Arc::clone(session));
        let task = tokio::spawn(async move { core.start_with_state(&session, start).await });
        task.await.unwrap_or_else(|_| Err(Error::server_replaced()))
    }

    async fn start_with_state(&self, session: &Arc<Session>, start: StartSpec) -> Result<Arc<Process>> {
        let mut spec = start.spec;
        spec.check()?;
        if spec.command.contains('\0') {
            return Err(Error::invalid("command", "text without NUL", "a NUL"));
        }
        let request_hash = Some(request_hash(&(&session.id, &spec)));
        let directory = RemoveOnDrop(session.new_start_directory());
        let deleted_cwd = session.prepare_start(&directory.0, &spec).await?;
        let script = directory.0.file_path(SCRIPT_FILE, "").to_string_lossy().into_owned();
        let shell_process = session.shell();
        let shell_spec = shell_process.spec();
        let shell = Shell::find(Some(&shell_spec.command), None)?;
        let annotation = spec.command.chars().take(MAX_ANNOTATION_CHARS).collect();
        spec.annotations.entry("outlive.command".to_owned()).or_insert(annotation);
        if start.kill_with_session {
            spec.annotations.insert(KILL_WITH_SESSION.to_owned(), session.id.clone());
        }
        spec.session_id.get_or_insert_with(|| session.id.clone());
        (spec.command, spec.args, spec.shell) = (shell_spec.command.clone(), shell.script_arguments(&script), false);
        spec.user = shell_spec.user.clone();
        spec.cwd = deleted_cwd;
        let idempotency_key = start.idempotency_key;
        let new = NewProcess { spec, start: true, idempotency_key, request_hash, ..NewProcess::default() };
        let (process, is_new) = match self.create_or_find(new).await? {
            Reservation::New(process) => (process, true),
            Reservation::Existing(process) => (process, false),
        };
        if is_new {
            let process = Arc::clone(&process);
            tokio::spawn(async move {
                let _ = tokio::time::timeout(START_FILES_TTL, process.wait_exited()).await;
                drop(directory);
            });
        }
        Ok(process)
    }
}

struct RemoveOnDrop(PrivateDirectory);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Session {
    fn new_start_directory(&self) -> PrivateDirectory {
        let owner = lock(&self.inner).record.owner;
        let name = format!("{START_DIRECTORY_PREFIX}{:016x}", id::random_u64());
        PrivateDirectory::new(self.services.link.welcome().boot_id, &name, owner)
    }

    /// Writes the files that the new shell reads. If the session's cwd was deleted, returns a path that still leads
    /// to it.
    async fn prepare_start(self: &Arc<Self>, directory: &PrivateDirectory, spec: &Spec) -> Result<Option<String>> {
        let (start_directory, kind) = (directory.clone(), self.shell_kind());
        let (command, env) = (spec.command.clone(), spec.env.clone());
        self.with_directory(move |_| {
            start_directory.create()?;
            let state = start_directory.file_path(STATE_FILE, "");
            let command_path = start_directory.file_path(COMMAND_FILE, "");
            let script = shell_protocol::start_script(kind, &state, &command_path, &env);
            start_directory.write_file(COMMAND_FILE, "", &[command.as_bytes(), b"\n"])?;
            start_directory.write_file(SCRIPT_FILE, "", &[script.as_bytes()])
        })
        .await?;
        self.write_state(&directory.file_path(STATE_FILE, "")).await
    }

    /// Has the shell write its state to a file.
    async fn write_state(self: &Arc<Self>, state: &Path) -> Result<Option<String>> {
        let print_state = shell_protocol::print_state(self.shell_kind()).replace('\n', "\n ");
        let command = format!("{{ {print_state} }} >|{} 2>/dev/null\n", quote_path(state));
        let exec = self.exec(ExecSpec { command, internal: true, ..ExecSpec::default() }).await?;
        tokio::select! {
            () = exec.wait_finished() => {}
            () = self.services.link.wait_gone() => return Err(Error::holder_gone()),
            () = self.services.sessions.wait_closed() => return Err(Error::server_replaced()),
        }
        if let Some(error) = exec.failure() {
            return Err(error);
        }
        let pid = self.shell().pid().filter(|_| exec.info().cwd_deleted);
        // An internal exec is not listed, so its record has no further use.
        lock(&self.inner).execs.remove(&exec.id);
        self.remove_exec(&exec);
        Ok(pid.map(|pid| format!("/proc/{pid}/cwd")))
    }
}
