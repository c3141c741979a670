//! Files that are read again when they change.
//!
//! A path leads to a file through folders and links, and secrets are replaced by exchanging any of them. So every folder
//! in which a name is looked up on the way is watched, and a change counts if it is about one of these names.

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

/// Writers replace a certificate and its key one after the other; only both together make sense.
const SETTLE: Duration = Duration::from_millis(100);
/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

type Polled = AsyncFd<Arc<OwnedFd>>;
/// By folder: the names that are looked up in it.
type Names = BTreeMap<PathBuf, BTreeSet<OsString>>;
/// The same, by the number that the kernel gave the folder.
type Watched = BTreeMap<i32, BTreeSet<OsString>>;

/// Calls `changed` after any of the files may have changed.
pub(super) fn watch(files: &[PathBuf], changed: impl Fn() + Send + 'static) {
    let mut watched = Watched::new();
    let polled = open().inspect(|polled| watch_ways(polled.get_ref(), files, &mut watched));
    match polled {
        Ok(polled) => drop(tokio::spawn(follow(polled, watched, files.to_vec(), changed))),
        Err(error) => tracing::warn!(%error, ?files, "cannot be watched: changes need a restart of outlive"),
    }
}

fn open() -> io::Result<Polled> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    outlive_core::polled::poll(Arc::new(fd), Interest::READABLE)
}

/// Watches the ways that lead to the files now, and no others.
fn watch_ways(fd: &OwnedFd, files: &[PathBuf], watched: &mut Watched) {
    let what = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::MOVE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR;
    let mut names = Names::new();
    for file in files {
        note_way(file, &mut names);
    }
    let mut now = Watched::new();
    for (folder, names) in names {
        match inotify::add_watch(fd, &folder, what) {
            // By two paths it may be one folder.
            Ok(number) => now.entry(number).or_default().extend(names),
            Err(error) => tracing::warn!(%error, folder = %folder.display(), "cannot be watched"),
        }
    }
    for gone in watched.keys().filter(|number| !now.contains_key(*number)) {
        let _ = inotify::remove_watch(fd, *gone);
    }
    *watched = now;
}

/// Goes the way to `file` as the kernel does.
fn note_way(file: &Path, names: &mut Names) {
    let mut at = PathBuf::from("/");
    let mut rest: VecDeque<PathBuf> = parts(file);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match part.components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(name)) => {
                names.entry(at.clone()).or_default().insert(name.to_owned());
                let next = at.join(name);
                match std::fs::read_link(&next) {
                    Ok(target) if links < MOST_LINKS => {
                        links += 1;
                        let mut way = parts(&target);
                        way.append(&mut rest);
                        rest = way;
                    }
                    _ => at = next,
                }
            }
            _ => {}
        }
    }
}

fn parts(path: &Path) -> VecDeque<PathBuf> {
    path.components().map(|part| PathBuf::from(part.as_os_str())).collect()
}

async fn follow(polled: Polled, mut watched: Watched, files: Vec<PathBuf>, changed: impl Fn()) {
    loop {
        match next_changes(&polled, &watched).await {
            Err(error) => return tracing::warn!(%error, ?files, "are not watched any more"),
            Ok(false) => continue,
            Ok(true) => {}
        }
        tokio::time::sleep(SETTLE).await;
        // First the way, then the content: what changes in between is noticed.
        watch_ways(polled.get_ref(), &files, &mut watched);
        changed();
    }
}

/// Waits for changes; true if one was about us.
async fn next_changes(polled: &Polled, watched: &Watched) -> io::Result<bool> {
    let mut ready = polled.readable().await?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&**polled.get_ref(), &mut room);
    let mut about_us = false;
    loop {
        match reader.next() {
            Ok(event) => {
                let lost = event.events().intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED);
                let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
                let named = name.zip(watched.get(&event.wd())).is_some_and(|(name, names)| names.contains(&name));
                about_us |= named || (lost && (event.wd() < 0 || watched.contains_key(&event.wd())));
            }
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ready.clear_ready();
    Ok(about_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folders of a way, with the names in them, below `root`.
    fn way(root: &Path, file: &str) -> Vec<String> {
        let mut names = Names::new();
        note_way(&root.join(file), &mut names);
        let below = |folder: &Path| Some(folder.strip_prefix(root).ok()?.display().to_string());
        let all = names.iter().filter_map(|(folder, names)| Some((below(folder)?, names)));
        all.flat_map(|(folder, names)| names.iter().map(move |name| format!("{folder}:{}", name.display()))).collect()
    }

    #[test]
    fn every_name_on_the_way_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("versions/1")).unwrap();
        std::fs::write(root.join("versions/1/token"), "t").unwrap();
        std::os::unix::fs::symlink("1", root.join("versions/current")).unwrap();
        std::os::unix::fs::symlink("versions/../versions/current/token", root.join("token")).unwrap();
        assert_eq!(way(&root, "token"), [":token", ":versions", "versions:1", "versions:current", "versions/1:token"]);
        std::os::unix::fs::symlink("round", root.join("round")).unwrap();
        assert_eq!(way(&root, "round"), [":round"], "a link to itself leads nowhere");
        assert_eq!(way(&root, "none/at/all"), [":none", "none:at", "none/at:all"]);
    }
}
