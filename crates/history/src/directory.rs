//! The directory of a store on a real file system: opening it safely, locking it, and the limits that fit it.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::Limits;
use crate::disk::{Disk, RealDisk};

const MIB: u64 = 1024 * 1024;
const MAX_TOTAL_BYTES: u64 = 2048 * MIB;
const MAX_OVERLAY_BYTES: u64 = 256 * MIB;
const MAX_PROCESS_BYTES: u64 = 256 * MIB;
const MAX_FILE_SYSTEM_PERCENT: u64 = 5;
const MAX_AGE_MS: u64 = 7 * 24 * 60 * 60 * 1000;
const MIN_FREE_BYTES: std::ops::RangeInclusive<u64> = 16 * MIB..=256 * MIB;
const MIN_FREE_PERCENT: u64 = 1;

const LOCK_FILE: &str = "lock";

// From linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

/// A directory that this process has locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    lock: OwnedFd,
    file_system: FileSystem,
    file_system_bytes: u64,
}

/// What matters about the kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Its files do not survive the machine.
    Memory,
    /// The writable layer of a container: usually small, and shared with the image.
    Overlay,
    Other,
}

/// Why a directory cannot be used. Each has a code for programs and a sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("history directory {0} is used by another server; choose another one with --history DIR")]
    Locked(PathBuf),
    #[error("history directory {0} belongs to user {1}; choose a directory of your own with --history DIR")]
    NotOwned(PathBuf, u32),
    #[error("history directory {0} is a symbolic link; name the directory that it points to with --history DIR")]
    IsLink(PathBuf),
    #[error("history directory {0} is not a directory; choose another path with --history DIR")]
    NotADirectory(PathBuf),
    #[error("history directory {0} has other files and is open to others; choose an empty one with --history DIR")]
    NotAHistory(PathBuf),
    #[error("history directory {0} is on a read-only file system; choose a writable one with --history DIR")]
    ReadOnly(PathBuf),
    #[error(
        "cannot write to history directory {0}: permission denied; choose a directory of your own with --history DIR"
    )]
    NotPermitted(PathBuf),
    #[error(
        "history directory {0} is on a file system in memory (tmpfs); choose a directory on a disk with --history DIR"
    )]
    OnTmpfs(PathBuf),
    #[error("cannot create history directory {0}: no space is left on its file system")]
    Full(PathBuf),
    #[error("cannot open history directory {0}: {1}")]
    Unusable(PathBuf, io::Error),
}

impl DirectoryError {
    /// Stable short name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Locked(_) => "history_directory_locked",
            Self::NotOwned(..) => "history_directory_not_owned",
            Self::IsLink(_) => "history_directory_is_link",
            Self::NotADirectory(_) => "history_directory_not_a_directory",
            Self::NotAHistory(_) => "history_directory_not_a_history",
            Self::ReadOnly(_) => "history_directory_read_only",
            Self::NotPermitted(_) => "history_directory_not_permitted",
            Self::OnTmpfs(_) => "history_directory_on_tmpfs",
            Self::Full(_) => "history_directory_full",
            Self::Unusable(..) => "history_directory_unusable",
        }
    }

    fn from_io(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            io::ErrorKind::PermissionDenied => Self::NotPermitted(path),
            io::ErrorKind::NotADirectory => Self::NotADirectory(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            _ => Self::Unusable(path, error),
        }
    }
}

impl Directory {
    /// Opens or creates the directory (mode 0700) without following a link in its last component, and locks it. Missing
    /// parents are created. Nothing is created on a file system in memory.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        // Without this, a `/` at the end would follow a link.
        let path: PathBuf = path.components().collect();
        if !matches!(path.components().next_back(), Some(Component::Normal(_))) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with a name");
            return Err(DirectoryError::Unusable(path, error));
        }
        let fail = |error: io::Error| DirectoryError::from_io(&path, error);
        if nearest_file_system(&path).map_err(fail)? == FileSystem::Memory {
            return Err(DirectoryError::OnTmpfs(path));
        }
        let descriptor = open_or_create(&path)?;
        let status = fs::fstat(&descriptor).map_err(|error| fail(error.into()))?;
        make_private(&path, &descriptor, &status)?;
        let file_system = file_system_of(&fs::fstatfs(&descriptor).map_err(|error| fail(error.into()))?);
        if file_system == FileSystem::Memory {
            return Err(DirectoryError::OnTmpfs(path));
        }
        let size = fs::fstatvfs(&descriptor).map_err(|error| fail(error.into()))?;
        let lock = lock(&path, &descriptor)?;
        let file_system_bytes = size.f_blocks.saturating_mul(size.f_frsize);
        Ok(Self { path, descriptor, lock, file_system, file_system_bytes })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file_system(&self) -> FileSystem {
        self.file_system
    }

    /// Limits by the size and kind of the file system.
    pub fn default_limits(&self) -> Limits {
        limits_for(self.file_system, self.file_system_bytes)
    }

    /// The lock is released with the disk.
    pub fn into_disk(self) -> Box<dyn Disk> {
        Box::new(RealDisk::new(self.descriptor, Some(self.lock)))
    }
}

