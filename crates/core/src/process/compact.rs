//! The compact form of an exited process.
//!
//! Thousands of exited processes are kept, and few of them are used again. Retention makes an idle one compact: a
//! [`Summary`] stays in memory, the record is in the journal and the log in the archive. An access that needs more loads
//! the state again.
//!
//! ```text
//! loaded ──exited, idle, log archived or dropped──▶ compact ──lock()──▶ loaded
//!                                                      └──── read(): a temporary copy
//! ```
//!
//! The `Process` itself stays. Its form changes under its own lock, so ids, tags, pids and waiting requests refer to
//! one object all the time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use outlive_holder::log::Exit;

use super::spec::Spec;
use super::state::Phase;
use super::{Inner, Process, Record};
use crate::lock;
use crate::store::journal::{AppendOutcome, Change};

/// The state of a process, which its lock protects.
pub(crate) enum Storage {
    /// Boxed: a compact process takes only the space of a `Summary`.
    Loaded(Box<Inner>),
    Compact(Summary),
}

/// What a compact process keeps in memory: the part that the record does not hold, and the part by which lists, metrics
/// and retention decide without loading it.
pub(crate) struct Summary {
    pub(crate) exit: Exit,
    pub(crate) pid: Option<NonZeroU32>,
    pub(crate) started_at_ms: Option<NonZeroU64>,
    pub(crate) retain_ms: Option<u64>,
    last_input_at_ms: Option<NonZeroU64>,
    /// `None`: the log was dropped.
    pub(crate) log_bytes: Option<u64>,
    /// Offset of the first byte of the log.
    pub(crate) memory_tail: u64,
    resume_offset: u64,
    annotations: AnnotationFilter,
    pub(crate) is_terminal: bool,
    pub(crate) hidden: bool,
}

/// A Bloom filter of a process's annotations.
#[derive(Clone, Copy)]
struct AnnotationFilter(u64);

impl AnnotationFilter {
    fn new(spec: &Spec) -> Self {
        Self(spec.annotations.iter().fold(0, |bits, (name, value)| bits | Self::bits(name, value)))
    }

    /// Three of 64 bits.
    fn bits(name: &str, value: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (name, value).hash(&mut hasher);
        let hash = hasher.finish();
        1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63)
    }

    /// False: the process does not have this annotation.
    fn may_contain(self, name: &str, value: &str) -> bool {
        let bits = Self::bits(name, value);
        self.0 & bits == bits
    }
}

/// The loaded state of a process, locked.
pub(crate) struct InnerGuard<'a>(MutexGuard<'a, Storage>);

impl Deref for InnerGuard<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        match &*self.0 {
            Storage::Loaded(inner) => inner,
            Storage::Compact(_) => unreachable!("lock() loads the state"),
        }
    }
}

impl DerefMut for InnerGuard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        match &mut *self.0 {
            Storage::Loaded(inner) => inner,
            Storage::Compact(_) => unreachable!("lock() loads the state"),
        }
    }
}

