//! The store: owns all files of a history directory.
//!
//! ```text
//! appender (one thread)     append.rs    raw segments and their sync
//! maintenance (one thread)  seal.rs      raw segments ──▶ sealed segments
//!                           retention.rs limits ──▶ records, blocks and segments are removed
//!                           rewrite.rs   sealed segments without what was removed from them
//!                           purge.rs     deleted ids leave every file
//! any thread                read.rs      blocks, from raw and sealed segments
//!                           delete.rs    tombstones
//! open                      recovery.rs  repairs what a crash left
//! ```
//!
//! Locks, in this order: maintenance, appender, syncing, the index's writer, state. Readers take only the state's, which is never
//! held during a disk access, and snapshots of the index.
//!
//! Bytes move from raw segments to sealed ones by one commit of the index. The state in memory follows, and files that
//! the index does not name are removed. Both depend on nothing but the index (`recovery.rs`), so that they also repair a
//! commit of which it is not known whether it happened.

mod append;
mod cache;
mod delete;
mod files;
mod index;
mod purge;
mod read;
mod recovery;
mod retention;
mod rewrite;
mod seal;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use self::append::Appender;
use self::cache::BlockCache;
use self::index::{Change, Index};
use self::state::State;
use crate::disk::Disk;
use crate::{Block, Boot, Limits, Piece, Record, RecordKind, Span, Usage};

/// Which records a list contains.
#[derive(Clone, Debug, Default)]
pub struct RecordFilter {
    pub kind: Option<RecordKind>,
    pub boot: Option<String>,
    pub parent: Option<String>,
}

/// How a store is opened. Tests make its sizes smaller.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// A raw segment is closed when it is this long.
    pub segment_bytes: u64,
    /// Decoded blocks that are kept for the next reader.
    pub cache_bytes: usize,
    /// Whether an earlier attempt to open the store has failed, maybe by a sync.
    pub is_retry: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { segment_bytes: 4 * 1024 * 1024, cache_bytes: 4 * 1024 * 1024, is_retry: false }
    }
}

pub struct Store {
    /// `None` once it is closed.
    open: RwLock<Option<Arc<OpenStore>>>,
}

struct OpenStore {
    disk: Arc<dyn Disk>,
    index: Index,
    limits: Limits,
    segment_bytes: u64,
    boot: Boot,
    /// Held by an append from its first check to its end.
    appender: Mutex<Appender>,
    /// Held by a sync: two at a time would both count the same bytes as synced.
    syncing: Mutex<()>,
    /// Held while segments are sealed, rewritten or removed.
    maintenance: Mutex<()>,
    state: Mutex<State>,
    cache: Mutex<BlockCache>,
}

impl Store {
    /// As [`Self::open_with`], with the default options.
    pub fn open(disk: Arc<dyn Disk>, limits: Limits, boot: Boot) -> io::Result<Self> {
        Self::open_with(disk, limits, boot, StoreOptions::default())
    }

    /// Opens the store and recovers what a crash left. `boot` is the run of outlive that writes from now on.
    pub fn open_with(disk: Arc<dyn Disk>, limits: Limits, boot: Boot, options: StoreOptions) -> io::Result<Self> {
        let open = OpenStore::recover(disk, limits, boot, options)?;
        Ok(Self { open: RwLock::new(Some(Arc::new(open))) })
    }

