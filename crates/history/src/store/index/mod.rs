//! The index: records, and where the blocks of sealed segments are. A redb database on the store's disk.
//!
//! All writes go through [`IndexWriter::commit`] as lists of [`Change`]s, one at a time. Readers have snapshots and wait
//! for nothing. redb refuses all work after an I/O error; the index then opens the file again, which also tells
//! whether the failed commit happened.

mod backend;
mod body;
mod query;
mod tables;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, ReadTransaction, ReadableDatabase};

use self::backend::{Backend, BackendControl};
pub(super) use self::query::RetentionEntry;
use self::tables::Tables;
pub(super) use self::tables::{BlockRow, Change, MetaKey, STILL_RUNNING, SegmentRow, Tombstone};
use super::files;
use crate::disk::{self, Disk, DiskFile};

/// An idle server must stay small. The operating system caches the file too.
const CACHE_BYTES: usize = 64 * 1024;

/// The index is fragmented once this many times its size was written.
const FRAGMENTING_WRITES: u64 = 8;
/// Smaller ones are not worth the work.
const MIN_FRAGMENTED_BYTES: u64 = 1024 * 1024;

/// Layout of the tables.
const VERSION: u64 = 1;

pub(super) struct Index {
    disk: Arc<dyn Disk>,
    /// `None` after an I/O error, until the next use opens it again.
    current: Mutex<Option<Arc<OpenIndex>>>,
    writing: Mutex<WriteState>,
    /// Whether pages that belong to nothing may contain what a crash or an error left of a commit. Such a record was
    /// never stored, so that no delete would find it.
    has_remnants: Arc<AtomicBool>,
    /// Whether a sync has failed: what the file contains may not be durable.
    is_doubtful: AtomicBool,
}

#[derive(Default)]
struct WriteState {
    /// Committed since the copy for a new index began.
    changes_during_rewrite: Option<Vec<Change>>,
    /// The index was renamed, and the directory could not be synced.
    name_is_unsynced: bool,
}

struct OpenIndex {
    database: Database,
    file: Arc<dyn DiskFile>,
    control: Arc<BackendControl>,
}

/// A consistent state of the index. Its queries are in `query.rs`.
pub(super) struct View {
    transaction: ReadTransaction,
    /// Closing the database ends its transactions.
    _open: Arc<OpenIndex>,
}

/// The right to write. Other writers wait.
pub(super) struct IndexWriter<'a> {
    index: &'a Index,
    state: MutexGuard<'a, WriteState>,
}

impl Index {
    /// Opens the index. `create`: a directory without an index is a new one. `is_retry`: an earlier attempt has failed.
    pub(super) fn open(disk: Arc<dyn Disk>, create: bool, is_retry: bool) -> io::Result<Self> {
        let names = disk.names()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if has(files::NEW_INDEX) {
            disk.remove(files::NEW_INDEX)?;
        }
        if !has(files::INDEX) {
            if !create {
                let message = "index.redb is missing; move the directory away to start a new history";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Self::create(&*disk)?;
        }
        let index = Self {
            disk,
            current: Mutex::default(),
            writing: Mutex::default(),
            has_remnants: Arc::default(),
            is_doubtful: is_retry.into(),
        };
        let version = index.read(|view| view.meta(MetaKey::Version))?;
        if version != Some(VERSION) {
            let message = format!("index.redb has version {version:?}; this version of outlive reads {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(index)
    }

    fn create(disk: &dyn Disk) -> io::Result<()> {
        let open = OpenIndex::new(disk.open(files::NEW_INDEX, true)?, || ())?;
        open.write(|tables| tables.apply(&Change::Meta(MetaKey::Version, VERSION))).map_err(io_error)?;
        let control = open.control.clone();
        drop(open);
        if control.is_sync_failed() {
            return Err(io::Error::other("cannot sync a new index"));
        }
        disk.rename(files::NEW_INDEX, files::INDEX)?;
        disk.sync_directory()
    }

    fn opened(&self) -> io::Result<Arc<OpenIndex>> {
        let mut current = lock(&self.current);
        if let Some(open) = &*current {
            return Ok(open.clone());
        }
        let file = self.disk.open(files::INDEX, false)?;
        if self.is_doubtful.load(Ordering::Relaxed) {
            // Before redb opens it: what redb reads, it takes for durable.
            disk::write_again(&*file, 0..file.len()?)?;
            file.sync()?;
            self.is_doubtful.store(false, Ordering::Relaxed);
        }
        let has_remnants = self.has_remnants.clone();
        let on_repair = move || has_remnants.store(true, Ordering::Relaxed);
        // Opening may write.
        let opened = OpenIndex::new(file, on_repair).inspect_err(|_| self.is_doubtful.store(true, Ordering::Relaxed));
        let open = Arc::new(opened?);
        *current = Some(open.clone());
        Ok(open)
    }

    /// Gives a database up after an I/O error.
    fn discard(&self, broken: &Arc<OpenIndex>) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|open| Arc::ptr_eq(open, broken)) {
            broken.control.detach();
            self.is_doubtful.fetch_or(broken.control.is_sync_failed(), Ordering::Relaxed);
            *current = None;
        }
    }

    /// Runs queries on a snapshot.
    pub(super) fn read<T>(&self, query: impl Fn(&View) -> Result<T, redb::Error>) -> io::Result<T> {
        // Another thread may have met an I/O error: then the second attempt has a new database.
        let mut attempts = 2;
        loop {
            attempts -= 1;
            let open = self.opened()?;
            let result = open.view().and_then(|view| query(&view));
            match result {
                Ok(value) => return Ok(value),
                Err(error) => {
                    let previous = matches!(error, redb::Error::PreviousIo | redb::Error::DatabaseClosed);
                    self.discard(&open);
                    if attempts == 0 || !previous {
                        return Err(io_error(error));
                    }
                }
            }
        }
    }

    pub(super) fn write(&self) -> IndexWriter<'_> {
        IndexWriter { index: self, state: lock(&self.writing) }
    }

