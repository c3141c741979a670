//! A body that is written down before anything is done with it, so that half of one does nothing.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt;
use rustix::fs::{Mode, OFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::error::BridgeError;
use crate::api::App;

/// What one body may have.
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// Bodies that are on their way, or wait to be put where they belong: each is a file.
const MOST_BODIES: usize = 8;
/// However steadily it comes, one of them must not keep its place for ever.
const WITHIN: Duration = Duration::from_secs(300);
static BODIES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MOST_BODIES)));

/// A file without a name, with the whole body in it, and its place among [`MOST_BODIES`].
pub(super) struct Received {
    pub(super) file: File,
    _place: Option<OwnedSemaphorePermit>,
}

pub(super) async fn receive(app: &App, body: Body) -> Result<Received, BridgeError> {
    // Said before it is sent, it need not be read.
    if body.size_hint().lower() > MOST_BYTES {
        return Err(BridgeError::too_large(MOST_BYTES));
    }
    let place = Arc::clone(&BODIES).acquire_owned().await.ok();
    let file = tokio::time::timeout(WITHIN, write_down(app, body)).await.map_err(|_| BridgeError::too_slow())??;
    Ok(Received { file, _place: place })
}

async fn write_down(app: &App, mut body: Body) -> Result<File, BridgeError> {
    let mut file = on_disk(nameless).await?;
    let patience = Duration::from_millis(app.limits.body_timeout_ms);
    let mut bytes = 0;
    while let Some(frame) = tokio::time::timeout(patience, body.frame()).await.map_err(|_| BridgeError::too_slow())? {
        let broken = |_| BridgeError::invalid("the body could not be read to its end");
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        bytes += piece.len() as u64;
        if bytes > MOST_BYTES {
            return Err(BridgeError::too_large(MOST_BYTES));
        }
        file = on_disk(move || file.write_all(&piece).map(|()| file)).await?;
    }
    on_disk(move || file.rewind().map(|()| file)).await
}

/// On a thread that may wait.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BridgeError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| BridgeError::of_file(&error))
}

/// A file that goes when it is closed.
pub(super) fn nameless() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    if let Ok(file) = rustix::fs::open(&folder, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    // Not every file system has such.
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let path = folder.join(format!("outlive-{:032x}", u128::from_be_bytes(random)));
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}
