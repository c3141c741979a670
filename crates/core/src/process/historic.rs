//! Storing a process in the history, and a process that only the history knows.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use outlive_history::{Record as StoredRecord, RecordKind, Span};

use super::info::ProcessInfo;
use super::state::Phase;
use super::{Inner, Process, Record};
use crate::events::{Kind, UpdateReason};
use crate::history::{Tap, records};
use crate::log::{Log, StoredEnd};
use crate::services::Services;
use crate::{Error, Result, lock};

/// Whether an event is about a change that must be on disk soon.
pub(super) fn is_urgent(kind: Kind) -> bool {
    matches!(kind, Kind::Created | Kind::Exited | Kind::Updated(UpdateReason::Started))
}

impl Process {
    /// A process that only the history knows. `None`: its record cannot be read.
    pub(crate) fn from_history(services: &Arc<Services>, stored: &StoredRecord, span: &Arc<Span>) -> Option<Arc<Self>> {
        let record = records::process_record(stored)
            .inspect_err(|error| tracing::warn!(%error, id = stored.id, "cannot read a stored record"))
            .ok()?;
        let exit = record.exit.map(Into::into);
        let stored_log = services.history.open_log(&record.id, span)?;
        let end = StoredEnd { exit, generation: record.generation, ..StoredEnd::default() };
        let log = Log::stored_only(record.key, stored_log, end, services.link.clone());
        let phase = exit.map_or(Phase::Lost, Phase::Exited);
        let mut process = Self::with_phase(Arc::clone(services), record, phase);
        process.historic_boot = Some(stored.boot.as_str().into());
        process.lock().log = Some(Arc::new(log));
        Some(Arc::new(process))
    }

    /// Whether only the history knows the process.
    pub fn is_historic(&self) -> bool {
        self.historic_boot.is_some()
    }

    pub(super) fn check_not_historic(&self) -> Result<()> {
        if self.is_historic() { Err(Error::earlier_boot()) } else { Ok(()) }
    }

    // ---- hooks; a process that is not stored costs a few loads ----

    fn tap(&self) -> Option<Arc<Tap>> {
        lock(&self.tap).clone()
    }

    /// The link to the history, if the process is stored there from now on.
    fn tap_if_stored(&self, inner: &Inner) -> Option<Arc<Tap>> {
        let mut tap = lock(&self.tap);
        if tap.is_none() && self.is_storing(inner) {
            *tap = Some(Tap::new_shared(self.key));
        }
        tap.clone()
    }

    /// Whether the history stores the process once it has been started.
    pub(super) fn is_history_expected(&self, record: &Record) -> bool {
        let history = &self.services.history;
        history.is_accepting() && record.wants_history() && !history.excludes(record.spec.tag.as_deref())
    }

    /// Stores the record, which is given as in the journal.
    pub(super) fn store_record(&self, inner: &Inner, journal: &[u8], urgent: bool) {
        if self.tap_if_stored(inner).is_none() {
            return;
        }
        let record = &inner.record;
        let ended_at_ms = if let Phase::Exited(exit) = &inner.phase { Some(exit.at_ms) } else { None };
        let history = &self.services.history;
        let stored = StoredRecord {
            kind: RecordKind::Process,
            id: self.id.clone(),
            boot: history.boot_id().to_owned(),
            created_at_ms: record.created_at_ms,
            ended_at_ms,
            parent: record.session_shell.clone(),
            body: journal.to_vec(),
        };
        history.put(stored, urgent);
    }

    /// Stores the output from now on: the process was started or adopted.
    pub(super) fn start_history(&self, inner: &Inner) {
        let Some(tap) = self.tap_if_stored(inner) else { return };
        if inner.record.ephemeral {
            // No event has stored its record.
            self.store_record(inner, &inner.record.encode(), true);
        }
        if let Some(log) = &inner.log {
            self.services.history.open_output(&self.id, &tap, log);
        }
    }

    /// The holder reported a change of the log.
    pub(crate) fn wake_history(&self, log: &Log) {
        // Without a copy: this is on the path of output.
        if let Some(tap) = &*lock(&self.tap) {
            self.services.history.wake(tap, log);
        }
    }

    /// The process has exited.
    pub(super) fn drain_history(&self) {
        if let Some(tap) = self.tap() {
            self.services.history.drain_output(&tap);
        }
    }

