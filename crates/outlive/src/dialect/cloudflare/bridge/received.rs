//! A body that is written down before anything is done with it, so that half of one does nothing.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use rustix::fs::{Mode, OFlags};

use super::super::error::Denied;
use crate::api::App;

/// What one body may have.
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// A file without a name, with the whole body in it.
pub(super) async fn receive(app: &App, mut body: Body) -> Result<File, Denied> {
    let too_large = || {
        let message = format!("payload too large: the limit are {MOST_BYTES} bytes");
        Denied::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    };
    // Said before it is sent, it need not be read.
    if body.size_hint().lower() > MOST_BYTES {
        return Err(too_large());
    }
    let mut file = on_disk(nameless).await?;
    let patience = Duration::from_millis(app.limits.body_timeout_ms);
    let mut bytes = 0;
    while let Some(frame) = tokio::time::timeout(patience, body.frame())
        .await
        .map_err(|_| Denied::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", "the body came too slowly"))?
    {
        let broken = |_| Denied::invalid("the body could not be read to its end");
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        bytes += piece.len() as u64;
        if bytes > MOST_BYTES {
            return Err(too_large());
        }
        file = on_disk(move || file.write_all(&piece).map(|()| file)).await?;
    }
    on_disk(move || file.rewind().map(|()| file)).await
}

/// On a thread that may wait.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Denied> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| denied(&error))
}

/// What a file system says, for those who asked for a file.
pub(super) fn denied(error: &io::Error) -> Denied {
    let (status, code) = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => {
            (StatusCode::NOT_FOUND, "workspace_read_not_found")
        }
        // The second: a link that leads out of the workspace.
        (io::ErrorKind::PermissionDenied, _) | (_, Some(libc::EXDEV)) => (StatusCode::FORBIDDEN, "invalid_request"),
        (io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory, _) => {
            (StatusCode::BAD_REQUEST, "invalid_request")
        }
        _ => (StatusCode::BAD_GATEWAY, "workspace_archive_write_error"),
    };
    let message = match error.raw_os_error() {
        Some(libc::EXDEV) => "path must resolve to a location within /workspace".to_owned(),
        _ => error.to_string(),
    };
    Denied::new(status, code, message)
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
