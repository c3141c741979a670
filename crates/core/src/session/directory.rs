//! Private directories: command files and named pipes of running execs.
//!
//! All of them are below one root in the directory for temporary files. Only our user may enter the root, until a
//! session runs as another user: from then on others may traverse it (mode 0711), but not list it. An exec's files are
//! removed when it ends, a session's directory when the session is deleted, the root when outlive stops.
//!
//! A directory may belong to a less privileged user, so its content is not trusted: files are never reused but always created, and
//! nothing is removed below a root that other users could have replaced by a symlink.

use std::ffi::CString;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use outlive_holder::OUTPUT_PIPE_BYTES;
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};

/// Suffixes of all files of an exec; the command itself has none.
const EXEC_FILE_SUFFIXES: [&str; 6] = ["", ".out", ".err", ".in", ".pre", ".post"];

#[derive(Clone, Debug)]
pub(super) struct PrivateDirectory {
    path: PathBuf,
    /// User and group that must be able to use it, if it is not our user.
    owner: Option<(u32, u32)>,
}

/// Parent of all private directories.
pub(super) fn root_path(boot_id: u64) -> PathBuf {
    std::env::temp_dir().join(format!("outlive-{boot_id:016x}"))
}

pub(super) fn create_root(boot_id: u64) -> io::Result<PathBuf> {
    let root = root_path(boot_id);
    ensure_private_dir(&root, 0o700, None)?;
    Ok(root)
}

pub(super) fn remove_root(boot_id: u64) {
    let _ = std::fs::remove_dir_all(root_path(boot_id));
}

impl PrivateDirectory {
    /// `name` is a session id, or a name that cannot be one. Creates nothing.
    pub(super) fn new(boot_id: u64, name: &str, owner: Option<(u32, u32)>) -> Self {
        Self { path: root_path(boot_id).join(name), owner }
    }

    pub(super) fn create(&self) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(Path::new("/"));
        // Other users need to traverse the root only if one of them uses a directory below it.
        let mode = if self.owner.is_some() { 0o711 } else { 0o700 };
        ensure_private_dir(root, mode, None)?;
        ensure_private_dir(&self.path, 0o700, self.owner.map(|(uid, _)| uid))?;
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        // By path is safe: only our user can change the entries of the root.
        Ok(rustix::fs::chown(&self.path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    pub(super) fn file_path(&self, name: &str, suffix: &str) -> PathBuf {
        self.path.join(format!("{name}{suffix}"))
    }

    /// Always creates a new file: the owner of the directory may be less privileged than we are, and may have put a
    /// symlink to another user's file in its place.
    pub(super) fn write_file(&self, name: &str, suffix: &str, parts: &[&[u8]]) -> io::Result<()> {
        let path = self.file_path(name, suffix);
        // A server that died before it used the file has left it.
        let _ = std::fs::remove_file(&path);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        for part in parts {
            file.write_all(part)?;
        }
        self.chown_to_owner(&file)
    }

    /// Creates the output pipes of an exec and opens their read ends. Never waits for a writer.
    pub(super) fn create_output_pipes(&self, exec: &str) -> io::Result<(OwnedFd, OwnedFd)> {
        let create = |suffix: &str| -> io::Result<OwnedFd> {
            let path = self.file_path(exec, suffix);
            // A server that died before it used the pipe has left it.
            let _ = std::fs::remove_file(&path);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600))?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let fd = rustix::fs::open(&path, flags, Mode::empty())?;
            let is_pipe = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::Fifo;
            if !is_pipe {
                return Err(io::Error::other("a pipe of the session was replaced by another file"));
            }
            let _ = rustix::pipe::fcntl_setpipe_size(&fd, OUTPUT_PIPE_BYTES);
            self.chown_to_owner(&fd)?;
            Ok(fd)
        };
        Ok((create(".out")?, create(".err")?))
    }

    pub(super) fn rename_file(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    pub(super) fn remove_exec_files(&self, exec: &str) {
        if !self.is_root_trusted() {
            return;
        }
        for suffix in EXEC_FILE_SUFFIXES {
            let _ = std::fs::remove_file(self.file_path(exec, suffix));
        }
    }

    /// The root stays until outlive stops: its name is public by now, and another user could take it.
    pub(super) fn remove(&self) {
        if self.is_root_trusted() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// False if other users could have replaced the root, for example by a symlink.
    fn is_root_trusted(&self) -> bool {
        let root = self.path.parent().and_then(|root| std::fs::symlink_metadata(root).ok());
        root.is_some_and(|root| is_private_dir(&root) && is_owned_by_us(&root))
    }

    fn chown_to_owner(&self, file: impl AsFd) -> io::Result<()> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        Ok(rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }
}

fn is_owned_by_us(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Whether other users can neither list the directory nor change its entries.
fn is_private_dir(metadata: &Metadata) -> bool {
    metadata.is_dir() && metadata.mode() & 0o066 == 0
}

/// Creates a directory. An existing one is accepted only if it is as we create it: private, and owned by us or by
/// `owner_uid`, to which we change it after its creation.
fn ensure_private_dir(path: &Path, mode: u32, owner_uid: Option<u32>) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    let metadata = std::fs::symlink_metadata(path)?;
    if is_private_dir(&metadata) && is_owned_by_us(&metadata) {
        // Overrides our umask, and keeps the permission to traverse that an earlier caller needed.
        let mode = (metadata.mode() | mode) & 0o777;
        return std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    }
    if is_private_dir(&metadata) && owner_uid == Some(metadata.uid()) {
        return Ok(());
    }
    let text = format!("{} exists and is not a private directory of this user; remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Whether a control line can contain the path.
pub(super) fn fits_control_line(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok() && path.to_str().is_some_and(|text| !text.contains('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symlinks_in_place_of_command_files_are_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory { path: scratch.path().join("root/session"), owner: None };
        directory.create().unwrap();
        let victim = scratch.path().join("victim");
        std::fs::write(&victim, "unchanged").unwrap();
        for suffix in ["", ".in", ".out", ".err"] {
            std::os::unix::fs::symlink(&victim, directory.file_path("exec_1", suffix)).unwrap();
        }
        directory.write_file("exec_1", "", &[b"echo"]).unwrap();
        directory.create_output_pipes("exec_1").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "unchanged");
        assert_eq!(std::fs::read_to_string(directory.file_path("exec_1", "")).unwrap(), "echo");
        directory.remove();
        assert!(!scratch.path().join("root/session").exists());
    }

    #[test]
    fn a_directory_that_others_can_write_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("root");
        std::fs::DirBuilder::new().mode(0o777).create(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let directory = PrivateDirectory { path: path.join("session"), owner: None };
        assert_eq!(directory.create().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    // Regression: a symlink in place of the root led the removal to another user's directory.
    #[test]
    fn nothing_is_removed_below_an_untrusted_root() {
        let scratch = tempfile::tempdir().unwrap();
        let victim = scratch.path().join("victim/work");
        std::fs::create_dir_all(&victim).unwrap();
        std::fs::write(victim.join("exec_1.out"), "unchanged").unwrap();
        let root = scratch.path().join("root");
        std::os::unix::fs::symlink(scratch.path().join("victim"), &root).unwrap();
        let directory = PrivateDirectory { path: root.join("work"), owner: None };
        assert!(directory.create().is_err());
        directory.remove_exec_files("exec_1");
        directory.remove();
        assert!(victim.join("exec_1.out").exists());
        std::fs::remove_file(&root).unwrap();
        directory.create().unwrap();
        directory.remove();
        assert!(root.exists() && !root.join("work").exists(), "the root stays");
    }
}
