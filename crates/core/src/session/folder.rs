//! The private folder of a session: command files and the named pipes of the commands that run.
//!
//! In the folder for temporary files, below one that only our user may enter. A command's files go when it has ended, a
//! session's folder when it is deleted, and the whole when outlive stops.

use std::ffi::CString;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};

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

/// The root, made if it is not there yet.
pub(super) fn make_root(boot_id: u64) -> io::Result<PathBuf> {
    let root = root(boot_id);
    make_private(&root, 0o700, None)?;
    Ok(root)
}

impl Folder {
    pub(super) fn of(boot_id: u64, session: &str, owner: Option<(u32, u32)>) -> Self {
        Self { path: root(boot_id).join(session), owner }
    }

    pub(super) fn make(&self) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(Path::new("/"));
        // Others must pass through it only if one of them is to use a folder below.
        let mode = if self.owner.is_some() { 0o711 } else { 0o700 };
        let made = || {
            make_private(root, mode, None)
                .and_then(|()| make_private(&self.path, 0o700, self.owner.map(|(uid, _)| uid)))
        };
        made()?;
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        // Nobody but us can change what is in the root.
        Ok(rustix::fs::chown(&self.path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    pub(super) fn file(&self, exec: &str, suffix: &str) -> PathBuf {
        self.path.join(format!("{exec}{suffix}"))
    }

    /// Always a new file: the folder may be of a user who is less than we are, and who has put a link to another's file
    /// in its place.
    pub(super) fn write(&self, exec: &str, suffix: &str, parts: &[&[u8]]) -> io::Result<()> {
        let path = self.file(exec, suffix);
        // Left by a server that died before it could use it.
        let _ = std::fs::remove_file(&path);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        for part in parts {
            file.write_all(part)?;
        }
        self.give(&file)
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
            let is_pipe = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::Fifo;
            if !is_pipe {
                return Err(io::Error::other("somebody has put another file in the place of a pipe"));
            }
            let _ = rustix::pipe::fcntl_setpipe_size(&fd, PIPE_BYTES);
            self.give(&fd)?;
            Ok(fd)
        };
        Ok((open(".out")?, open(".err")?))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Removes what belongs to a command.
    pub(super) fn clear(&self, exec: &str) {
        if !self.is_in_our_root() {
            return;
        }
        for suffix in SUFFIXES {
            let _ = std::fs::remove_file(self.file(exec, suffix));
        }
    }

    /// The root stays until outlive stops: its name is known by now, and somebody else could take it.
    pub(super) fn remove(&self) {
        if self.is_in_our_root() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// Where others can put a link in our way, nothing is removed.
    fn is_in_our_root(&self) -> bool {
        let root = self.path.parent().and_then(|root| std::fs::symlink_metadata(root).ok());
        root.is_some_and(|root| is_closed(&root) && is_ours(&root))
    }

    fn give(&self, file: impl AsFd) -> io::Result<()> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        Ok(rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

/// A folder in which others can neither look nor change anything.
fn is_closed(found: &Metadata) -> bool {
    found.is_dir() && found.mode() & 0o066 == 0
}

/// Makes a folder, or finds it as we made it: nobody may have put another in its place. One for another user is given
/// away by us after it was made.
fn make_private(path: &Path, mode: u32, given_to: Option<u32>) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    let found = std::fs::symlink_metadata(path)?;
    if is_closed(&found) && is_ours(&found) {
        // Whatever our umask is, and whoever had to pass through it until now.
        let wanted = (found.mode() | mode) & 0o777;
        return std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(wanted));
    }
    if is_closed(&found) && given_to == Some(found.uid()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_command_file_led_to_anothers_file() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder { path: scratch.path().join("root/session"), owner: None };
        folder.make().unwrap();
        let precious = scratch.path().join("precious");
        std::fs::write(&precious, "kept").unwrap();
        for suffix in ["", ".in", ".out", ".err"] {
            std::os::unix::fs::symlink(&precious, folder.file("exec_1", suffix)).unwrap();
        }
        folder.write("exec_1", "", &[b"echo"]).unwrap();
        folder.open_sinks("exec_1").unwrap();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "kept");
        assert_eq!(std::fs::read_to_string(folder.file("exec_1", "")).unwrap(), "echo");
        folder.remove();
        assert!(!scratch.path().join("root/session").exists());
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("root");
        std::fs::DirBuilder::new().mode(0o777).create(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let folder = Folder { path: path.join("session"), owner: None };
        assert_eq!(folder.make().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    /// A link in the place of the root led the removal to other people's folders.
    #[test]
    fn nothing_is_removed_where_others_can_put_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim/work");
        std::fs::create_dir_all(&victim).unwrap();
        std::fs::write(victim.join("exec_1.out"), "precious").unwrap();
        let root = dir.path().join("root");
        std::os::unix::fs::symlink(dir.path().join("victim"), &root).unwrap();
        let folder = Folder { path: root.join("work"), owner: None };
        assert!(folder.make().is_err());
        folder.clear("exec_1");
        folder.remove();
        assert!(victim.join("exec_1.out").exists());
        std::fs::remove_file(&root).unwrap();
        folder.make().unwrap();
        folder.remove();
        assert!(root.exists() && !root.join("work").exists(), "the root stays");
    }
}