    /// The process was removed, but its history stays.
    pub(super) fn finish_history(&self) {
        if let Some(tap) = self.tap() {
            self.services.history.finish_output(&tap);
        }
    }

    /// Whether the history stores the process, or only the history knows it.
    pub fn is_stored(&self) -> bool {
        self.is_historic() || self.read(|inner| self.is_storing(inner))
    }

    fn is_storing(&self, inner: &Inner) -> bool {
        inner.record.started_at_ms.is_some() && self.is_history_expected(&inner.record)
    }

    /// Whether the history may have the process.
    pub(super) fn is_in_history(&self) -> bool {
        self.is_historic() || self.tap().is_some() || self.read(|inner| inner.record.wants_history())
    }

    pub(crate) async fn delete_history(&self) -> Result<()> {
        if let Some(tap) = self.tap() {
            self.services.history.discard_output(&tap);
        }
        let history = &self.services.history;
        if self.is_historic() {
            return history.delete(RecordKind::Process, &self.id).await.map(drop);
        }
        history.delete_live(RecordKind::Process, &self.id).await.map(drop)
    }

    // ---- reading ----

    /// The log with what the history has of it.
    pub(crate) fn with_history(&self, log: Log) -> Log {
        match self.tap().and_then(|tap| self.services.history.stored_log(&self.id, &tap)) {
            Some(stored) => log.with_history(stored),
            None => log,
        }
    }

    /// What the history has of a process that an earlier server stored.
    pub(crate) fn attach_span(&self, span: &Arc<Span>) {
        let history = &self.services.history;
        let tap = Arc::clone(lock(&self.tap).get_or_insert_with(|| Tap::new_shared(self.key)));
        tap.set_span(span);
        if let (Some(log), Some(stored)) = (self.log_if_loaded(), history.stored_log(&self.id, &tap)) {
            log.attach_history(stored);
        }
    }

    /// Releases the link of an exited process that becomes compact, if all of its stored output is in memory too. Thousands
    /// of processes are compact, so what is stored of one is looked up again when it is needed.
    pub(super) fn release_tap(&self, memory_tail: u64) {
        let mut tap = lock(&self.tap);
        let start = tap.as_ref().and_then(|tap| tap.span()).map_or(0, |span| span.start.load(Acquire));
        if start >= memory_tail {
            *tap = None;
        }
    }

    /// Whether what is stored of an exited process is not known, and would have to be looked up.
    pub(crate) fn has_unknown_span(&self) -> bool {
        self.tap().is_none_or(|tap| tap.span().is_none()) && self.read(|inner| self.is_history_expected(&inner.record))
    }

    /// Looks up what is stored of an exited process, before its log leaves the memory. Not for long if the disk fails:
    /// its earlier output then counts as gone until the next server.
    pub(crate) async fn recover_span(&self) {
        const RECOVER_TIMEOUT: Duration = Duration::from_secs(1);
        if !self.has_unknown_span() {
            return;
        }
        let id = self.id.clone();
        let lookup = self.services.history.with_store(move |store| store.span(&id));
        if let Ok(Ok(span)) = tokio::time::timeout(RECOVER_TIMEOUT, lookup).await {
            self.attach_span(&span);
        } else {
            tracing::warn!(id = self.id, "cannot look up stored output");
        }
    }

    /// Whether output from `offset` on is not in memory, so that readers may need the history.
    pub(crate) fn lacks_output_in_memory(&self, offset: u64) -> bool {
        let memory_tail = self.peek(
            |inner| inner.log.as_ref().map(|log| log.memory_tail()),
            |summary| summary.log_bytes.map(|_| summary.memory_tail),
        );
        memory_tail.is_none_or(|tail| tail > offset)
    }

    /// Stores a process that exists when the history is opened. `is_current`: its record is stored already. True: only
    /// its output may be in the history, and it is not being stored any more.
    pub(crate) fn adopt_into_history(&self, is_current: bool) -> bool {
        let is_in_ring = self.peek(|inner| inner.log.as_ref().is_some_and(|log| log.ring().is_some()), |_| false);
        if is_current && !is_in_ring {
            return self.read(|inner| self.is_history_expected(&inner.record));
        }
        self.read(|inner| {
            if self.tap_if_stored(inner).is_none() {
                return false;
            }
            if !is_current {
                self.store_record(inner, &inner.record.encode(), false);
            }
            if is_in_ring {
                self.start_history(inner);
            }
            !is_in_ring
        })
    }

