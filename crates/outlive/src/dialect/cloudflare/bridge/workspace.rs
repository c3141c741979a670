//! The files below `/workspace`, and none besides: every path is resolved by the kernel, which does not follow a link out of it.
//!
//! All of this waits for a file system, so it belongs on a thread that may.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::super::folder::WORKSPACE;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);
/// Folders above each other: each is found from the top, so many of them take long.
const MOST_DEPTH: usize = 256;
/// The kernel asks for another try when something was renamed meanwhile.
const MOST_TRIES: u32 = 64;

pub(super) struct Workspace {
    root: OwnedFd,
}

/// Where something is to be put: in this folder, by this name.
pub(super) struct Spot {
    pub(super) folder: OwnedFd,
    pub(super) name: PathBuf,
}

impl Workspace {
    /// Made if it is not there.
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

    /// Opens what `path` (relative, without `..`) leads to.
    pub(super) fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MOST_TRIES {
            match rustix::fs::openat2(&self.root, path, flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // An old kernel, or a sandbox around us that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return self.walk(path, flags, mode),
                opened => return Ok(opened?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The same without the kernel's help: step by step, following no link at all.
    fn walk(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = rustix::fs::openat(&self.root, ".", step, Mode::empty())?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let name = match name {
                Component::Normal(name) => name,
                Component::CurDir => std::ffi::OsStr::new("."),
                _ => return Err(Errno::XDEV.into()),
            };
            if names.peek().is_none() {
                return Ok(rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, mode)?);
            }
            folder = rustix::fs::openat(&folder, name, step, Mode::empty())?;
        }
        Err(Errno::INVAL.into())
    }

    /// A file that has bytes, and how many. Anything else would make its reader wait.
    pub(super) fn read(&self, path: &Path) -> io::Result<(File, u64)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_at(path, flags, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"));
        }
        Ok((file, about.len()))
    }

    /// A file that is there or is made, empty.
    pub(super) fn write(&self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.make_folders(parent)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_at(path, flags, FILE_MODE)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"));
        }
        file.set_len(0)?;
        Ok(file)
    }

    pub(super) fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// The folder at `path`, made with all above it as far as they are missing.
    pub(super) fn make_folders(&self, path: &Path) -> io::Result<OwnedFd> {
        if path.components().count() > MOST_DEPTH {
            let message = format!("a path has at most {MOST_DEPTH} folders");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // Mostly it is there.
        if let Ok(folder) = self.folder(path) {
            return Ok(folder);
        }
        let mut at = PathBuf::new();
        for name in path.components() {
            let above = self.folder(&at)?;
            at.push(name);
            match rustix::fs::mkdirat(&above, name.as_os_str(), FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.folder(path)
    }

    /// Where something called `path` goes; folders above it are made.
    pub(super) fn spot(&self, path: &Path) -> io::Result<Spot> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
        Ok(Spot { folder: self.make_folders(parent)?, name: name.into() })
    }
}

impl Spot {
    /// Takes away what is there, unless it is a folder: what comes in its place must not be written through a link.
    pub(super) fn clear(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(self.folder.as_fd(), &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn new_file(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, &self.name, flags, FILE_MODE)?))
    }
}

/// The part of a path below the workspace: `/workspace/a/b` is `a/b`.
pub(super) fn below(path: &str) -> PathBuf {
    path.strip_prefix(WORKSPACE).unwrap_or(path).trim_matches('/').into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(workspace: &Workspace, path: &str) -> io::Result<String> {
        let mut text = String::new();
        workspace.read(Path::new(path))?.0.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn links_lead_nowhere_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::fs::write(inside.path().join("plain"), "plain").unwrap();
        symlink("plain", inside.path().join("to-plain")).unwrap();
        symlink(&secret, inside.path().join("to-secret")).unwrap();
        symlink(outside.path(), inside.path().join("to-outside")).unwrap();
        symlink("../../../../../../../../etc", inside.path().join("up")).unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        assert_eq!(text(&workspace, "plain").unwrap(), "plain");
        assert_eq!(text(&workspace, "to-plain").unwrap(), "plain");
        for out in ["to-secret", "to-outside/secret", "up/passwd", "../x"] {
            assert!(text(&workspace, out).is_err(), "{out}");
            assert!(workspace.write(Path::new(out)).is_err(), "{out}");
            assert!(workspace.walk(Path::new(out), OFlags::RDONLY, Mode::empty()).is_err(), "{out}");
        }
        assert!(workspace.walk(Path::new("plain"), OFlags::RDONLY, Mode::empty()).is_ok());
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert!(!outside.path().join("x").exists());
    }

    #[test]
    fn folders_are_made_and_only_files_are_read() {
        let inside = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        workspace.write(Path::new("a/b/c")).unwrap().write_all(b"long text").unwrap();
        workspace.write(Path::new("a/b/c")).unwrap().write_all(b"short").unwrap();
        assert_eq!(text(&workspace, "a/b/c").unwrap(), "short");
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.path().join("pipe"), FILE_MODE).unwrap();
        for other in ["a", "pipe", "", "/dev/null"] {
            assert!(workspace.read(Path::new(other)).is_err(), "{other}");
        }
        assert_eq!(below("/workspace/a/b"), Path::new("a/b"));
        assert_eq!(below("/workspace"), Path::new(""));
    }
    #[test]
    fn a_path_of_thousands_of_folders_kept_a_thread_busy() {
        let inside = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        let deep = |folders| PathBuf::from("d/".repeat(folders)).join("file");
        workspace.write(&deep(MOST_DEPTH)).unwrap();
        assert_eq!(workspace.write(&deep(MOST_DEPTH + 1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(workspace.spot(&deep(MOST_DEPTH + 1)).is_err());
    }
}