fn limits_for(file_system: FileSystem, file_system_bytes: u64) -> Limits {
    let share = file_system_bytes / 100;
    let most = if file_system == FileSystem::Overlay { MAX_OVERLAY_BYTES } else { MAX_TOTAL_BYTES };
    let max_bytes = most.min(share * MAX_FILE_SYSTEM_PERCENT);
    Limits {
        max_bytes,
        // One flooding process must not remove the output of all others.
        max_process_bytes: MAX_PROCESS_BYTES.min(max_bytes / 2),
        max_age_ms: MAX_AGE_MS,
        min_free_bytes: (share * MIN_FREE_PERCENT).clamp(*MIN_FREE_BYTES.start(), *MIN_FREE_BYTES.end()),
    }
}

fn file_system_of(status: &fs::StatFs) -> FileSystem {
    match status.f_type as u64 {
        TMPFS_MAGIC | RAMFS_MAGIC => FileSystem::Memory,
        OVERLAYFS_MAGIC => FileSystem::Overlay,
        _ => FileSystem::Other,
    }
}

/// The file system of the directory, or of the nearest parent that exists.
fn nearest_file_system(path: &Path) -> io::Result<FileSystem> {
    for ancestor in path.ancestors() {
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        match fs::statfs(ancestor) {
            Ok(status) => return Ok(file_system_of(&status)),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(FileSystem::Other)
}

fn open_or_create(path: &Path) -> Result<OwnedFd, DirectoryError> {
    let fail = |error: io::Error| DirectoryError::from_io(path, error);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(fail)?;
    }
    match fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR if is_link(path) => DirectoryError::IsLink(path.to_owned()),
        error => fail(error.into()),
    })
}

fn is_link(path: &Path) -> bool {
    fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// Refuses a directory that others may enter and that has files of something else: it would be closed to them.
fn check_content(path: &Path, descriptor: &OwnedFd) -> Result<(), DirectoryError> {
    let fail = |error: Errno| DirectoryError::from_io(path, error.into());
    let names =
        fs::Dir::read_from(descriptor).map_err(fail)?.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let names = names.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    let is_ours = names.iter().any(|name| name.to_bytes() == LOCK_FILE.as_bytes());
    // A new file system has the last one.
    let is_empty = names.iter().all(|name| [&b"."[..], b"..", b"lost+found"].contains(&name.to_bytes()));
    if is_ours || is_empty { Ok(()) } else { Err(DirectoryError::NotAHistory(path.to_owned())) }
}

/// Checks the owner and removes access of group and others.
fn make_private(path: &Path, descriptor: &OwnedFd, status: &Stat) -> Result<(), DirectoryError> {
    if status.st_uid != rustix::process::geteuid().as_raw() {
        return Err(DirectoryError::NotOwned(path.to_owned(), status.st_uid));
    }
    if Mode::from_raw_mode(status.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
        check_content(path, descriptor)?;
        fs::fchmod(descriptor, Mode::RWXU).map_err(|error| DirectoryError::from_io(path, error.into()))?;
    }
    Ok(())
}

fn lock(path: &Path, descriptor: &OwnedFd) -> Result<OwnedFd, DirectoryError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = fs::openat(descriptor, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| DirectoryError::from_io(path, error.into()))?;
    match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(DirectoryError::Locked(path.to_owned())),
        Err(error) => Err(DirectoryError::from_io(path, error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_least_of_two_gib_and_five_percent() {
        assert_eq!(limits_for(FileSystem::Other, 1 << 40).max_bytes, MAX_TOTAL_BYTES);
        assert_eq!(limits_for(FileSystem::Other, 1000 * MIB).max_bytes, 50 * MIB);
        assert_eq!(limits_for(FileSystem::Overlay, 1 << 40).max_bytes, MAX_OVERLAY_BYTES);
        assert_eq!(limits_for(FileSystem::Overlay, 1000 * MIB).max_bytes, 50 * MIB);
    }

    #[test]
    fn a_process_may_not_have_more_than_half_of_the_total() {
        let limits = limits_for(FileSystem::Other, 1000 * MIB);
        assert_eq!(limits.max_process_bytes, limits.max_bytes / 2);
        assert_eq!(limits_for(FileSystem::Other, 1 << 40).max_process_bytes, MAX_PROCESS_BYTES);
    }
}
