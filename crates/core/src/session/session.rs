//! One session: its shell, its queue, its commands, and what callers may do with them.
//!
//! ```text
//! starting ─▶ idle ⇄ busy ─▶ exited ──fresh, restore: at the next command──▶ starting (generation + 1)
//!      └────────┴──────┴────────┴── delete ──▶ destroyed
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::Cause;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use utoipa::ToSchema;

use super::exec::{End, Exec, ExecRecord, bytes_of};
use super::folder::Folder;
use super::refusal;
use super::shell::Kind;
use super::spec::{ExecSpec, OnExit, SessionSpec};
use crate::core::request_hash;
use crate::process::Process;
use crate::services::Services;
use crate::{Error, Result, id, lock};

/// Between the HUP and the KILL of a session that is deleted.
const HANGUP_MS: u64 = 300;
/// Text of commands that wait in one session: far more than anybody writes, and little enough for a journal.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// A deleted session is gone by then, whatever its processes do.
const DELETE_WITHIN: Duration = Duration::from_secs(60);

pub struct Session {
    pub(super) id: String,
    pub(super) services: Arc<Services>,
    pub(super) folder: Folder,
    pub(super) inner: Mutex<Inner>,
    /// Of the next command.
    pub(super) numbers: AtomicU64,
    /// Queue, phase or record changed.
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) record: SessionRecord,
    pub(super) shell: Arc<Process>,
    /// Ids sort by birth.
    pub(super) execs: BTreeMap<String, Arc<Exec>>,
    pub(super) queue: VecDeque<Arc<Exec>>,
    pub(super) running: Option<Arc<Exec>>,
    pub(super) destroyed: bool,
}

/// What the next server must know of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) id: String,
    pub(super) spec: SessionSpec,
    pub(super) kind: String,
    /// The id of the shell among the hidden processes.
    pub(super) shell: String,
    pub(super) created_at_ms: u64,
    pub(super) generation: u32,
    /// The shell of this generation has had its prologue.
    pub(super) ready: bool,
    /// `$?` and `$-` after the last command.
    pub(super) status: u8,
    pub(super) options: String,
    pub(super) cwd: Option<String>,
    /// Numbers of the user and group whose folder it is.
    pub(super) owner: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    Starting,
    Idle,
    Busy,
    Exited,
}

/// A session. Keys that do not apply are absent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub id: String,
    pub status: SessionStatus,
    /// `bash`, `dash`, `zsh` or `ash`
    pub shell: String,
    /// Counts the shells under this id.
    pub generation: u32,
    pub on_exit: OnExit,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    /// Of the shell, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// After the last command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    pub queued: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exited_at_ms: Option<u64>,
}