    /// Bytes on disk. 0 while it cannot be opened.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let open = lock(&self.current).clone();
        open.and_then(|open| open.file.allocated_bytes().ok()).unwrap_or(0)
    }

    /// Whether so much was written that the pages are probably half empty. Writing the index anew then costs little
    /// compared with what was written.
    pub(super) fn is_fragmented(&self) -> bool {
        let written = lock(&self.current).as_ref().map_or(0, |open| open.control.written_bytes());
        written > FRAGMENTING_WRITES * self.allocated_bytes().max(MIN_FRAGMENTED_BYTES)
    }

    /// Whether the file may contain parts of commits that never happened.
    pub(super) fn has_remnants(&self) -> bool {
        self.has_remnants.load(Ordering::Relaxed)
    }

    /// Writes the index anew, without the tombstones of `purged` and without anything that freed pages contain. Writers
    /// wait only for the end of it.
    pub(super) fn rewrite(&self, purged: &[String]) -> io::Result<()> {
        let old = {
            let mut state = lock(&self.writing);
            let old = self.opened()?;
            state.changes_during_rewrite = Some(Vec::new());
            old
        };
        let result = self.rewrite_from(&old, purged);
        if result.is_err() {
            lock(&self.writing).changes_during_rewrite = None;
        }
        result
    }

    fn rewrite_from(&self, old: &Arc<OpenIndex>, purged: &[String]) -> io::Result<()> {
        match self.disk.remove(files::NEW_INDEX) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Commits after this snapshot are in the list of changes too. Applying a change twice gives the same.
        let source = old.view().map_err(io_error)?;
        let new = OpenIndex::new(self.disk.open(files::NEW_INDEX, true)?, || ())?;
        new.write(|tables| tables.copy_from(&source.transaction, purged)).map_err(io_error)?;
        drop(source);

        let mut state = lock(&self.writing);
        let Some(changes) = state.changes_during_rewrite.take() else {
            return Err(io::Error::other("a write of the index failed while it was rewritten"));
        };
        new.write(|tables| changes.iter().try_for_each(|change| tables.apply(change))).map_err(io_error)?;
        let mut current = lock(&self.current);
        self.disk.rename(files::NEW_INDEX, files::INDEX)?;
        // After an I/O error of a reader, this is not `old`.
        let replaced = current.replace(Arc::new(new));
        drop(current);
        if let Some(replaced) = replaced {
            replaced.control.make_read_only();
        }
        old.control.make_read_only();
        self.has_remnants.store(false, Ordering::Relaxed);
        state.name_is_unsynced = true;
        self.sync_name(&mut state)
    }

    /// Without this, a power loss would bring the replaced index back.
    fn sync_name(&self, state: &mut WriteState) -> io::Result<()> {
        if state.name_is_unsynced {
            self.disk.sync_directory()?;
            state.name_is_unsynced = false;
        }
        Ok(())
    }
}

impl IndexWriter<'_> {
    /// Makes all changes durable, or none. After an error, whether they happened is known once the index is read again.
    pub(super) fn commit(&mut self, changes: &[Change]) -> io::Result<()> {
        self.index.sync_name(&mut self.state)?;
        let open = self.index.opened()?;
        if let Err(error) = open.write(|tables| changes.iter().try_for_each(|change| tables.apply(change))) {
            self.index.discard(&open);
            self.state.changes_during_rewrite = None;
            return Err(io_error(error));
        }
        if let Some(during_rewrite) = &mut self.state.changes_during_rewrite {
            during_rewrite.extend_from_slice(changes);
        }
        Ok(())
    }
}

impl OpenIndex {
    /// Calls `on_repair` if the file was not closed as it should.
    fn new(file: Box<dyn DiskFile>, on_repair: impl Fn() + 'static) -> io::Result<Self> {
        let (file, control): (Arc<dyn DiskFile>, _) = (file.into(), Arc::<BackendControl>::default());
        let backend = Backend::new(file.clone(), control.clone());
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_repair_callback(move |_| on_repair());
        Ok(Self { database: builder.create_with_backend(backend).map_err(io_error)?, file, control })
    }

    fn view(self: &Arc<Self>) -> Result<View, redb::Error> {
        Ok(View { transaction: self.database.begin_read()?, _open: self.clone() })
    }

    fn write(&self, change: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        change(&mut Tables::open(&transaction)?)?;
        transaction.commit()?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io_error(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error @ redb::Error::Corrupted(_) => {
            let message = format!("index.redb is damaged: {error}; move the directory away to start a new history");
            io::Error::new(io::ErrorKind::InvalidData, message)
        }
        error => io::Error::other(error),
    }
}
