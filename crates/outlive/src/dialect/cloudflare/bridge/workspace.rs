//! Access to the files below `/workspace` and to no others: the kernel resolves every path, and does not follow a link
//! out of it.
//!
//! Every function here waits for a file system, so call it on a blocking thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::super::directory::WORKSPACE;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// Nested directories. Each is opened from the root, so the time grows with the square of the depth.
const MAX_DEPTH: usize = 256;
/// openat2() fails with EAGAIN if a rename in the path happens at the same time.
const MAX_TRIES: u32 = 64;

pub(super) struct Workspace {
    root: OwnedFd,
}

/// Where an entry is created: an open directory, and the name in it.
pub(super) struct Destination {
    pub(super) directory: OwnedFd,
    pub(super) name: PathBuf,
}

impl Workspace {
    /// Opens `/workspace`, and creates it if it is missing.
    pub(super) fn open() -> io::Result<Self> {
        match std::fs::create_dir(WORKSPACE) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Self::at(Path::new(WORKSPACE))
    }

    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens a relative `path` without `..`.
    pub(super) fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_TRIES {
            match rustix::fs::openat2(&self.root, path, flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // An old kernel, or a seccomp filter that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return self.open_by_component(path, flags, mode),
                opened => return Ok(opened?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The same without openat2(): opens one component after the other and follows no link at all.
    fn open_by_component(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let step_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = rustix::fs::openat(&self.root, ".", step_flags, Mode::empty())?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let name = match name {
                Component::Normal(name) => name,
                Component::CurDir => std::ffi::OsStr::new("."),
                _ => return Err(Errno::XDEV.into()),
            };
            if names.peek().is_none() {
                return Ok(rustix::fs::openat(&directory, name, flags | OFlags::NOFOLLOW, mode)?);
            }
            directory = rustix::fs::openat(&directory, name, step_flags, Mode::empty())?;
        }
        Err(Errno::INVAL.into())
    }

    /// Opens a regular file and returns its size. Reading a pipe or a device could block forever.
    pub(super) fn read(&self, path: &Path) -> io::Result<(File, u64)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_at(path, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok((file, metadata.len()))
    }

    /// Creates or truncates a file, and creates the directories above it.
    pub(super) fn write(&self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.create_directories(parent)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_at(path, flags, FILE_MODE)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        file.set_len(0)?;
        Ok(file)
    }

    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Opens the directory at `path`, and creates it and those above it if they are missing.
    pub(super) fn create_directories(&self, path: &Path) -> io::Result<OwnedFd> {
        if path.components().count() > MAX_DEPTH {
            let message = format!("the path has more than {MAX_DEPTH} directories");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // Most often it exists.
        if let Ok(directory) = self.directory(path) {
            return Ok(directory);
        }
        let mut at = PathBuf::new();
        for name in path.components() {
            let parent = self.directory(&at)?;
            at.push(name);
            match rustix::fs::mkdirat(&parent, name.as_os_str(), DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.directory(path)
    }

    /// The destination for an entry at `path`. Creates the directories above it.
    pub(super) fn destination(&self, path: &Path) -> io::Result<Destination> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
        Ok(Destination { directory: self.create_directories(parent)?, name: name.into() })
    }
}

impl Destination {
    /// Removes an existing entry, unless it is a directory, so that nothing is written through a link.
    pub(super) fn clear(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(self.directory.as_fd(), &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn create_file(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.directory, &self.name, flags, FILE_MODE)?))
    }
}

/// `/workspace/a/b` becomes `a/b`.
pub(super) fn relative_to_workspace(path: &str) -> PathBuf {
    path.strip_prefix(WORKSPACE).unwrap_or(path).trim_matches('/').into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn read_text(workspace: &Workspace, path: &str) -> io::Result<String> {
        let mut text = String::new();
        workspace.read(Path::new(path))?.0.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn links_out_of_the_workspace_are_not_followed() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::fs::write(inside.path().join("plain"), "plain").unwrap();
        symlink("plain", inside.path().join("to-plain")).unwrap();
        symlink(&secret, inside.path().join("to-secret")).unwrap();
        symlink(outside.path(), inside.path().join("to-outside")).unwrap();
        symlink("../../../../../../../../etc", inside.path().join("up")).unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        assert_eq!(read_text(&workspace, "plain").unwrap(), "plain");
        assert_eq!(read_text(&workspace, "to-plain").unwrap(), "plain");
        for path in ["to-secret", "to-outside/secret", "up/passwd", "../x"] {
            assert!(read_text(&workspace, path).is_err(), "{path}");
            assert!(workspace.write(Path::new(path)).is_err(), "{path}");
            assert!(workspace.open_by_component(Path::new(path), OFlags::RDONLY, Mode::empty()).is_err(), "{path}");
        }
        assert!(workspace.open_by_component(Path::new("plain"), OFlags::RDONLY, Mode::empty()).is_ok());
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert!(!outside.path().join("x").exists());
    }

    #[test]
    fn directories_are_created_and_only_regular_files_are_read() {
        let inside = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        workspace.write(Path::new("a/b/c")).unwrap().write_all(b"long text").unwrap();
        workspace.write(Path::new("a/b/c")).unwrap().write_all(b"short").unwrap();
        assert_eq!(read_text(&workspace, "a/b/c").unwrap(), "short");
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.path().join("pipe"), FILE_MODE).unwrap();
        for other in ["a", "pipe", "", "/dev/null"] {
            assert!(workspace.read(Path::new(other)).is_err(), "{other}");
        }
        assert_eq!(relative_to_workspace("/workspace/a/b"), Path::new("a/b"));
        assert_eq!(relative_to_workspace("/workspace"), Path::new(""));
    }

    // Regression: a path with thousands of directories kept a thread busy.
    #[test]
    fn the_depth_of_a_path_is_limited() {
        let inside = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        let deep = |depth| PathBuf::from("d/".repeat(depth)).join("file");
        workspace.write(&deep(MAX_DEPTH)).unwrap();
        assert_eq!(workspace.write(&deep(MAX_DEPTH + 1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(workspace.destination(&deep(MAX_DEPTH + 1)).is_err());
    }
}