impl Session {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::parse(&lock(&self.inner).record.kind).unwrap_or(Kind::Dash)
    }

    pub(super) fn shell(&self) -> Arc<Process> {
        Arc::clone(&lock(&self.inner).shell)
    }

    pub fn info(&self) -> SessionInfo {
        let inner = lock(&self.inner);
        let (record, exit) = (&inner.record, inner.shell.exit());
        let status = match exit {
            Some(_) => SessionStatus::Exited,
            None if !record.ready => SessionStatus::Starting,
            None if inner.running.is_some() || !inner.queue.is_empty() => SessionStatus::Busy,
            None => SessionStatus::Idle,
        };
        SessionInfo {
            id: self.id.clone(),
            status,
            shell: record.kind.clone(),
            generation: record.generation,
            on_exit: record.spec.on_exit,
            label: record.spec.label.clone(),
            user: record.spec.user.clone(),
            command_timeout_ms: record.spec.command_timeout_ms,
            pid: inner.shell.pid(),
            cwd: record.cwd.clone().filter(|_| exit.is_none()),
            running: inner.running.as_ref().map(|exec| exec.id.clone()),
            queued: inner.queue.len(),
            exit_code: exit.and_then(|exit| exit.status.ok()).map(i32::from),
            signal: exit.and_then(|exit| exit.status.err()).map(|signal| crate::signal::name(i32::from(signal))),
            created_at_ms: record.created_at_ms,
            exited_at_ms: exit.map(|exit| exit.at_ms),
        }
    }

    /// Every command that is known of, oldest first.
    pub fn execs(&self) -> Vec<Arc<Exec>> {
        let all: Vec<_> = lock(&self.inner).execs.values().cloned().collect();
        all.into_iter().filter(|exec| !lock(&exec.inner).record.internal).collect()
    }

    pub fn find_exec(&self, id: &str) -> Result<Arc<Exec>> {
        lock(&self.inner).execs.get(id).cloned().map_or_else(|| refusal::not_found(id), Ok)
    }

    /// Puts a command into the queue. It runs whatever becomes of the caller. False: it was there already, by its key.
    pub async fn exec(self: &Arc<Self>, mut spec: ExecSpec) -> Result<(Arc<Exec>, bool)> {
        spec.check()?;
        let created_at_ms = clock::wall_ms();
        let number = self.numbers.fetch_add(1, Relaxed);
        let id = id::new_id("exec", created_at_ms, number);
        let hash = request_hash(&(&spec.command, &spec.cwd, &spec.env, &spec.stdin));
        let idempotency = spec.idempotency_key.take().map(|key| (key, hash));
        if let Some(known) = idempotency.as_ref().and_then(|wanted| find_key(&lock(&self.inner), wanted)) {
            return known.map(|exec| (exec, false));
        }
        if let Some(stdin) = spec.stdin.take() {
            // On disk before the record: whoever takes over finds it there.
            self.on_disk({
                let id = id.clone();
                move |folder| folder.write(&id, ".in", &[&stdin])
            })
            .await?;
            spec.stdin = Some(Vec::new());
        }
        let record = ExecRecord {
            id: id.clone(),
            number,
            command: spec.command,
            command_cut: false,
            cwd: spec.cwd,
            env: spec.env,
            has_stdin: spec.stdin.is_some(),
            timeout_ms: spec.timeout_ms.or(lock(&self.inner).record.spec.command_timeout_ms),
            queue_until_ms: spec.queue_timeout_ms.map(|ms| clock::boot_ms().saturating_add(ms)),
            source: spec.source,
            idempotency,
            created_at_ms,
            internal: spec.internal,
            running: None,
            end: None,
        };
        let queued = self.enqueue(record);
        if !queued.as_ref().is_ok_and(|(_, is_new)| *is_new) {
            self.clear_files(&id);
        }
        let (exec, is_new) = queued?;
        if is_new {
            self.watch_queue_time(&exec);
        }
        Ok((exec, is_new))
    }

    /// False: one with that key is there already.
    fn enqueue(&self, record: ExecRecord) -> Result<(Arc<Exec>, bool)> {
        let most = self.services.config().max_queued_execs;
        if self.services.link.is_gone() {
            return Err(Error::holder_gone());
        }
        let mut inner = lock(&self.inner);
        if inner.destroyed {
            return Err(refusal::destroyed(&self.id));
        }
        // Asked again under the lock: a retry may have come while this one waited for the disk.
        if let Some(known) = record.idempotency.as_ref().and_then(|wanted| find_key(&inner, wanted)) {
            return known.map(|exec| (exec, false));
        }
        if let Some(exit) = inner.shell.exit().filter(|_| inner.record.spec.on_exit == OnExit::Fail) {
            return Err(refusal::exited(&self.id, &exit));
        }
        if inner.queue.len() as u64 >= most {
            let message = format!("{most} commands wait in this session already; try again later, or in another one");
            return Err(Error::Busy { code: "session_busy", message });
        }
        let bytes: usize = inner.queue.iter().map(|exec| exec.command_bytes).sum();
        if bytes.saturating_add(bytes_of(&record)) > MAX_QUEUED_BYTES {
            let message = format!("the commands that wait in this session have {bytes} bytes already; try again later");
            return Err(Error::Busy { code: "session_busy", message });
        }
        let exec = Exec::new(&self.id, record);
        self.save_exec(&exec)?;
        inner.execs.insert(exec.id.clone(), Arc::clone(&exec));
        inner.queue.push_back(Arc::clone(&exec));
        drop(inner);
        self.changed.notify_waiters();
        Ok((exec, true))
    }

    /// Refuses it when it has waited for longer than it wanted to.
    pub(super) fn watch_queue_time(self: &Arc<Self>, exec: &Arc<Exec>) {
        let Some(until) = lock(&exec.inner).record.queue_until_ms else { return };
        let (session, exec) = (Arc::clone(self), Arc::clone(exec));
        tokio::spawn(async move {
            let left = Duration::from_millis(until.saturating_sub(clock::boot_ms()));
            tokio::select! {
                () = tokio::time::sleep(left) => {
                    session.refuse(&exec, "queue_timeout", "it waited for its turn for longer than queueTimeoutMs");
                }
                _ = exec.started() => {}
            }
        });
    }

    /// Ends a command that has not begun. False: it has.
    pub(super) fn refuse(&self, exec: &Arc<Exec>, code: &str, message: &str) -> bool {
        {
            // The driver takes it out of the queue under the same lock.
            let mut inner = lock(&self.inner);
            let before = inner.queue.len();
            inner.queue.retain(|other| !Arc::ptr_eq(other, exec));
            if inner.queue.len() == before {
                return false;
            }
        }
        self.settle_not_run(exec, code, message);
        true
    }

    /// As [`refuse`](Self::refuse), for one that is in no queue any more.
    pub(super) fn settle_not_run(&self, exec: &Arc<Exec>, code: &str, message: &str) {
        let destroyed = lock(&self.inner).destroyed;
        if !destroyed {
            self.clear_files(&exec.id);
        }
        let refused = Some((code.to_owned(), message.to_owned()));
        self.settle(exec, End { refused, destroyed, cancelled: code == "cancelled", ..End::default() });
        // Behind one long command there may be any number of these.
        self.forget_old_execs();
    }

    /// Writes down how a command ended.
    pub(super) fn settle(&self, exec: &Arc<Exec>, mut end: End) {
        end.at_ms = clock::wall_ms();
        {
            let mut inner = lock(&exec.inner);
            inner.record.end = Some(end);
            Exec::cut_command(&mut inner.record);
        }
        match self.save_exec(exec) {
            // Another server has taken over, and settles it itself.
            Ok(()) | Err(Error::Unavailable { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, exec = exec.id, "the end of a command is not known to the next server");
            }
        }
        exec.changed.notify_waiters();
        self.changed.notify_waiters();
    }

    /// Stops a command: one that waits never runs, one that runs is interrupted.
    pub fn cancel(&self, id: &str) -> Result<Arc<Exec>> {
        let exec = self.find_exec(id)?;
        if self.refuse(&exec, "cancelled", "it was cancelled before its turn") {
            return Ok(exec);
        }
        lock(&exec.inner).cancel_wanted = true;
        exec.changed.notify_waiters();
        Ok(exec)
    }

    /// Ends the shell and everything that it started, except for managed processes, and forgets the session.
    pub async fn delete(self: &Arc<Self>) -> Result<()> {
        let (shell, waiting) = {
            let mut inner = lock(&self.inner);
            if std::mem::replace(&mut inner.destroyed, true) {
                return Err(Error::no_such("session", &self.id));
            }
            (Arc::clone(&inner.shell), std::mem::take(&mut inner.queue))
        };
        for exec in waiting {
            self.settle_not_run(&exec, "session_destroyed", "its session was deleted before its turn");
        }
        self.changed.notify_waiters();
        let ended = self.services.link.end(shell.key(), 1, clock::boot_ms() + HANGUP_MS, Cause::Killed);
        let both = async {
            ended.carried_out().await?;
            if shell.is_running() {
                shell.until_exited().await;
            }
            // Whoever is busy with a command hears of the exit and settles it.
            self.until(|session| lock(&session.inner).running.is_none().then_some(())).await;
            Ok(())
        };
        let outcome = tokio::time::timeout(DELETE_WITHIN, both).await.unwrap_or(Ok(()));
        let deleted = tokio::time::timeout(DELETE_WITHIN, shell.delete(true)).await.unwrap_or(Ok(()));
        self.forget().await;
        outcome.and(deleted)
    }

    /// Takes everything of it away, unless another has its id by now.
    pub(super) async fn forget(&self) {
        if self.is_forgotten() {
            return;
        }
        let execs = std::mem::take(&mut lock(&self.inner).execs);
        for exec in execs.values() {
            self.forget_exec(exec);
        }
        // A lesser user may have filled it with whatever takes long to remove.
        let remove = |folder: &Folder| {
            folder.remove();
            Ok(())
        };
        let _ = self.on_disk(remove).await;
        let _ = self.services.stored.put(&super::keep::session_name(&self.id), None);
        self.services.sessions.remove(&self.id);
        self.changed.notify_waiters();
    }

    pub(super) fn forget_exec(&self, exec: &Exec) {
        if let Some(sink) = exec.sink() {
            sink.remove();
        }
        let _ = self.services.stored.put(&super::keep::exec_name(&self.id, &exec.id), None);
    }

    /// Waits until `look` finds what it wants, looking again after every change.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        crate::changes::until(&self.changed, || look(self)).await
    }

    /// Removes what belongs to a command, when the disk has time for it.
    fn clear_files(&self, exec: &str) {
        let (folder, exec) = (self.folder.clone(), exec.to_owned());
        tokio::task::spawn_blocking(move || folder.clear(&exec));
    }

    /// Does something in the folder, where it may wait for the disk.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.map_err(std::io::Error::other).flatten().map_err(|error| refusal::disk(&error))
    }
}

fn find_key(inner: &Inner, wanted: &(String, u64)) -> Option<Result<Arc<Exec>>> {
    inner.execs.values().find_map(|exec| {
        let exec_inner = lock(&exec.inner);
        let (key, hash) = exec_inner.record.idempotency.as_ref()?;
        (*key == wanted.0).then(|| {
            if *hash == wanted.1 {
                return Ok(Arc::clone(exec));
            }
            let text = "this idempotency key was used for a different request; use a new key";
            Err(Error::conflict("idempotency_key_reused", text))
        })
    })
}
