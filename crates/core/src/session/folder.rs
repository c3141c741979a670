//! The private folder of a session: command files and the named pipes of the commands that run.
//!
//! In the folder for temporary files, below one that only our user may enter. A command's files go when it has ended, a
//! session's folder when it is deleted, and the whole when outlive stops.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid};

/// As the pipes of ordinary processes: more slack for a program, and what the reserve of a log is made for.
const PIPE_BYTES: usize = 256 * 1024;

/// What there is per command, beside the command itself.
const SUFFIXES: [&str; 6] = ["", ".out", ".err", ".in", ".pre", ".post"];

#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Who has to be able to use it, if not we ourselves.
    owner: Option<(u32, u32)>,
}

/// Where the folders of all sessions are.
pub(super) fn root(boot_id: u64) -> PathBuf {
    std::env::temp_dir().join(format!("outlive-{boot_id:016x}"))
}

impl Folder {
    pub(super) fn of(boot_id: u64, session: &str, owner: Option<(u32, u32)>) -> Self {
        Self { path: root(boot_id).join(session), owner }
    }

    pub(super) fn make(&self) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(Path::new("/"));
        // Others must pass through it only if one of them is to use a folder below.
        let mode = if self.owner.is_some() { 0o711 } else { 0o700 };
        make_private(root, mode)?;
        make_private(&self.path, 0o700)?;
        self.give(&self.path)
    }

    pub(super) fn file(&self, exec: &str, suffix: &str) -> PathBuf {
        self.path.join(format!("{exec}{suffix}"))
    }

    pub(super) fn write(&self, exec: &str, suffix: &str, parts: &[&[u8]]) -> io::Result<()> {
        let path = self.file(exec, suffix);
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        for part in parts {
            file.write_all(part)?;
        }
        self.give(&path)
    }

    /// Makes the pipes of a command and opens our ends. Never waits for the other side.
    pub(super) fn open_sinks(&self, exec: &str) -> io::Result<(OwnedFd, OwnedFd)> {
        let open = |suffix: &str| -> io::Result<OwnedFd> {
            let path = self.file(exec, suffix);
            // Left by a server that died before it could use it.
            let _ = std::fs::remove_file(&path);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600))?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let fd = rustix::fs::open(&path, flags, Mode::empty())?;
            let _ = rustix::pipe::fcntl_setpipe_size(&fd, PIPE_BYTES);
            self.give(&path)?;
            Ok(fd)
        };
        Ok((open(".out")?, open(".err")?))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Removes what belongs to a command.
    pub(super) fn clear(&self, exec: &str) {
        for suffix in SUFFIXES {
            let _ = std::fs::remove_file(self.file(exec, suffix));
        }
    }

    /// Removes what a process that was started from the session has read.
    pub(super) fn clear_start(&self, name: &str) {
        for suffix in [".state", ".command", ".start"] {
            let _ = std::fs::remove_file(self.file(name, suffix));
        }
    }

    pub(super) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
        if let Some(root) = self.path.parent() {
            // Only if it was the last one.
            let _ = std::fs::remove_dir(root);
        }
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        Ok(rustix::fs::chown(path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }
}

/// Makes a folder, or finds it as we made it: nobody may have put another in its place.
fn make_private(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = std::fs::symlink_metadata(path)?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    let closed = found.mode() & 0o066 == 0;
    if ours && closed {
        let wanted = (found.mode() | mode) & 0o777;
        return std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(wanted));
    }
    // The folder of a session under another user: made by us, but given away.
    if found.is_dir() && found.mode().trailing_zeros() >= 6 && rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let text = format!("{} is not a folder of ours that is closed to others", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// A word that a shell reads as exactly these bytes.
pub(super) fn quoted(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A path must be one that a control line can carry.
pub(super) fn is_plain(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok() && path.to_str().is_some_and(|text| !text.contains('\n'))
}
