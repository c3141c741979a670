//! One session: its shell, its queue of commands, and the operations of callers on it.
//!
//! ```text
//! starting ─▶ idle ⇄ busy ─▶ exited ──onExit fresh or restore, at the next command──▶ starting (generation + 1)
//!      └────────┴──────┴────────┴── delete ──▶ destroyed
//! ```
//!
//! The creation (`registry`) starts the first shell and then the session's task (`task`). From then on only the task
//! starts shells and writes to them. The operations here change the queue and wake the task.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_history::RecordKind;
use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::directory::PrivateDirectory;
use super::exec::{EndRecord, Exec, ExecRecord};
use super::shell::ShellKind;
use super::types::{ExecSpec, OnExit, SessionSpec};
use crate::core::request_hash;
use crate::events::UpdateReason;
use crate::process::Process;
use crate::services::Services;
use crate::{Error, Result, id, lock};

/// Time between HUP and KILL when a session is deleted.
const HANGUP_GRACE_MS: u64 = 300;
/// Limit on the requests of all queued commands of a session, since the journal stores them.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// After this time a session is removed even if its processes still live.
const DELETE_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Session {
    pub(super) id: String,
    pub(super) services: Arc<Services>,
    pub(super) directory: PrivateDirectory,
    pub(super) inner: Mutex<Inner>,
    pub(super) next_exec_number: AtomicU64,
    /// Notified when queue, running exec or record have changed.
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) record: SessionRecord,
    pub(super) shell: Arc<Process>,
    /// By id; ids sort by creation time.
    pub(super) execs: BTreeMap<String, Arc<Exec>>,
    pub(super) queue: VecDeque<Arc<Exec>>,
    pub(super) running: Option<Arc<Exec>>,
    pub(super) destroyed: bool,
}

/// State that the next server needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) id: String,
    pub(super) spec: SessionSpec,
    pub(super) kind: String,
    /// Id of the hidden process that is the shell.
    pub(super) shell: String,
    pub(super) created_at_ms: u64,
    pub(super) generation: u32,
    /// The shell of this generation has run its prologue.
    pub(super) ready: bool,
    /// `$?` after the last command.
    pub(super) status: u8,
    /// `$-` after the last command.
    pub(super) options: String,
    pub(super) cwd: Option<String>,
    /// User and group ids that own the directory, if not ours.
    pub(super) owner: Option<(u32, u32)>,
    /// The last generation whose exit was announced by `session.exited`.
    #[serde(default)]
    pub(super) exit_announced: u32,
}

impl SessionRecord {
    /// Whether its first shell has become ready. Before that, no client knows the session.
    pub(super) fn is_created(&self) -> bool {
        self.ready || self.generation > 1
    }
}

impl Session {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn shell_kind(&self) -> ShellKind {
        ShellKind::parse(&lock(&self.inner).record.kind).unwrap_or(ShellKind::Dash)
    }

    pub(crate) fn shell(&self) -> Arc<Process> {
        Arc::clone(&lock(&self.inner).shell)
    }

    /// All recorded commands, oldest first.
    pub fn execs(&self) -> Vec<Arc<Exec>> {
        let all: Vec<_> = lock(&self.inner).execs.values().cloned().collect();
        all.into_iter().filter(|exec| !lock(&exec.inner).record.internal).collect()
    }

    pub fn find_exec(&self, id: &str) -> Result<Arc<Exec>> {
        lock(&self.inner).execs.get(id).cloned().ok_or_else(|| Error::no_such("exec", id))
    }

    /// Queues a command, or finds the exec with the same idempotency key. Once queued, it runs
    /// even if the caller's future is dropped.
    pub async fn exec(self: &Arc<Self>, mut spec: ExecSpec) -> Result<Arc<Exec>> {
        spec.check()?;
        let created_at_ms = clock::wall_ms();
        let number = self.next_exec_number.fetch_add(1, Relaxed);
        let id = id::new_id("exec", created_at_ms, number);
        let hash = request_hash(&(&spec.command, &spec.cwd, &spec.env, &spec.stdin));
        let idempotency = spec.idempotency_key.take().map(|key| (key, hash));
        if let Some(existing) = idempotency.as_ref().and_then(|key| find_by_idempotency_key(&lock(&self.inner), key)) {
            return existing;
        }
        let has_stdin = spec.stdin.is_some();
        if let Some(stdin) = spec.stdin {
            // Written before the record, so that a server that takes over finds it.
            let id = id.clone();
            self.with_directory(move |directory| directory.write_file(&id, ".in", &[&stdin])).await?;
        }
        let record = ExecRecord {
            id: id.clone(),
            number,
            command: spec.command,
            command_truncated: false,
            cwd: spec.cwd,
            env: spec.env,
            has_stdin,
            timeout_ms: spec.timeout_ms.or(lock(&self.inner).record.spec.command_timeout_ms),
            queue_deadline_at: spec.queue_timeout_ms.map(|ms| clock::boot_ms().saturating_add(ms)),
            source: spec.source,
            idempotency,
            created_at_ms,
            internal: spec.internal,
            running: None,
            end: None,
        };
        let queued = self.enqueue(record);
        match &queued {
            Ok(exec) if exec.id == id => self.enforce_queue_timeout(exec),
            // Refused, or an exec with the same idempotency key was found.
            _ => self.remove_exec_files(&id),
        }
        queued
    }

