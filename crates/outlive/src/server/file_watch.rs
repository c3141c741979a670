//! Watches files by inotify and calls back when they may have changed.
//!
//! A path leads to a file through directories and symlinks, and a secret may be replaced by replacing any of them. So
//! every directory in which the kernel looks up a name of the path is watched, and a change counts if it concerns one
//! of these names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wait after a change: a certificate and its key are replaced one after the other, and only match together.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Maximum number of symlinks that the kernel follows.
const MAX_SYMLINKS: usize = 40;

type Inotify = AsyncFd<Arc<OwnedFd>>;
/// Per directory, the names that are looked up in it.
type NamesByDirectory = BTreeMap<PathBuf, BTreeSet<OsString>>;
/// The same per watch descriptor of the directory.
type NamesByWatch = BTreeMap<i32, BTreeSet<OsString>>;

/// Spawns a task that calls `on_change` after any of the files may have changed.
pub(super) fn spawn(files: &[PathBuf], on_change: impl Fn() + Send + 'static) {
    let mut watches = NamesByWatch::new();
    let inotify = open().inspect(|inotify| update_watches(inotify.get_ref(), files, &mut watches));
    match inotify {
        Ok(inotify) => drop(tokio::spawn(run(inotify, watches, files.to_vec(), on_change))),
        Err(error) => tracing::warn!(%error, ?files, "cannot watch files; restart outlive after a change"),
    }
}

fn open() -> io::Result<Inotify> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    outlive_core::async_fd::register(Arc::new(fd), Interest::READABLE)
}

/// Watches the directories on the current paths of the files, and no others.
fn update_watches(fd: &OwnedFd, files: &[PathBuf], watches: &mut NamesByWatch) {
    let events = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::MOVE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR;
    let mut names = NamesByDirectory::new();
    for file in files {
        collect_lookups(file, &mut names);
    }
    let mut current = NamesByWatch::new();
    for (directory, names) in names {
        match inotify::add_watch(fd, &directory, events) {
            // Two paths of one directory have the same watch descriptor.
            Ok(watch) => current.entry(watch).or_default().extend(names),
            Err(error) => tracing::warn!(%error, directory = %directory.display(), "cannot watch a directory"),
        }
    }
    for stale in watches.keys().filter(|watch| !current.contains_key(*watch)) {
        let _ = inotify::remove_watch(fd, *stale);
    }
    *watches = current;
}

/// Adds every directory and name that the kernel looks up to resolve `file`.
fn collect_lookups(file: &Path, names: &mut NamesByDirectory) {
    let mut directory = PathBuf::from("/");
    let mut rest: VecDeque<PathBuf> = components(file);
    let mut symlinks = 0;
    while let Some(component) = rest.pop_front() {
        match component.components().next() {
            Some(Component::RootDir) => directory = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(directory.pop()),
            Some(Component::Normal(name)) => {
                names.entry(directory.clone()).or_default().insert(name.to_owned());
                let next = directory.join(name);
                match std::fs::read_link(&next) {
                    Ok(target) if symlinks < MAX_SYMLINKS => {
                        symlinks += 1;
                        let mut resolved = components(&target);
                        resolved.append(&mut rest);
                        rest = resolved;
                    }
                    _ => directory = next,
                }
            }
            _ => {}
        }
    }
}

fn components(path: &Path) -> VecDeque<PathBuf> {
    path.components().map(|component| PathBuf::from(component.as_os_str())).collect()
}

async fn run(inotify: Inotify, mut watches: NamesByWatch, files: Vec<PathBuf>, on_change: impl Fn()) {
    loop {
        match wait_for_events(&inotify, &watches).await {
            Err(error) => return tracing::warn!(%error, ?files, "cannot watch files any longer"),
            Ok(false) => continue,
            Ok(true) => {}
        }
        tokio::time::sleep(SETTLE_TIME).await;
        // Watches first, then the content: so a change in between is noticed.
        update_watches(inotify.get_ref(), &files, &mut watches);
        on_change();
    }
}

/// Waits for events; true if one concerns a watched name.
async fn wait_for_events(inotify: &Inotify, watches: &NamesByWatch) -> io::Result<bool> {
    let mut ready = inotify.readable().await?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&**inotify.get_ref(), &mut buffer);
    let mut is_relevant = false;
    loop {
        match reader.next() {
            Ok(event) => {
                let is_lost = event.events().intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED);
                let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
                let is_named = name.zip(watches.get(&event.wd())).is_some_and(|(name, names)| names.contains(&name));
                is_relevant |= is_named || (is_lost && (event.wd() < 0 || watches.contains_key(&event.wd())));
            }
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ready.clear_ready();
    Ok(is_relevant)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lookups below `root`, as `directory:name`.
    fn lookups(root: &Path, file: &str) -> Vec<String> {
        let mut names = NamesByDirectory::new();
        collect_lookups(&root.join(file), &mut names);
        let below = |directory: &Path| Some(directory.strip_prefix(root).ok()?.display().to_string());
        let all = names.iter().filter_map(|(directory, names)| Some((below(directory)?, names)));
        let join = |(directory, names): (String, &BTreeSet<OsString>)| -> Vec<String> {
            names.iter().map(|name| format!("{directory}:{}", name.display())).collect()
        };
        all.flat_map(join).collect()
    }

    #[test]
    fn every_lookup_on_a_path_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("versions/1")).unwrap();
        std::fs::write(root.join("versions/1/token"), "t").unwrap();
        std::os::unix::fs::symlink("1", root.join("versions/current")).unwrap();
        std::os::unix::fs::symlink("versions/../versions/current/token", root.join("token")).unwrap();
        let expected = [":token", ":versions", "versions:1", "versions:current", "versions/1:token"];
        assert_eq!(lookups(&root, "token"), expected);
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        assert_eq!(lookups(&root, "loop"), [":loop"], "a symlink to itself");
        assert_eq!(lookups(&root, "none/at/all"), [":none", "none:at", "none/at:all"]);
    }
}
