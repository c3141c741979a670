//! What survives the server: the records of sessions and of their commands, and how they are taken up again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::drive;
use super::exec::{Exec, ExecRecord};
use super::folder::{self, Folder};
use super::session::{Inner, Session, SessionRecord};
use super::snapshot::{FOLDERS_OF_STARTS, READ_WITHIN};
use crate::services::Services;
use crate::{Result, lock};

const SESSIONS: &str = "session/";
const EXECS: &str = "exec/";

pub(super) fn session_name(id: &str) -> String {
    format!("{SESSIONS}{id}")
}

pub(super) fn exec_name(session: &str, exec: &str) -> String {
    format!("{EXECS}{session}/{exec}")
}

impl Session {
    /// One that was deleted must not overwrite the next with its id.
    pub(super) fn save(&self) -> Result<()> {
        let record = {
            let inner = lock(&self.inner);
            if inner.destroyed {
                return Err(super::refusal::destroyed(&self.id));
            }
            serde_json::to_vec(&inner.record).unwrap_or_default()
        };
        self.services.stored.put(&session_name(&self.id), Some(record))
    }

    pub(super) fn save_exec(&self, exec: &Exec) -> Result<()> {
        let record = serde_json::to_vec(&lock(&exec.inner).record).unwrap_or_default();
        self.services.stored.put(&exec_name(&self.id, &exec.id), Some(record))
    }

    /// Only so many commands that are over are remembered.
    pub(super) fn forget_old_execs(&self) {
        let most = self.services.config().max_execs_per_session as usize;
        let old: Vec<Arc<Exec>> = {
            let mut inner = lock(&self.inner);
            let surplus = inner.execs.len().saturating_sub(most);
            // Without its sink, what a command left in the background could not print any more.
            let may_go = |exec: &&Arc<Exec>| exec.is_over() && !exec.is_written_to();
            let old: Vec<_> = inner.execs.values().filter(may_go).take(surplus).cloned().collect();
            for exec in &old {
                inner.execs.remove(&exec.id);
            }
            old
        };
        for exec in old {
            self.forget_exec(&exec);
        }
    }
}

/// Takes up every session that an earlier server left, and goes on with what it was doing.
pub(super) fn take_over(services: &Arc<Services>) {
    let boot_id = services.link.welcome().boot_id;
    let mut known = Vec::new();
    for (id, bytes) in services.stored.all(SESSIONS) {
        let restored = serde_json::from_slice(&bytes).ok().and_then(|record| restore(services, boot_id, record));
        match restored {
            Some(session) => {
                services.sessions.insert(&session);
                known.push(session);
            }
            None => forget_unfinished(services, boot_id, &id),
        }
    }
    for session in known {
        for exec in session.execs() {
            session.watch_queue_time(&exec);
        }
        tokio::spawn(drive::drive(session, drive::Beginning::TakenOver));
    }
    tokio::spawn(remove_folders_of_starts(boot_id));
}

/// Of the server before; what is made from now on has somebody who removes it.
async fn remove_folders_of_starts(boot_id: u64) {
    let list = move || -> Vec<std::path::PathBuf> {
        let found = std::fs::read_dir(folder::root(boot_id)).into_iter().flatten().flatten();
        let is_of_start = |entry: &std::fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDERS_OF_STARTS))
        };
        found.filter(is_of_start).map(|entry| entry.path()).collect()
    };
    let old = tokio::task::spawn_blocking(list).await.unwrap_or_default();
    if old.is_empty() {
        return;
    }
    // A shell may be about to read them.
    tokio::time::sleep(READ_WITHIN).await;
    let remove = move || old.iter().for_each(|path| drop(std::fs::remove_dir_all(path)));
    let _ = tokio::task::spawn_blocking(remove).await;
}

/// `None`: its making was never finished, so nobody has heard of it.
fn restore(services: &Arc<Services>, boot_id: u64, record: SessionRecord) -> Option<Arc<Session>> {
    let shell = services.table.find(&record.shell).ok()?;
    if !record.ready && record.generation <= 1 {
        let shell = Arc::clone(&shell);
        tokio::spawn(async move { shell.delete(true).await });
        return None;
    }
    let mut execs = BTreeMap::new();
    let (mut queue, mut running, mut newest) = (Vec::new(), None, 0);
    for (id, bytes) in services.stored.all(&exec_name(&record.id, "")) {
        let Ok(kept) = serde_json::from_slice::<ExecRecord>(&bytes) else { continue };
        let exec = Exec::new(&record.id, kept);
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
        folder: Folder::of(boot_id, &record.id, record.owner),
        inner: Mutex::new(Inner { record, shell, execs, queue, running, destroyed: false }),
        numbers: AtomicU64::new(newest + 1),
        changed: Notify::new(),
    }))
}

fn forget_unfinished(services: &Arc<Services>, boot_id: u64, id: &str) {
    // At once, although the disk may be slow: later, another session could have the name.
    Folder::of(boot_id, id, None).remove();
    let _ = services.stored.put(&session_name(id), None);
    for (exec, _) in services.stored.all(&exec_name(id, "")) {
        let _ = services.stored.put(&exec_name(id, &exec), None);
    }
}

/// Outlive stops: the folders have served.
pub(super) fn remove_folders(services: &Services) {
    let _ = std::fs::remove_dir_all(folder::root(services.link.welcome().boot_id));
}
