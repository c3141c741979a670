//! A managed process that begins with a copy of a session's state. Nothing flows back.
//!
//! The shell writes its state into a file, as a command of its own in the queue, and the process is a fresh shell that
//! reads it: so it is a process like any other from its first instruction on, with a tree of its own.

use std::sync::Arc;
use std::time::Duration;

use super::folder::quoted;
use super::script;
use super::session::Session;
use super::shell::Shell;
use super::spec::ExecSpec;
use crate::core::{Core, Create};
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

/// The new shell has long opened its files by then.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Annotation of a process that ends with its session.
const KILL_WITH_SESSION: &str = "outlive.killWithSession";

impl Core {
    /// Starts a process with the state that the session has when its turn comes.
    pub async fn start_in_session(&self, session: &Arc<Session>, start: StartSpec) -> Result<Arc<Process>> {
        let mut spec = start.spec;
        spec.check()?;
        if spec.command.contains('\0') {
            return Err(Error::invalid("command", "text without NUL", "a NUL"));
        }
        let name = format!("start_{:016x}", id::random_u64());
        let deleted_cwd = session.write_state(&name).await?;
        let script = session.write_start_script(&name, &spec.command).await?;
        let shell = session.shell();
        let of_session = shell.spec();
        let kind = Shell::find(Some(&of_session.command), None)?;
        let annotation = spec.command.clone();
        spec.annotations.entry("outlive.command".to_owned()).or_insert(annotation);
        if start.kill_with_session {
            spec.annotations.insert(KILL_WITH_SESSION.to_owned(), session.id.clone());
        }
        spec.session_id.get_or_insert_with(|| session.id.clone());
        (spec.command, spec.args, spec.shell) = (of_session.command.clone(), kind.script_arguments(&script), false);
        spec.user = of_session.user.clone();
        spec.cwd = deleted_cwd;
        let create = Create { spec, start: true, idempotency_key: start.idempotency_key, ..Create::default() };
        let created = self.create(create).await;
        let process = created.as_ref().ok().map(|(process, _)| Arc::clone(process));
        let session = Arc::clone(session);
        tokio::spawn(async move {
            if let Some(process) = process {
                let _ = tokio::time::timeout(READ_WITHIN, process.until_exited()).await;
            }
            session.folder.clear_start(&name);
        });
        created.map(|(process, _)| process)
    }

    /// The processes that are to end with a session.
    pub async fn delete_session(&self, id: &str) -> Result<()> {
        let session = self.find_session(id)?;
        let bound =
            |process: &Arc<Process>| process.spec().annotations.get(KILL_WITH_SESSION).is_some_and(|of| of == id);
        let bound: Vec<_> = self.list(false).into_iter().filter(bound).collect();
        session.delete().await?;
        for process in bound {
            let _ = process.kill(Duration::from_secs(5)).await;
        }
        Ok(())
    }
}

impl Session {
    /// Has the shell write its state into a file. If its folder has been deleted, returns a way into it.
    async fn write_state(self: &Arc<Self>, name: &str) -> Result<Option<String>> {
        let path = quoted(&self.folder.file(name, ".state"));
        let command = format!("{{ {} }} >|{path} 2>/dev/null\n", script::snapshot(self.kind()).replace('\n', "\n "));
        let (exec, _) = self.exec(ExecSpec { command, internal: true, ..ExecSpec::default() }).await?;
        exec.finished().await;
        if let Some(error) = exec.failure() {
            return Err(error);
        }
        let pid = self.shell().pid().filter(|_| exec.info().cwd_deleted);
        // It is ours, not the caller's.
        lock(&self.inner).execs.remove(&exec.id);
        self.forget_exec(&exec);
        Ok(pid.map(|pid| format!("/proc/{pid}/cwd")))
    }

    async fn write_start_script(&self, name: &str, command: &str) -> Result<String> {
        let builtin = self.kind().builtin();
        let (state, own) = (self.folder.file(name, ".state"), self.folder.file(name, ".command"));
        let script = self.folder.file(name, ".start");
        let text = format!("{builtin} . {} >/dev/null 2>/dev/null\n{builtin} . {}\n", quoted(&state), quoted(&own));
        let (name, command) = (name.to_owned(), command.to_owned());
        self.on_disk(move |folder| {
            folder.write(&name, ".command", &[command.as_bytes(), b"\n"])?;
            folder.write(&name, ".start", &[text.as_bytes()])
        })
        .await?;
        Ok(script.to_string_lossy().into_owned())
    }
}