    /// Returns the exec with the same idempotency key if there is one.
    fn enqueue(&self, record: ExecRecord) -> Result<Arc<Exec>> {
        let max_queued = self.services.config().max_queued_execs;
        if self.services.link.is_gone() {
            return Err(Error::holder_gone());
        }
        let mut inner = lock(&self.inner);
        if inner.destroyed {
            return Err(self.destroyed_error());
        }
        // Checked again under the lock: a retry may have arrived while this request waited for the disk.
        if let Some(existing) = record.idempotency.as_ref().and_then(|key| find_by_idempotency_key(&inner, key)) {
            return existing;
        }
        if let Some(exit) = inner.shell.exit().filter(|_| inner.record.spec.on_exit == OnExit::Fail) {
            return Err(self.exited_error(&exit));
        }
        if inner.queue.len() as u64 >= max_queued {
            let message = format!("{max_queued} commands are queued in this session; retry later or use another one");
            return Err(Error::Busy { code: "session_busy", message });
        }
        let bytes: usize = inner.queue.iter().map(|exec| exec.request_bytes).sum();
        if bytes.saturating_add(record.request_bytes()) > MAX_QUEUED_BYTES {
            let message = format!("the queued commands of this session have {bytes} bytes already; retry later");
            return Err(Error::Busy { code: "session_busy", message });
        }
        let exec = Exec::new(&self.id, record);
        let has_to_wait = inner.running.is_some() || !inner.queue.is_empty();
        inner.queue.push_back(Arc::clone(&exec));
        let saved = if has_to_wait {
            self.save_exec_with_event(&inner, &exec, UpdateReason::ExecQueued)
        } else {
            self.save_exec(&exec)
        };
        if let Err(error) = saved {
            inner.queue.pop_back();
            return Err(error);
        }
        inner.execs.insert(exec.id.clone(), Arc::clone(&exec));
        drop(inner);
        self.changed.notify_waiters();
        Ok(exec)
    }

    /// Refuses the command if it is still queued after its queue timeout.
    pub(super) fn enforce_queue_timeout(self: &Arc<Self>, exec: &Arc<Exec>) {
        let Some(until) = lock(&exec.inner).record.queue_deadline_at else { return };
        let (session, exec) = (Arc::clone(self), Arc::clone(exec));
        tokio::spawn(async move {
            let left = Duration::from_millis(until.saturating_sub(clock::boot_ms()));
            tokio::select! {
                () = tokio::time::sleep(left) => {
                    let message = "the command was queued for longer than queueTimeoutMs";
                    session.refuse_queued(&exec, "queue_timeout", message);
                }
                _ = exec.wait_started() => {}
            }
        });
    }

    /// Ends a command that is still queued. False: it is not queued.
    pub(super) fn refuse_queued(&self, exec: &Arc<Exec>, code: &str, message: &str) -> bool {
        {
            // The task removes a command from the queue under the same lock.
            let mut inner = lock(&self.inner);
            let before = inner.queue.len();
            inner.queue.retain(|other| !Arc::ptr_eq(other, exec));
            if inner.queue.len() == before {
                return false;
            }
        }
        self.record_refusal(exec, code, message);
        true
    }

    /// Records that a command, no longer in the queue, never ran.
    pub(super) fn record_refusal(&self, exec: &Arc<Exec>, code: &str, message: &str) {
        let destroyed = lock(&self.inner).destroyed;
        if !destroyed {
            self.remove_exec_files(&exec.id);
        }
        let refused = Some((code.to_owned(), message.to_owned()));
        self.record_end(exec, EndRecord { refused, destroyed, cancelled: code == "cancelled", ..EndRecord::default() });
        // While one long command runs, any number of others may be refused.
        self.evict_old_execs();
    }

    pub(super) fn record_end(&self, exec: &Arc<Exec>, mut end: EndRecord) {
        end.at_ms = clock::wall_ms();
        let saved = {
            let mut inner = lock(&self.inner);
            {
                let mut exec_inner = lock(&exec.inner);
                exec_inner.record.end = Some(end);
                exec_inner.record.shrink();
            }
            // The event shows the session without the exec.
            inner.running.take_if(|running| Arc::ptr_eq(running, exec));
            self.save_exec_with_event(&inner, exec, UpdateReason::ExecFinished)
        };
        match saved {
            // Another server has taken over and records the end itself.
            Ok(()) | Err(Error::Unavailable { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, exec = exec.id, "cannot save the end of a command for the next server");
            }
        }
        exec.changed.notify_waiters();
        self.changed.notify_waiters();
    }

    /// Stops a command: a queued one never runs, a running one is interrupted.
    pub fn cancel(&self, id: &str) -> Result<Arc<Exec>> {
        let exec = self.find_exec(id)?;
        if self.refuse_queued(&exec, "cancelled", "the command was cancelled before it ran") {
            return Ok(exec);
        }
        lock(&exec.inner).cancel_requested = true;
        exec.changed.notify_waiters();
        Ok(exec)
    }

