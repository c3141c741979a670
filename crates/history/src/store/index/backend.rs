//! The file of the index as redb's storage.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use redb::StorageBackend;

use crate::disk::DiskFile;

/// What the owner of a database keeps of its storage.
#[derive(Default)]
pub(super) struct BackendControl {
    written_bytes: AtomicU64,
    is_sync_failed: AtomicBool,
    /// Read-locked during each access of the file, so that a change waits for those under way.
    access: RwLock<Access>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    #[default]
    ReadWrite,
    /// The file was replaced. Readers of the old one may finish.
    ReadOnly,
    /// The file is about to be opened again. It must not change under the new database, nor may a reader of this one see
    /// pages that the new one has reused.
    Detached,
}

impl BackendControl {
    /// Bytes that were written through it.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Whether a sync has failed: what the file contains may not be durable.
    pub(super) fn is_sync_failed(&self) -> bool {
        self.is_sync_failed.load(Ordering::Relaxed)
    }

    /// Refuses writes.
    pub(super) fn make_read_only(&self) {
        self.restrict(Access::ReadOnly);
    }

    /// Refuses everything.
    pub(super) fn detach(&self) {
        self.restrict(Access::Detached);
    }

    fn restrict(&self, to: Access) {
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        *access = to.max(*access);
    }

    /// Fails if the access is more restricted than `most`.
    fn begin(&self, most: Access) -> io::Result<RwLockReadGuard<'_, Access>> {
        let access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        if *access > most { Err(io::Error::other("the index was replaced or reopened")) } else { Ok(access) }
    }

    fn begin_read(&self) -> io::Result<RwLockReadGuard<'_, Access>> {
        self.begin(Access::ReadOnly)
    }

    fn begin_write(&self) -> io::Result<RwLockReadGuard<'_, Access>> {
        self.begin(Access::ReadWrite)
    }
}

pub(super) struct Backend {
    file: Arc<dyn DiskFile>,
    control: Arc<BackendControl>,
}

impl Backend {
    pub(super) fn new(file: Arc<dyn DiskFile>, control: Arc<BackendControl>) -> Self {
        Self { file, control }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let _access = self.control.begin_read()?;
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _access = self.control.begin_write()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let _access = self.control.begin_write()?;
        self.file.sync().inspect_err(|_| self.control.is_sync_failed.store(true, Ordering::Relaxed))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _access = self.control.begin_write()?;
        self.control.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(data, offset)
    }
}
