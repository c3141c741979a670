//! Saving sessions and execs as records (`store/session_records`), and restoring them in the next server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::directory::{self, PrivateDirectory};
use super::exec::{Exec, ExecRecord};
use super::session::{Inner, Session, SessionRecord};
use super::start_process::{START_DIRECTORY_PREFIX, START_FILES_TTL};
use super::task;
use super::types::SessionInfo;
use crate::events::{Kind, PendingEvent, Subject, UpdateReason};
use crate::services::Services;
use crate::{Result, lock};

impl Session {
    pub(super) fn save(&self) -> Result<()> {
        self.save_with_event(&lock(&self.inner), None)
    }

    /// Saves the record and emits an event as one change. Fails for a deleted session: it must not overwrite the record
    /// of a new session with the same id.
    pub(super) fn save_with_event(&self, inner: &Inner, event: Option<Kind>) -> Result<()> {
        if inner.destroyed {
            return Err(self.destroyed_error());
        }
        self.store_in_history(inner);
        let record = serde_json::to_vec(&inner.record).unwrap_or_default();
        let info = self.describe(inner);
        let event = event.map(|kind| self.pending_event(kind, &info, None));
        self.services.values.put_session(&self.id, record, event)
    }

    pub(super) fn save_exec(&self, exec: &Exec) -> Result<()> {
        let record = serde_json::to_vec(&lock(&exec.inner).record).unwrap_or_default();
        self.services.values.put_exec(&self.id, &exec.id, record, None)
    }

    /// Saves an exec and emits `session.updated` as one change. No event is about a session that is being created or
    /// deleted, or about an internal exec.
    pub(super) fn save_exec_with_event(&self, inner: &Inner, exec: &Exec, reason: UpdateReason) -> Result<()> {
        if !inner.destroyed {
            exec.store_in_history(&self.services, inner.shell.id());
        }
        if inner.destroyed || !inner.record.is_created() || lock(&exec.inner).record.internal {
            return self.save_exec(exec);
        }
        let record = serde_json::to_vec(&lock(&exec.inner).record).unwrap_or_default();
        let info = self.describe(inner);
        let event = self.pending_event(Kind::Updated(reason), &info, Some(&exec.id));
        self.services.values.put_exec(&self.id, &exec.id, record, Some(event))
    }

    /// Deletes the session's record, and emits `session.deleted` unless the session was never completely created.
    pub(super) fn delete_record(&self) {
        let inner = lock(&self.inner);
        let info = self.describe(&inner);
        let event = inner.record.is_created().then(|| self.pending_event(Kind::Deleted, &info, None));
        self.services.values.delete_session(&self.id, event);
    }

    fn pending_event<'a>(&'a self, kind: Kind, info: &'a SessionInfo, exec_id: Option<&'a str>) -> PendingEvent<'a> {
        PendingEvent { events: &self.services.events, kind, subject: Subject::Session { info, exec_id } }
    }

    /// Forgets the oldest finished execs until at most `max_execs_per_session` are left.
    pub(super) fn evict_old_execs(&self) {
        let max_execs = self.services.config().max_execs_per_session as usize;
        let old: Vec<Arc<Exec>> = {
            let mut inner = lock(&self.inner);
            let surplus = inner.execs.len().saturating_sub(max_execs);
            // Background children of a finished exec still write to its sink, and would be killed without it.
            let is_evictable = |exec: &&Arc<Exec>| exec.is_finished() && !exec.has_writers();
            let old: Vec<_> = inner.execs.values().filter(is_evictable).take(surplus).cloned().collect();
            for exec in &old {
                inner.execs.remove(&exec.id);
            }
            old
        };
        for exec in old {
            self.remove_exec(&exec);
        }
    }
}

/// Restores every session that an earlier server left, and resumes its task.
pub(super) fn restore_all(services: &Arc<Services>) {
    let boot_id = services.link.welcome().boot_id;
    let mut restored = Vec::new();
    for (id, record) in services.values.session_records() {
        match record.and_then(|record| restore(services, boot_id, record)) {
            Some(session) => {
                services.sessions.insert(&session);
                restored.push(session);
            }
            None => forget_unfinished(services, boot_id, &id),
        }
    }
    for session in restored {
        for exec in session.execs() {
            session.enforce_queue_timeout(&exec);
        }
        task::spawn_resumed(session);
    }
    tokio::spawn(remove_leftover_start_directories(boot_id));
}

/// Removes the start directories of the previous server; those of this server are removed by their own starts.
async fn remove_leftover_start_directories(boot_id: u64) {
    let list = move || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(directory::root_path(boot_id)).into_iter().flatten().flatten();
        let is_start_directory = |entry: &std::fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(START_DIRECTORY_PREFIX))
        };
        entries.filter(is_start_directory).map(|entry| entry.path()).collect()
    };
    let leftover = tokio::task::spawn_blocking(list).await.unwrap_or_default();
    if leftover.is_empty() {
        return;
    }
    // A shell that has just been started may still have to read its files.
    tokio::time::sleep(START_FILES_TTL).await;
    let remove = move || leftover.iter().for_each(|path| drop(std::fs::remove_dir_all(path)));
    let _ = tokio::task::spawn_blocking(remove).await;
}

/// `None`: the session was never completely created, so no client knows its id.
fn restore(services: &Arc<Services>, boot_id: u64, record: SessionRecord) -> Option<Arc<Session>> {
    let shell = services.table.find(&record.shell).ok()?;
    if !record.is_created() {
        let shell = Arc::clone(&shell);
        tokio::spawn(async move { shell.delete(true).await });
        return None;
    }
    let mut execs = BTreeMap::new();
    let (mut queue, mut running, mut newest) = (Vec::new(), None, 0);
    for (id, exec_record) in services.values.exec_records::<ExecRecord>(&record.id) {
        let Some(exec_record) = exec_record else { continue };
        let exec = Exec::new(&record.id, exec_record);
        {
            let mut inner = lock(&exec.inner);
            let sink = inner.record.running.as_ref().and_then(|running| services.table.find(&running.sink).ok());
            inner.sink = sink;
            match (&inner.record.end, &inner.record.running) {
                (None, Some(_)) => running = Some(Arc::clone(&exec)),
                (None, None) => queue.push((inner.record.number, Arc::clone(&exec))),
                (Some(_), _) => {}
            }
            newest = newest.max(inner.record.number);
        }
        execs.insert(id, exec);
    }
    queue.sort_by_key(|(number, _)| *number);
    let queue: VecDeque<_> = queue.into_iter().map(|(_, exec)| exec).collect();
    Some(Arc::new(Session {
        id: record.id.clone(),
        services: Arc::clone(services),
        directory: PrivateDirectory::new(boot_id, &record.id, record.owner),
        inner: Mutex::new(Inner { record, shell, execs, queue, running, destroyed: false }),
        next_exec_number: AtomicU64::new(newest + 1),
        changed: Notify::new(),
    }))
}

fn forget_unfinished(services: &Arc<Services>, boot_id: u64, id: &str) {
    // Not on another thread, although the disk may be slow: a new session could get the same id in the meantime.
    PrivateDirectory::new(boot_id, id, None).remove();
    services.values.delete_session(id, None);
    services.values.delete_execs(id);
}
