//! The part of `Core` about history.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use outlive_history::store::RecordFilter;
use outlive_history::{Boot, Record, RecordKind, Span, Store};

use super::records;
use super::types::{BootFilter, BootInfo, HistoryExec, HistorySession, HistoryStatus};
use crate::process::Process;
use crate::services::Services;
use crate::{Core, Error, Result};

impl Core {
    pub fn history_status(&self) -> HistoryStatus {
        self.services.history.status()
    }

    /// All boots in the history, oldest first.
    pub async fn boots(&self) -> Result<Vec<BootInfo>> {
        let boots = self.services.history.with_store(Store::boots).await?;
        let current = self.services.history.boot_id();
        let info = |Boot { id, started_at_ms, last_write_at_ms }: Boot| {
            let current = id == current;
            BootInfo { id, started_at_ms, last_write_at_ms, current }
        };
        Ok(boots.into_iter().map(info).collect())
    }

    /// Processes that only the history knows, oldest first. Of the current boot: those that retention has removed.
    pub async fn list_boot(&self, boot: &BootFilter) -> Result<Vec<Arc<Process>>> {
        let boots = self.resolve(boot).await?;
        self.services.history.flush_records().await;
        let read = move |store: &Store| {
            let stored = select(store, RecordKind::Process, boots.as_deref())?.into_iter();
            // The sinks of commands belong to their sessions.
            let stored = stored.filter(|record| record.parent.is_none());
            stored.map(|record| Ok((store.span(&record.id)?, record))).collect::<io::Result<Vec<_>>>()
        };
        let stored = self.services.history.with_store(read).await?;
        let is_known = |id: &str| self.services.table.find(id).is_ok();
        let processes = stored.into_iter().filter(|(_, record)| !is_known(&record.id));
        Ok(processes.filter_map(|(span, record)| Process::from_history(&self.services, &record, &span)).collect())
    }

    /// Finds a process by id, `tag:NAME` or `pid:NUMBER`, or by id in the history.
    pub async fn find_anywhere(&self, name: &str) -> Result<Arc<Process>> {
        let not_found = match self.find(name) {
            Err(error @ Error::NotFound { .. }) => error,
            other => return other,
        };
        if name.contains(':') {
            return Err(not_found);
        }
        self.services.history.flush_records().await;
        let id = name.to_owned();
        let read = move |store: &Store| read_process(store, &id);
        let found = match self.services.history.with_store(read).await {
            Err(Error::Unavailable { code: "history_off", .. }) => return Err(not_found),
            found => found?,
        };
        found.and_then(|(record, span)| Process::from_history(&self.services, &record, &span)).ok_or(not_found)
    }

    /// Stored sessions, oldest first.
    pub async fn history_sessions(&self, boot: &BootFilter) -> Result<Vec<HistorySession>> {
        let boots = self.resolve(boot).await?;
        let read = move |store: &Store| select(store, RecordKind::Session, boots.as_deref());
        let stored = self.services.history.with_store(read).await?;
        Ok(stored.into_iter().filter_map(records::session).collect())
    }

    /// Stored commands of a session, oldest first. `session` is its history id, or the id that clients use: then the
    /// newest session with that id.
    pub async fn history_execs(&self, session: &str) -> Result<Vec<HistoryExec>> {
        let sessions = self.history_sessions(&BootFilter::All).await?;
        let is_named = |found: &&HistorySession| found.history_id == session || found.session_id == session;
        let found = sessions.iter().rev().find(is_named).ok_or_else(|| Error::no_such("session", session))?;
        let parent = Some(found.history_id.clone());
        let filter = RecordFilter { kind: Some(RecordKind::Exec), parent, ..RecordFilter::default() };
        let stored = self.services.history.with_store(move |store| store.records(&filter)).await?;
        Ok(stored.into_iter().filter_map(records::exec).collect())
    }