    /// The log of a process whose log was dropped from memory.
    pub(super) fn dropped_log(&self, inner: &Inner) -> Result<Arc<Log>> {
        let stored = self.tap().and_then(|tap| self.services.history.stored_log(&self.id, &tap));
        let stored = stored.filter(|stored| stored.offsets().is_some()).ok_or(Error::LogDropped)?;
        let end = StoredEnd {
            exit: if let Phase::Exited(exit) = inner.phase { Some(exit) } else { None },
            generation: inner.record.generation,
            input_offset: inner.record.log_end.map_or(0, |end| end.input_offset),
            last_output_at_ms: None,
        };
        Ok(Arc::new(Log::stored_only(self.key, stored, end, self.services.link.clone())))
    }

    /// Adds what the history knows to a description.
    pub(super) fn describe_history(&self, inner: &Inner, info: &mut ProcessInfo) {
        info.boot = self.historic_boot.as_deref().map(str::to_owned);
        if inner.log.is_none()
            && inner.record.log_dropped
            && let Ok(log) = self.dropped_log(inner)
        {
            (info.output_start, info.output_end, info.log_dropped) = (log.tail(), log.head(), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use outlive_history::{ChunkMark, Piece, Store, Stream};
    use outlive_holder::log::{Cause, Exit};

    use super::*;
    use crate::attach::Role;
    use crate::config::{Config, ProcessConfig};
    use crate::history::{BootFilter, HistoryOptions};
    use crate::holder_link::{Handover, HolderLink};
    use crate::log::{Cursor, Flow, Item, Start, StreamFilter};
    use crate::process::{Patch, Spec, Status};
    use crate::{Core, Error};

    /// A core without a holder, with its history open.
    async fn core(directory: &Path) -> Core {
        let link = HolderLink::disconnected();
        let handover = Handover { link, stored_fds: BTreeMap::new(), held: Vec::new(), predecessor_active: false };
        let options = HistoryOptions { directory: Some(directory.to_owned()), ..HistoryOptions::default() };
        let core = Core::take_over(handover, (ProcessConfig::default(), Config::default()), options).unwrap();
        core.boots().await.unwrap();
        core
    }

    fn exit() -> Exit {
        Exit { generation: 1, status: Ok(3), cause: Cause::SelfExit, offset: 5, at_ms: 9 }
    }

    fn started(core: &Core, exit: Option<Exit>) -> Record {
        let mut record = core.new_record(Spec { command: "greet".into(), ..Spec::default() });
        (record.generation, record.started_at_ms, record.announced) = (1, Some(2), true);
        record.exit = exit.map(Into::into);
        record
    }

    /// Stores a process with the output `hello`.
    async fn store(core: &Core, boot: &'static str, record: &Record) {
        let record = record.clone();
        let write = move |store: &Store| {
            let stored = StoredRecord {
                kind: RecordKind::Process,
                id: record.id.clone(),
                boot: boot.into(),
                created_at_ms: record.created_at_ms,
                ended_at_ms: record.exit.map(|exit| Exit::from(exit).at_ms),
                parent: None,
                body: record.encode(),
            };
            store.put(&[stored])?;
            let marks = [ChunkMark { sequence: 1, offset: 0, stream: Stream::Stdout, at_ms: 3 }];
            store.append(&Piece { process: &record.id, offset: 0, marks: &marks, bytes: b"hello" })
        };
        core.services.history.with_store(write).await.unwrap();
    }

    async fn read(process: &Process) -> Vec<u8> {
        let mut cursor = Cursor::new(process.log().unwrap(), Start::At(0), Flow::Live, StreamFilter::All);
        let mut bytes = Vec::new();
        while let Item::Bytes { bytes: more, .. } = cursor.next(100).await {
            bytes.extend_from_slice(&more);
        }
        bytes
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn processes_of_an_earlier_boot_are_listed_read_and_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path()).await;
        let (exited, mut lost) = (started(&core, Some(exit())), started(&core, None));
        lost.created_at_ms = exited.created_at_ms + 1;
        store(&core, "old", &exited).await;
        store(&core, "old", &lost).await;
        let listed = core.list_boot(&BootFilter::All).await.unwrap();
        let status = |process: &Arc<Process>| (process.id().to_owned(), process.status(), process.info().boot);
        let expected = [(&exited.id, Status::Exited), (&lost.id, Status::Lost)]
            .map(|(id, status)| (id.clone(), status, Some("old".to_owned())));
        assert_eq!(listed.iter().map(status).collect::<Vec<_>>(), expected);
        let found = core.find_anywhere(&exited.id).await.unwrap();
        let info = found.info();
        assert_eq!((info.exit_code, info.output_start, info.output_end), (Some(3), 0, 5));
        for id in [&exited.id, &lost.id] {
            let process = core.find_anywhere(id).await.unwrap();
            assert_eq!(read(&process).await, b"hello");
            process.delete(false).await.unwrap();
            assert!(matches!(core.find_anywhere(id).await, Err(Error::NotFound { .. })));
        }
        assert!(core.list_boot(&BootFilter::All).await.unwrap().is_empty());
        assert!(!core.delete_from_history(&exited.id).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commands_on_a_process_of_an_earlier_boot_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path()).await;
        for exit in [Some(exit()), None] {
            let record = started(&core, exit);
            store(&core, "old", &record).await;
            let process = core.find_anywhere(&record.id).await.unwrap();
            let refusals = [
                process.start().await.err(),
                process.restart(Duration::ZERO).await.err(),
                process.stop(Duration::ZERO, Duration::ZERO).await.err(),
                process.kill(Duration::ZERO).await.err(),
                process.signal(15).await.err(),
                process.input(b"x").await.err(),
                process.patch(Patch::default()).err(),
                process.attach(Role::Viewer, None, None).err(),
            ];
            for refusal in refusals {
                assert_eq!(refusal.map(|error| error.code()), Some("earlier_boot"));
            }
        }
        assert!(core.list(true).is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_log_dropped_from_memory_is_read_from_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path()).await;
        let mut record = started(&core, Some(exit()));
        record.log_dropped = true;
        store(&core, "0", &record).await;
        let id = record.id.clone();
        let process = Process::adopt(Arc::clone(&core.services), record, None).unwrap();
        core.services.table.adopt(&process);
        assert_eq!(process.log().err(), Some(Error::LogDropped));
        let span = core.services.history.with_store(move |store| store.span(&id)).await.unwrap();
        process.attach_span(&span);
        assert_eq!(read(&process).await, b"hello");
        let info = process.info();
        assert_eq!((info.output_start, info.output_end, info.log_dropped), (0, 5, false));
        assert!(core.list_boot(&BootFilter::All).await.unwrap().is_empty(), "the table has it");
        process.delete(false).await.unwrap();
        assert!(core.find_anywhere(process.id()).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_compact_process_with_its_whole_log_in_memory_keeps_no_link_to_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path()).await;
        let record = started(&core, Some(exit()));
        store(&core, "0", &record).await;
        let process = Process::with_phase(Arc::clone(&core.services), record, Phase::Exited(exit()));
        assert!(process.has_unknown_span());
        process.recover_span().await;
        let span = Arc::clone(process.tap().unwrap().span().unwrap());
        assert!(process.lacks_output_in_memory(0), "its log is not in memory");
        assert_eq!(span.start.load(Acquire), 0);
        process.release_tap(1);
        assert!(!process.has_unknown_span(), "the first byte is only in the history");
        process.release_tap(0);
        assert!(process.has_unknown_span());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_wanted_processes_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path()).await;
        let is_stored = |change: fn(&mut Record)| {
            let mut record = started(&core, None);
            change(&mut record);
            let process = Process::with_phase(Arc::clone(&core.services), record, Phase::Created);
            let inner = process.lock();
            process.tap_if_stored(&inner).is_some()
        };
        assert!(is_stored(|_| {}));
        assert!(is_stored(|record| (record.ephemeral, record.id_outlives_request) = (true, true)));
        assert!(is_stored(|record| (record.hidden, record.session_shell) = (true, Some("proc_1".into()))));
        assert!(!is_stored(|record| record.ephemeral = true), "a plain run");
        assert!(!is_stored(|record| record.hidden = true), "the shell of a session");
        assert!(!is_stored(|record| record.spec.history = Some(false)));
        assert!(!is_stored(|record| record.started_at_ms = None), "only reserved");
    }
}