    /// Ends the shell and everything that it started, except managed processes, and removes the session.
    pub(super) async fn delete(self: &Arc<Self>) -> Result<()> {
        let (shell, queued) = {
            let mut inner = lock(&self.inner);
            if std::mem::replace(&mut inner.destroyed, true) {
                return Err(Error::no_such("session", &self.id));
            }
            (Arc::clone(&inner.shell), std::mem::take(&mut inner.queue))
        };
        for exec in queued {
            self.record_refusal(&exec, "session_destroyed", "the session was deleted before the command ran");
        }
        self.changed.notify_waiters();
        let ended = self.services.link.terminate(
            shell.key(),
            crate::signal::HUP,
            clock::boot_ms() + HANGUP_GRACE_MS,
            Cause::Killed,
        );
        let shell_and_task = async {
            ended.completed().await?;
            if shell.is_running() {
                shell.wait_exited().await;
            }
            // The task sees the exit of the shell and records the end of the running command.
            self.wait_for(|session| lock(&session.inner).running.is_none().then_some(())).await;
            Ok(())
        };
        let outcome = tokio::time::timeout(DELETE_TIMEOUT, shell_and_task).await.unwrap_or(Ok(()));
        let deleted = tokio::time::timeout(DELETE_TIMEOUT, shell.delete(true)).await.unwrap_or(Ok(()));
        let sinks: Vec<_> = lock(&self.inner).execs.values().filter_map(|exec| exec.sink()).collect();
        self.remove().await;
        let forgotten = self.delete_history(shell.id(), &sinks).await;
        outcome.and(deleted).and(forgotten)
    }

    /// Deletes what the history has of the session and its commands, and what is about to be written.
    async fn delete_history(&self, shell: &str, sinks: &[Arc<Process>]) -> Result<()> {
        self.services.history.delete_live(RecordKind::Session, shell).await?;
        for sink in sinks {
            sink.delete_history().await?;
        }
        Ok(())
    }

    /// Removes files, records and the registry entry, unless another session has the id by now.
    pub(super) async fn remove(&self) {
        if self.is_removed() {
            return;
        }
        let execs = std::mem::take(&mut lock(&self.inner).execs);
        for exec in execs.values() {
            self.remove_exec(exec);
        }
        // Off the runtime: another user may have filled the directory with whatever takes long to remove.
        let remove = |directory: &PrivateDirectory| {
            directory.remove();
            Ok(())
        };
        let _ = self.with_directory(remove).await;
        self.delete_record();
        self.services.sessions.remove(&self.id);
        self.changed.notify_waiters();
    }

    /// Removes an exec's sink and record.
    pub(super) fn remove_exec(&self, exec: &Exec) {
        if let Some(sink) = exec.sink() {
            sink.remove();
        }
        self.services.values.delete_exec(&self.id, &exec.id);
    }

    /// Calls `check` after every change until it returns a value.
    pub(super) async fn wait_for<T>(&self, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        crate::wait_changed(&self.changed, || check(self)).await
    }

    /// In the background, since it may wait for the disk.
    fn remove_exec_files(&self, exec: &str) {
        let (directory, exec) = (self.directory.clone(), exec.to_owned());
        tokio::task::spawn_blocking(move || directory.remove_exec_files(&exec));
    }

    /// Runs `work` on a thread that may wait for the disk.
    pub(super) async fn with_directory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PrivateDirectory) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let directory = self.directory.clone();
        let done = tokio::task::spawn_blocking(move || work(&directory)).await;
        done.map_err(io::Error::other).flatten().map_err(|error| Error::Exhausted {
            code: "session_folder_failed",
            message: format!("cannot write the session's files: {error}; is there space in the temporary directory?"),
        })
    }

    pub(super) fn destroyed_error(&self) -> Error {
        destroyed_error(&self.id)
    }

    pub(super) fn exited_error(&self, exit: &Exit) -> Error {
        let how = match exit.status {
            Ok(code) => format!("with code {code}"),
            Err(signal) => format!("by {}", crate::signal::name(i32::from(signal))),
        };
        let message = format!(
            "the shell of session {} exited {how}; delete the session and create another, or set onExit",
            self.id
        );
        Error::SessionEnded { code: "session_exited", message }
    }
}

pub(super) fn destroyed_error(id: &str) -> Error {
    Error::SessionEnded { code: "session_destroyed", message: format!("the session {id} was deleted; create another") }
}

/// The exec with this key; an error if its request was different.
fn find_by_idempotency_key(inner: &Inner, (key, hash): &(String, u64)) -> Option<Result<Arc<Exec>>> {
    inner.execs.values().find_map(|exec| {
        let exec_inner = lock(&exec.inner);
        let (other_key, other_hash) = exec_inner.record.idempotency.as_ref()?;
        (other_key == key).then(|| {
            if other_hash == hash {
                return Ok(Arc::clone(exec));
            }
            Err(Error::idempotency_key_reused())
        })
    })
}