    /// Deletes a process or session of the history. Nothing of it can be read once this returns. False: there is no such
    /// record. A session is named by its history id.
    pub async fn delete_from_history(&self, id: &str) -> Result<bool> {
        if let Ok(process) = self.find(id) {
            process.delete(false).await?;
            return Ok(true);
        }
        if self.services.sessions.all().iter().any(|session| session.shell().id() == id) {
            let message = "the session is in use; delete it with `outlive session rm`, which deletes its history too";
            return Err(Error::conflict("session_in_use", message));
        }
        let history = &self.services.history;
        Ok(history.delete(RecordKind::Process, id).await? || history.delete(RecordKind::Session, id).await?)
    }

    /// Seals segments, enforces the limits and removes deleted output from the disk now.
    pub async fn collect_garbage(&self) -> Result<()> {
        self.services.history.maintain_now().await
    }

    /// Waits until readers of processes that ran before this server find their stored output. A slow disk must not keep
    /// the server from serving, so the wait is bounded.
    pub async fn wait_history_ready(&self, timeout: Duration) {
        if !self.services.table.all().is_empty() {
            let _ = tokio::time::timeout(timeout, self.services.history.wait_reconciled()).await;
        }
    }

    /// Stores everything and closes the history, because outlive stops.
    pub async fn close_history(&self, timeout: Duration) {
        let started_at = Instant::now();
        // Output that was printed before the store was open is stored when it is.
        self.wait_history_ready(timeout / 2).await;
        for process in self.services.table.all() {
            // The holder's report of an exit may not have been handled yet.
            process.sync_exit_from_log();
        }
        self.services.history.shut_down(timeout.saturating_sub(started_at.elapsed())).await;
    }

    /// Ids of the boots; `None`: all.
    async fn resolve(&self, filter: &BootFilter) -> Result<Option<Vec<String>>> {
        let boots = self.boots().await?;
        let is_wanted = |(index, boot): &(usize, &BootInfo)| match filter {
            BootFilter::Current => boot.current,
            BootFilter::Previous => boots.get(index + 1).is_some_and(|next| next.current),
            BootFilter::All => true,
            BootFilter::Id(id) => boot.id == *id,
        };
        let found: Vec<String> = boots.iter().enumerate().filter(is_wanted).map(|(_, boot)| boot.id.clone()).collect();
        match filter {
            BootFilter::All => Ok(None),
            BootFilter::Id(id) if found.is_empty() => Err(Error::no_such("boot", id)),
            _ => Ok(Some(found)),
        }
    }
}

/// Records of the given boots; `None`: of all.
fn select(store: &Store, kind: RecordKind, boots: Option<&[String]>) -> io::Result<Vec<Record>> {
    let filter = |boot| RecordFilter { kind: Some(kind), boot, ..RecordFilter::default() };
    let Some(boots) = boots else { return store.records(&filter(None)) };
    let mut all = Vec::new();
    for boot in boots {
        all.extend(store.records(&filter(Some(boot.clone())))?);
    }
    Ok(all)
}

fn read_process(store: &Store, id: &str) -> io::Result<Option<(Record, Arc<Span>)>> {
    match store.record(RecordKind::Process, id)? {
        Some(record) => Ok(Some((record, store.span(id)?))),
        None => Ok(None),
    }
}

/// When the store is open: connects the processes of this server with their history, and stores what has happened until
/// then.
pub(crate) async fn reconcile(services: Arc<Services>) {
    services.history.wait_accepting().await;
    let processes: Vec<_> = services.table.all();
    if !processes.is_empty() {
        connect(&services, processes).await;
    }
    services.history.set_reconciled();
}

async fn connect(services: &Services, processes: Vec<Arc<Process>>) {
    let reconciled = services.history.with_store(move |store| {
        // One at a time: there may be thousands.
        for process in processes {
            let is_ended = |record: Record| record.ended_at_ms.is_some();
            let is_current =
                process.has_exited() && store.record(RecordKind::Process, process.id())?.is_some_and(is_ended);
            if process.adopt_into_history(is_current) && process.lacks_output_in_memory(0) {
                let span = store.span(process.id())?;
                if span.end.load(Acquire) > span.start.load(Acquire) {
                    process.attach_span(&span);
                }
            }
        }
        Ok(())
    });
    if let Err(error) = reconciled.await {
        tracing::warn!(%error, "cannot compare the processes with their history");
    }
}
