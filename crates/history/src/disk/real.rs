//! A directory of the file system. Everything is relative to its descriptor, so that nothing that happens to its path
//! later redirects a write.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};

use super::{Disk, DiskFile};

/// Unit of `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;

pub struct RealDisk {
    directory: OwnedFd,
    /// Its lock ends when it is closed.
    _lock: Option<OwnedFd>,
}

impl RealDisk {
    /// `lock` is kept open as long as the disk.
    pub fn new(directory: OwnedFd, lock: Option<OwnedFd>) -> Self {
        Self { directory, _lock: lock }
    }
}

/// Refuses what another user may have placed in the directory before it was private.
fn check_own_file(file: &OwnedFd, name: &str) -> io::Result<()> {
    let status = fs::fstat(file)?;
    let is_regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if is_regular && status.st_nlink <= 1 && status.st_uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let message = format!("{name} is not a file of this history; move it away");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

impl Disk for RealDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::CREATE | OFlags::EXCL, create);
        // NONBLOCK: another user may have placed a FIFO there before the directory was private.
        let file = fs::openat(&self.directory, name, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?;
        check_own_file(&file, name)?;
        Ok(Box::new(RealFile(file.into())))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.directory, from, &self.directory, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            // No file of a store has such a name.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.directory)?)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let status = fs::fstatvfs(&self.directory)?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks() * STAT_BLOCK_BYTES)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
