//! File systems for tests: a small disk that can be full or lose its power, a read-only directory, a tmpfs.
//!
//! Mounting needs root. Where that is missing, the constructors return `None` and the test is skipped with a line.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// A mounted file system. Dropping it unmounts it.
pub(crate) struct Mounted {
    path: PathBuf,
    /// The file that contains an ext4 file system.
    image: Option<PathBuf>,
    _directory: tempfile::TempDir,
}

impl Mounted {
    /// An ext4 file system of its own.
    pub(crate) fn ext4(bytes: u64) -> Option<Self> {
        let (directory, path) = mount_point();
        let image = directory.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
        let disk = Self { path, image: Some(image), _directory: directory };
        if made.is_ok_and(|status| status.success()) && disk.mount_image() {
            Some(disk)
        } else {
            skip("a loop device and mkfs.ext4");
            None
        }
    }

    /// A directory that exists and cannot be written to.
    pub(crate) fn read_only() -> Option<Self> {
        let (directory, path) = mount_point();
        let read_only = || -> rustix::io::Result<()> {
            mount_bind(&path, &path)?;
            mount_remount(&path, MountFlags::BIND | MountFlags::RDONLY, c"")
        };
        if read_only().is_err() {
            skip("a bind mount");
            return None;
        }
        Some(Self { path, image: None, _directory: directory })
    }

    pub(crate) fn tmpfs() -> Option<Self> {
        let (directory, path) = mount_point();
        if mount("tmpfs", &path, "tmpfs", MountFlags::empty(), c"size=16m").is_ok() {
            Some(Self { path, image: None, _directory: directory })
        } else {
            skip("a tmpfs");
            None
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the file system up to the last `left` bytes. Returns the file; removing it makes room again.
    pub(crate) fn fill(&self, left: u64) -> PathBuf {
        let status = rustix::fs::statvfs(&self.path).unwrap();
        let free = status.f_bavail * status.f_frsize;
        let filler = self.path.join("filler");
        let file = std::fs::File::create(&filler).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free.saturating_sub(left)).unwrap();
        filler
    }

    /// Everything that was not synced is gone, as after a power loss: the file system stops without writing anything
    /// more, and is mounted again.
    pub(crate) fn lose_power(&self) {
        // EXT4_IOC_SHUTDOWN with NOLOGFLUSH.
        const SHUTDOWN: &str = "import fcntl, os, struct, sys; \
                                fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
        let status = Command::new("python3").args(["-c", SHUTDOWN]).arg(&self.path).status().unwrap();
        assert!(status.success(), "the file system cannot be shut down");
    }

    /// Mounts it again after [`Self::lose_power`] and the end of everything that used it.
    pub(crate) fn restore_power(&self) {
        crate::harness::eventually("the file system is unused", || unmount(&self.path, UnmountFlags::empty()).ok());
        assert!(self.mount_image(), "cannot mount it again");
    }

    fn mount_image(&self) -> bool {
        let Some(image) = &self.image else { return false };
        let mut command = Command::new("mount");
        command.args(["-o", "loop"]).arg(image).arg(&self.path);
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn mount_point() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("mounted");
    std::fs::create_dir(&path).unwrap();
    (directory, path)
}

fn skip(missing: &str) {
    println!("skipped: cannot create {missing} here");
}