impl Process {
    /// Locks the state. A compact process is loaded, and stays so until retention finds it idle.
    pub(crate) fn lock(&self) -> InnerGuard<'_> {
        let mut storage = lock(&self.storage);
        if let Storage::Compact(summary) = &*storage {
            *storage = Storage::Loaded(Box::new(self.load(summary)));
        }
        InnerGuard(storage)
    }

    /// Reads the state. A compact process stays compact.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Inner) -> T) -> T {
        match &*lock(&self.storage) {
            Storage::Loaded(inner) => read(inner),
            Storage::Compact(summary) => read(&self.load(summary)),
        }
    }

    /// Reads the state, or the summary if that is all there is in memory.
    pub(crate) fn peek<T>(&self, loaded: impl FnOnce(&Inner) -> T, compact: impl FnOnce(&Summary) -> T) -> T {
        match &*lock(&self.storage) {
            Storage::Loaded(inner) => loaded(inner),
            Storage::Compact(summary) => compact(summary),
        }
    }

    pub fn is_annotated(&self, name: &str, value: &str) -> bool {
        let has = |inner: &Inner| inner.record.spec.annotations.get(name).is_some_and(|existing| existing == value);
        self.peek(has, |summary| summary.annotations.may_contain(name, value) && has(&self.load(summary)))
    }

    /// Makes an idle exited process compact. False: it is in use, or its state is not only in the record and the log.
    pub(crate) fn compact_if_idle(&self) -> bool {
        let mut storage = lock(&self.storage);
        let Storage::Loaded(inner) = &*storage else { return true };
        let Some(summary) = inner.summarize() else { return false };
        if !self.screen.release_state() || !self.is_recorded(&inner.record) {
            return false;
        }
        if summary.log_bytes.is_some() {
            self.release_tap(summary.memory_tail);
        }
        *storage = Storage::Compact(summary);
        true
    }

    /// Whether the journal holds exactly this record; writes it if not.
    fn is_recorded(&self, record: &Record) -> bool {
        let (name, value) = (Record::name(&self.id), record.encode());
        let is_current = self.services.journal.read(&name).is_ok_and(|current| current.as_ref() == Some(&value));
        is_current || self.services.journal.append(&[Change::Put { name, value }]) == AppendOutcome::Written
    }

    fn load(&self, summary: &Summary) -> Inner {
        let record = self.read_record().unwrap_or_else(|reason| {
            tracing::error!(id = self.id, %reason, "cannot read the record of an exited process");
            Record {
                pid: summary.pid.map(NonZeroU32::get),
                started_at_ms: summary.started_at_ms.map(NonZeroU64::get),
                exit: Some(summary.exit.into()),
                announced: true,
                hidden: summary.hidden,
                ..Record::new(
                    self.id.clone(),
                    self.key,
                    Spec::default(),
                    summary.started_at_ms.map_or(0, NonZeroU64::get),
                )
            }
        });
        let mut inner = Inner::new(record, Phase::Exited(summary.exit));
        inner.last_input_at_ms = summary.last_input_at_ms.map(NonZeroU64::get);
        let location = inner.record.archived;
        let log = location.and_then(|location| self.services.archive.open_log(location, summary.exit));
        self.set_archived_log(&mut inner, log);
        if let Some(log) = &inner.log {
            log.raise_resume_offset(summary.resume_offset);
        }
        inner
    }

    fn read_record(&self) -> std::io::Result<Record> {
        let bytes = self.services.journal.read(&Record::name(&self.id))?;
        Ok(Record::decode(&bytes.ok_or(std::io::ErrorKind::NotFound)?)?)
    }
}

