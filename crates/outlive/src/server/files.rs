//! Files that are read again when they change.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Writers replace a certificate and its key one after the other; only both together make sense.
const SETTLE: Duration = Duration::from_millis(100);

/// Calls `changed` after any of the files may have changed. Their folders are watched, because secrets are replaced by
/// renaming, often of something that the file is only a link into.
pub(super) fn watch(files: &[PathBuf], changed: impl Fn() + Send + 'static) {
    match open(files) {
        Ok(polled) => drop(tokio::spawn(follow(polled, files.to_vec(), changed))),
        Err(error) => tracing::warn!(%error, ?files, "cannot be watched: changes need a restart of outlive"),
    }
}

fn open(files: &[PathBuf]) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    watch_folders(&fd, files)?;
    outlive_core::polled::poll(Arc::new(fd), Interest::READABLE)
}

/// Of the files, and of what they lead to. To watch a folder again changes nothing.
fn watch_folders(fd: &OwnedFd, files: &[PathBuf]) -> io::Result<()> {
    let what = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::DELETE;
    let folder = |file: &Path| file.parent().unwrap_or(Path::new("/")).to_owned();
    let named = files.iter().map(|file| folder(file));
    let real = files.iter().filter_map(|file| file.canonicalize().ok()).map(|file| folder(&file));
    for folder in named.chain(real).collect::<BTreeSet<_>>() {
        inotify::add_watch(fd, &folder, what)?;
    }
    Ok(())
}

async fn follow(polled: AsyncFd<Arc<OwnedFd>>, files: Vec<PathBuf>, changed: impl Fn()) {
    loop {
        if drain(&polled).await.is_err() {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        if let Err(error) = watch_folders(polled.get_ref(), &files) {
            tracing::warn!(%error, ?files, "cannot be watched");
        }
        changed();
    }
}

/// Waits for something and forgets what it was.
async fn drain(polled: &AsyncFd<Arc<OwnedFd>>) -> io::Result<()> {
    let mut room = [0; 4096];
    let mut ready = polled.readable().await?;
    loop {
        match rustix::io::read(&**polled.get_ref(), &mut room) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ready.clear_ready();
    Ok(())
}
