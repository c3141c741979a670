//! Files that are read again when they change.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::Interest;

/// Writers replace a certificate and its key one after the other; only both together make sense.
const SETTLE: Duration = Duration::from_millis(100);

/// Calls `changed` after any of the files may have changed. Their folders are watched, because secrets are replaced by
/// renaming, often of something that the file is only a link into.
pub(super) fn watch(files: &[PathBuf], changed: impl Fn() + Send + 'static) {
    match open(files) {
        Ok(fd) => drop(tokio::spawn(follow(fd, changed))),
        Err(error) => tracing::warn!(%error, ?files, "cannot be watched: changes need a restart of outlive"),
    }
}

fn open(files: &[PathBuf]) -> io::Result<Arc<OwnedFd>> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let what = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::DELETE;
    let folder =
        |file: &PathBuf| file.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")).to_owned();
    for folder in files.iter().map(folder).collect::<BTreeSet<_>>() {
        inotify::add_watch(&fd, &folder, what)?;
    }
    Ok(Arc::new(fd))
}

async fn follow(fd: Arc<OwnedFd>, changed: impl Fn()) {
    let Ok(polled) = outlive_core::polled::poll(fd, Interest::READABLE) else { return };
    loop {
        if drain(&polled).await.is_err() {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        changed();
    }
}

/// Waits for something and forgets what it was.
async fn drain(polled: &tokio::io::unix::AsyncFd<Arc<OwnedFd>>) -> io::Result<()> {
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
