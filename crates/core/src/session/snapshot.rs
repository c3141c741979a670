//! A managed process that begins with a copy of a session's state. Nothing flows back.
//!
//! The shell writes its state into a file, as a command of its own in the queue, and the process is a fresh shell that
//! reads it: so it is a process like any other from its first instruction on, with a tree of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::folder::{Folder, quoted};
use super::script;
use super::session::Session;
use super::shell::Shell;
use super::spec::ExecSpec;
use crate::core::{Core, Create, request_hash};
use crate::process::{Process, Spec};
use crate::{Error, Result, id, lock};

/// A process to be started from a session. `spec.command` is a line for the session's shell.
#[derive(Clone, Debug, Default)]
pub struct StartSpec {
    pub spec: Spec,
    /// End it when the session is deleted.
    pub kill_with_session: bool,
    pub idempotency_key: Option<String>,
}

/// The new shell has long read its files by then.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(60);
/// Beside the folders of sessions, whose ids cannot begin like this: a process may begin after its session has ended.
pub(super) const FOLDERS_OF_STARTS: &str = ".start_";
const STATE: &str = "state";
const COMMAND: &str = "command";
const SCRIPT: &str = "script";

/// Of a command, for who looks at the list: an annotation is not the place for a whole script.
const SHOWN_CHARACTERS: usize = 1000;

/// Annotation of a process that ends with its session.
const KILL_WITH_SESSION: &str = "outlive.killWithSession";

impl Core {
    /// Starts a process with the state that the session has when its turn comes; also if whoever asked goes away, because what
    /// has been written for it must be taken away again.
    pub async fn start_in_session(&self, session: &Arc<Session>, start: StartSpec) -> Result<Arc<Process>> {
        let (core, session) = (self.clone(), Arc::clone(session));
        let task = tokio::spawn(async move { core.start_from(&session, start).await });
        task.await.unwrap_or_else(|_| Err(Error::server_replaced()))
    }

    async fn start_from(&self, session: &Arc<Session>, start: StartSpec) -> Result<Arc<Process>> {
        let mut spec = start.spec;
        spec.check()?;
        if spec.command.contains('\0') {
            return Err(Error::invalid("command", "text without NUL", "a NUL"));
        }
        let asked = request_hash(&(&session.id, &spec));
        let folder = Remover(session.folder_of_start());
        let deleted_cwd = session.prepare_start(&folder.0, &spec).await?;
        let script = folder.0.file(SCRIPT, "").to_string_lossy().into_owned();
        let shell = session.shell();
        let of_session = shell.spec();
        let kind = Shell::find(Some(&of_session.command), None)?;
        let annotation = spec.command.chars().take(SHOWN_CHARACTERS).collect();
        spec.annotations.entry("outlive.command".to_owned()).or_insert(annotation);
        if start.kill_with_session {
            spec.annotations.insert(KILL_WITH_SESSION.to_owned(), session.id.clone());
        }
        spec.session_id.get_or_insert_with(|| session.id.clone());
        (spec.command, spec.args, spec.shell) = (of_session.command.clone(), kind.script_arguments(&script), false);
        spec.user = of_session.user.clone();
        spec.cwd = deleted_cwd;
        let idempotency_key = start.idempotency_key;
        let create = Create { spec, start: true, idempotency_key, asked: Some(asked), ..Create::default() };
        let (process, is_new) = self.create(create).await?;
        if is_new {
            let process = Arc::clone(&process);
            tokio::spawn(async move {
                let _ = tokio::time::timeout(READ_WITHIN, process.until_exited()).await;
                drop(folder);
            });
        }
        Ok(process)
    }

    /// The processes that are to end with a session.
    pub async fn delete_session(&self, id: &str) -> Result<()> {
        let session = self.find_session(id)?;
        let bound =
            |process: &Arc<Process>| process.spec().annotations.get(KILL_WITH_SESSION).is_some_and(|of| of == id);
        session.delete().await?;
        // Now: one may have been started meanwhile, and none can be any more.
        for process in self.list(false).into_iter().filter(bound) {
            let _ = process.kill(Duration::from_secs(5)).await;
        }
        Ok(())
    }
}

/// Takes the folder of a start away, however that ends.
struct Remover(Folder);

impl Drop for Remover {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Session {
    fn folder_of_start(&self) -> Folder {
        let owner = lock(&self.inner).record.owner;
        let name = format!("{FOLDERS_OF_STARTS}{:016x}", id::random_u64());
        Folder::of(self.services.link.welcome().boot_id, &name, owner)
    }

    /// Writes what the new shell reads. If the session's folder has been deleted, returns a way into it.
    async fn prepare_start(self: &Arc<Self>, folder: &Folder, spec: &Spec) -> Result<Option<String>> {
        let (of_start, kind) = (folder.clone(), self.kind());
        let (command, env) = (spec.command.clone(), spec.env.clone());
        self.on_disk(move |_| {
            of_start.make()?;
            let (state, own) = (of_start.file(STATE, ""), of_start.file(COMMAND, ""));
            of_start.write(COMMAND, "", &[command.as_bytes(), b"\n"])?;
            of_start.write(SCRIPT, "", &[script::start(kind, &state, &own, &env).as_bytes()])
        })
        .await?;
        self.write_state(&folder.file(STATE, "")).await
    }

    /// Has the shell write its state into a file.
    async fn write_state(self: &Arc<Self>, state: &Path) -> Result<Option<String>> {
        let snapshot = script::snapshot(self.kind()).replace('\n', "\n ");
        let command = format!("{{ {snapshot} }} >|{} 2>/dev/null\n", quoted(state));
        let (exec, _) = self.exec(ExecSpec { command, internal: true, ..ExecSpec::default() }).await?;
        tokio::select! {
            () = exec.finished() => {}
            () = self.services.link.until_gone() => return Err(Error::holder_gone()),
            () = self.services.sessions.closed() => return Err(Error::server_replaced()),
        }
        if let Some(error) = exec.failure() {
            return Err(error);
        }
        let pid = self.shell().pid().filter(|_| exec.info().cwd_deleted);
        // It is ours, not the caller's.
        lock(&self.inner).execs.remove(&exec.id);
        self.forget_exec(&exec);
        Ok(pid.map(|pid| format!("/proc/{pid}/cwd")))
    }
}