impl Inner {
    /// `None`: the state is more than the record and an archived log, or soon will be.
    fn summarize(&self) -> Option<Summary> {
        let Phase::Exited(exit) = self.phase else { return None };
        let is_log_idle = match &self.log {
            // Readers get their reference under the lock.
            Some(log) => log.as_archived().is_some() && Arc::strong_count(log) == 1,
            None => self.record.log_dropped,
        };
        let is_idle = is_log_idle
            && self.attachments.len() == 0
            && !self.removed
            && !self.restart_due
            && !self.record.restart_wanted
            && !self.is_restart_demanded(exit)
            && self.failures == 0
            && self.start_error.is_none()
            // Runs keep their rings, and are removed soon.
            && !self.record.ephemeral;
        let record = &self.record;
        is_idle.then(|| Summary {
            exit,
            pid: record.pid.and_then(NonZeroU32::new),
            started_at_ms: record.started_at_ms.and_then(NonZeroU64::new),
            retain_ms: record.spec.retain_ms,
            last_input_at_ms: self.last_input_at_ms.and_then(NonZeroU64::new),
            log_bytes: self.log.as_ref().map(|log| log.len()),
            memory_tail: self.log.as_ref().map_or(0, |log| log.memory_tail()),
            resume_offset: self.log.as_ref().map_or(0, |log| log.resume_offset()),
            annotations: AnnotationFilter::new(&record.spec),
            is_terminal: record.spec.is_terminal(),
            hidden: record.hidden,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::fd::AsFd;

    use outlive_holder::log::{Cause, LogReader, LogStart, LogWriter, Stream};

    use super::*;
    use crate::attach::Role;
    use crate::config::{Config, ProcessConfig};
    use crate::events::FollowerItem;
    use crate::history::HistoryOptions;
    use crate::holder_link::{Handover, HolderLink};
    use crate::process::{Idempotency, IfTagExists, Patch};
    use crate::table::Reservation;
    use crate::{Core, Counts};

    /// A core without a holder.
    fn core() -> Core {
        let link = HolderLink::disconnected();
        let handover = Handover { link, stored_fds: BTreeMap::new(), held: Vec::new(), predecessor_active: false };
        Core::take_over(handover, (ProcessConfig::default(), Config::default()), HistoryOptions::default()).unwrap()
    }

    /// A ring with the output `hello` and an exit.
    fn exited_ring() -> LogReader {
        let writer = LogWriter::create(1000, 64 << 10, LogStart::default()).unwrap();
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        rustix::io::write(&write, b"hello").unwrap();
        writer.record(read.as_fd(), Stream::Stdout);
        writer.set_exit(Ok(3), Cause::SelfExit, 2_000);
        LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap()
    }

    /// An exited process with an archived log, as an earlier server left it.
    fn exited_process(core: &Core, change: impl FnOnce(&mut Record)) -> Arc<Process> {
        let services = &core.services;
        let ring = exited_ring();
        let exit = ring.exit().unwrap();
        let mut record = core.new_record(Spec { command: "greet".into(), ..Spec::default() });
        (record.generation, record.pid, record.started_at_ms) = (1, Some(4242), Some(1_000));
        (record.exit, record.announced) = (Some(exit.into()), true);
        record.archived = Some(*services.archive.copy(&ring, exit).unwrap().location());
        change(&mut record);
        services.journal.append(&[Change::Put { name: Record::name(&record.id), value: record.encode() }]);
        let process = Process::adopt(Arc::clone(services), record, None).unwrap();
        services.table.adopt(&process);
        process
    }

    fn compact_process(core: &Core, change: impl FnOnce(&mut Record)) -> Arc<Process> {
        let process = exited_process(core, change);
        assert!(process.compact_if_idle());
        process
    }

    fn is_compact(process: &Process) -> bool {
        process.peek(|_| false, |_| true)
    }

    fn json(process: &Process) -> String {
        serde_json::to_string(&process.info()).unwrap()
    }

    #[tokio::test]
    async fn a_compact_process_reads_as_before_and_stays_compact() {
        let core = core();
        let annotate = |record: &mut Record| {
            record.spec.annotations.insert("color".into(), "blue".into());
            record.spec.tag = Some("t".into());
        };
        let process = exited_process(&core, annotate);
        process.lock().last_input_at_ms = Some(7);
        let counts = |core: &Core| {
            let Counts { running, exited, log_bytes, .. } = core.counts();
            (running, exited, log_bytes)
        };
        let (before, counted) = (json(&process), counts(&core));
        assert!(process.compact_if_idle());
        assert_eq!((json(&process), counts(&core)), (before, counted));
        assert_eq!((process.exit().unwrap().status, process.spec().command.as_str()), (Ok(3), "greet"));
        assert_eq!((process.last_start(), process.tag().as_deref()), (Some((4242, 1_000)), Some("t")));
        assert!(process.has_exited() && !process.is_running() && !process.is_terminal() && !process.is_removed());
        assert!(core.find_by_annotation("color", "blue").is_some_and(|found| Arc::ptr_eq(&found, &process)));
        assert!(core.find_by_annotation("color", "red").is_none());
        assert_eq!(core.list(false).len(), 1);
        assert!(is_compact(&process));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_lookups_of_a_compact_process_find_one_object_and_one_log() {
        let core = core();
        let process = compact_process(&core, |record| record.spec.tag = Some("t".into()));
        let find = |name: String| {
            let core = core.clone();
            tokio::task::spawn_blocking(move || {
                let found = core.find(&name).unwrap();
                let log = found.log().unwrap();
                (found, log)
            })
        };
        let names = ["tag:t".to_owned(), "pid:4242".to_owned(), process.id().to_owned()];
        let lookups: Vec<_> = names.iter().cycle().take(12).map(|name| find(name.clone())).collect();
        let log = process.log().unwrap();
        for lookup in lookups {
            let (found, found_log) = lookup.await.unwrap();
            assert!(Arc::ptr_eq(&found, &process) && Arc::ptr_eq(&found_log, &log));
        }
        assert_eq!((log.len(), is_compact(&process)), (5, false));
    }

    #[tokio::test]
    async fn a_process_in_use_is_not_made_compact() {
        let core = core();
        let process = compact_process(&core, |_| {});
        let log = process.log().unwrap();
        assert!(!process.compact_if_idle(), "its log is being read");
        log.raise_resume_offset(4);
        drop(log);
        let attachment = process.attach(Role::Viewer, None, None).unwrap();
        assert!(!process.compact_if_idle(), "a client is attached");
        drop(attachment);
        process.lock().record.restart_wanted = true;
        assert!(!process.compact_if_idle(), "it will be restarted");
        process.lock().record.restart_wanted = false;
        assert!(process.compact_if_idle());
        assert_eq!(process.log().unwrap().resume_offset(), 4);
        let run = exited_process(&core, |record| (record.ephemeral, record.id_outlives_request) = (true, true));
        assert!(!run.compact_if_idle(), "it is a run");
    }

    #[tokio::test]
    async fn changes_of_a_compact_process_survive_the_next_compaction() {
        let core = core();
        let process = compact_process(&core, |record| record.spec.tag = Some("old".into()));
        process
            .patch(Patch { tag: Some(Some("new".into())), label: Some(Some("l".into())), ..Patch::default() })
            .unwrap();
        // A change that no journal entry holds yet.
        process.lock().record.restarts = 5;
        assert!(process.compact_if_idle());
        assert!(core.find("tag:old").is_err());
        assert!(Arc::ptr_eq(&core.find("tag:new").unwrap(), &process));
        assert_eq!((process.info().label.as_deref(), process.lock().record.restarts), (Some("l"), 5));
    }

    #[tokio::test]
    async fn a_deleted_compact_process_is_gone_from_the_table_and_the_journal() {
        let core = core();
        let process = compact_process(&core, |record| record.spec.tag = Some("t".into()));
        let mut events = core.subscribe_events(None);
        process.delete(false).await.unwrap();
        let FollowerItem::Event(event) = events.next().await else { panic!("no event") };
        assert_eq!((event.kind.as_str(), event.process_id.as_deref()), ("process.deleted", Some(process.id())));
        for name in [process.id(), "tag:t", "pid:4242"] {
            assert!(core.find(name).is_err(), "{name}");
        }
        assert!(core.services.journal.read(&Record::name(process.id())).unwrap().is_none());
        assert!(!process.compact_if_idle());
    }

    #[tokio::test]
    async fn tags_and_idempotency_keys_of_compact_processes_are_compared_with_new_ones() {
        let core = core();
        let key = |request_hash| Some(Idempotency { key: "start/k".into(), request_hash });
        let process = compact_process(&core, |record| {
            record.spec.tag = Some("t".into());
            record.idempotency = key(1);
        });
        let reserve = |idempotency: Option<Idempotency>| {
            let spec = Spec { command: "greet".into(), tag: Some("t".into()), ..Spec::default() };
            let record = Record { idempotency, reserved: true, ..core.new_record(spec) };
            core.services.table.reserve(&core.services, record, IfTagExists::Error)
        };
        assert!(matches!(reserve(key(1)), Ok(Reservation::Existing(found)) if Arc::ptr_eq(&found, &process)));
        assert!(reserve(key(2)).is_err_and(|error| error.code() == "idempotency_key_reused"));
        assert!(is_compact(&process));
        let Ok(Reservation::New(new)) = reserve(None) else { panic!("the tag of an exited process is free") };
        assert!(Arc::ptr_eq(&core.find("tag:t").unwrap(), &new));
    }

    #[tokio::test]
    async fn a_compact_process_continues_its_log_when_it_is_restarted() {
        let core = core();
        let process = compact_process(&core, |_| {});
        // There is no holder to start it.
        assert!(process.start().await.is_err());
        assert!(process.has_exited());
        let inner = process.lock();
        assert_eq!((inner.record.generation, inner.record.started_offset), (1, 5));
    }

    #[tokio::test]
    async fn an_unreadable_record_leaves_the_id_and_the_exit() {
        let core = core();
        let process = compact_process(&core, |_| {});
        core.services.journal.append(&[Change::Put { name: Record::name(process.id()), value: b"garbage".to_vec() }]);
        let info = process.info();
        assert_eq!((info.id.as_str(), info.exit_code, info.log_dropped), (process.id(), Some(3), true));
    }
}
