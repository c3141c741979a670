//! Request bodies that are written to an unnamed file before they are used, so that an incomplete body has no effect.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt;
use rustix::fs::{Mode, OFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::error::BridgeError;
use crate::http::AppState;

const MAX_BODY_BYTES: u64 = 32 << 20;
/// Bodies that are being received or used at the same time; each is a file.
const MAX_BODIES: usize = 8;
/// However steadily it arrives, a body must not keep its slot forever.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(300);
static SLOTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_BODIES)));

/// A complete body in an unnamed file, and its slot among [`MAX_BODIES`].
pub(super) struct SpooledBody {
    pub(super) file: File,
    _slot: Option<OwnedSemaphorePermit>,
}

pub(super) async fn receive(app: &AppState, body: Body) -> Result<SpooledBody, BridgeError> {
    // A declared length over the limit is rejected without reading.
    if body.size_hint().lower() > MAX_BODY_BYTES {
        return Err(BridgeError::too_large(MAX_BODY_BYTES));
    }
    let slot = Arc::clone(&SLOTS).acquire_owned().await.ok();
    let file = tokio::time::timeout(RECEIVE_TIMEOUT, write_to_file(app, body))
        .await
        .map_err(|_| BridgeError::too_slow())??;
    Ok(SpooledBody { file, _slot: slot })
}

async fn write_to_file(app: &AppState, mut body: Body) -> Result<File, BridgeError> {
    let mut file = on_blocking_thread(unnamed_file).await?;
    let timeout = Duration::from_millis(app.limits.body_timeout_ms);
    let mut bytes = 0;
    while let Some(frame) = tokio::time::timeout(timeout, body.frame()).await.map_err(|_| BridgeError::too_slow())? {
        let unreadable = |_| BridgeError::invalid("cannot read the body: the connection failed");
        let Ok(piece) = frame.map_err(unreadable)?.into_data() else { continue };
        bytes += piece.len() as u64;
        if bytes > MAX_BODY_BYTES {
            return Err(BridgeError::too_large(MAX_BODY_BYTES));
        }
        file = on_blocking_thread(move || file.write_all(&piece).map(|()| file)).await?;
    }
    on_blocking_thread(move || file.rewind().map(|()| file)).await
}

/// Runs work that waits for a file system.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BridgeError> {
    let result = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    result.map_err(|error| BridgeError::from_read_error(&error))
}

/// A temporary file without a name. The kernel deletes it when it is closed.
pub(super) fn unnamed_file() -> io::Result<File> {
    let directory = std::env::temp_dir();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    if let Ok(file) = rustix::fs::open(&directory, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    // Not every file system supports O_TMPFILE.
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let path = directory.join(format!("outlive-{:032x}", u128::from_be_bytes(random)));
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}