    fn opened(&self) -> io::Result<Arc<OpenStore>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the history store is closed"))
    }

    // ---- writing: one thread ----

    /// Writes records, replacing those with the same kind and id. They are durable when this returns. Records of deleted
    /// ids, and of children of deleted ids, are ignored.
    pub fn put(&self, records: &[Record]) -> io::Result<()> {
        self.opened()?.put(records)
    }

    /// Appends output. A piece that does not start where the last one of its process ended leaves a gap. Bytes before
    /// the end of what is stored are ignored, and so is a piece of a deleted process.
    pub fn append(&self, piece: &Piece<'_>) -> io::Result<()> {
        self.opened()?.append(piece)
    }

    /// Whether output of the process can be appended without exceeding a limit. If not, it can after
    /// [`Self::enforce_size_limits`].
    pub fn has_room(&self, process: &str) -> bool {
        self.opened().is_ok_and(|open| open.has_room(process))
    }

    /// The part of [`Self::has_room`] about the total.
    pub fn has_room_in_total(&self) -> bool {
        self.opened().is_ok_and(|open| open.has_room_in_total())
    }

    /// Releases the memory that appending keeps for the next piece.
    pub fn release_buffers(&self) {
        if let Ok(open) = self.opened() {
            open.release_buffers();
        }
    }

    /// Bytes that were appended since the last sync.
    pub fn unsynced_bytes(&self) -> u64 {
        self.opened().map_or(0, |open| open.state().unsynced_bytes())
    }

    /// Makes everything that was appended durable. May run at the same time as `append`.
    pub fn sync(&self) -> io::Result<()> {
        self.opened()?.sync()
    }

    /// Syncs, and releases the directory. Later calls fail; reads too.
    pub fn close(&self) -> io::Result<()> {
        let open = self.opened()?;
        let result = open.sync().and_then(|()| open.note_write());
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
        result
    }

    // ---- maintenance: another thread ----

    /// Compresses the oldest closed raw segments. False: there is nothing to compress yet.
    pub fn seal_next(&self) -> io::Result<bool> {
        self.opened()?.seal_next()
    }

    /// Removes what is too old or too much: oldest ended processes first, then the oldest bytes of running ones.
    pub fn enforce_limits(&self, now_ms: u64) -> io::Result<()> {
        self.opened()?.enforce_limits(now_ms)
    }

    /// Does the part of [`Self::enforce_limits`] about bytes, if they are near a limit.
    pub fn enforce_size_limits(&self) -> io::Result<()> {
        self.opened()?.enforce_size_limits()
    }

    /// Removes the bytes of deleted records from the disk. False: there was nothing to remove.
    pub fn purge(&self) -> io::Result<bool> {
        self.opened()?.purge()
    }

    // ---- any thread ----

    /// Deletes a record, its output and its children. Nothing of it can be read once this returns; `purge` removes the
    /// bytes. False: there is no such record, and no output of such a process.
    pub fn delete(&self, kind: RecordKind, id: &str) -> io::Result<bool> {
        self.opened()?.delete(kind, id)
    }

    /// As [`Self::delete`], for something whose first record or output may be about to be written: it is ignored then.
    pub fn delete_live(&self, kind: RecordKind, id: &str) -> io::Result<bool> {
        self.opened()?.delete_live(kind, id)
    }

    /// The stored range of a process; shared with its readers.
    pub fn span(&self, process: &str) -> io::Result<Arc<Span>> {
        self.opened()?.span(process)
    }

    /// The block that contains the byte at `offset`, or else the first one after it: the bytes in between are gone.
    pub fn block_at(&self, process: &str, offset: u64) -> io::Result<Option<Arc<Block>>> {
        self.opened()?.block_at(process, offset)
    }

    /// The block that contains the first byte of the chunk with mark `number` (sequence - 1), or else the first block
    /// that contains the first byte of a later chunk.
    pub fn block_with_mark(&self, process: &str, number: u64) -> io::Result<Option<Arc<Block>>> {
        self.opened()?.block_with_mark(process, number)
    }

    pub fn record(&self, kind: RecordKind, id: &str) -> io::Result<Option<Record>> {
        self.opened()?.index.read(|view| view.record(kind, id))
    }

    /// Records by creation time.
    pub fn records(&self, filter: &RecordFilter) -> io::Result<Vec<Record>> {
        self.opened()?.index.read(|view| view.records(filter))
    }

    /// All boots, oldest first.
    pub fn boots(&self) -> io::Result<Vec<Boot>> {
        self.opened()?.index.read(index::View::boots)
    }

    pub fn usage(&self) -> Usage {
        self.opened().map_or_else(|_| Usage::default(), |open| open.usage())
    }
}

impl OpenStore {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Bytes on disk.
    fn used_bytes(&self) -> u64 {
        self.state().segment_bytes() + self.index.allocated_bytes()
    }

    fn usage(&self) -> Usage {
        // A list that cannot be read now is no reason to fail: the next call may succeed.
        let processes = self.index.read(index::View::process_count).unwrap_or(0);
        let bytes = self.used_bytes();
        let state = self.state();
        let segments = (state.raws.len() + state.segments.len()) as u64;
        Usage { bytes, segments, processes, unsynced_bytes: state.unsynced_bytes() }
    }

    /// The change that notes the time of a write.
    fn boot_change(&self) -> Change {
        Change::PutBoot(Boot { last_write_at_ms: now_ms().max(self.boot.last_write_at_ms), ..self.boot.clone() })
    }

    fn note_write(&self) -> io::Result<()> {
        self.commit(&mut self.index.write(), &[self.boot_change()])
    }

    /// Commits to the index, and follows in memory.
    fn commit(&self, writer: &mut index::IndexWriter<'_>, changes: &[Change]) -> io::Result<()> {
        let result = writer.commit(changes);
        let mut state = self.state();
        if result.is_ok() {
            state.follow(changes);
        } else {
            (state.is_unsettled, state.has_stray_files) = (true, true);
        }
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether content is lost, and not only unreadable for now.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
