//! Files of the workspace: one at a time, or all of them as an archive.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::super::directory;
use super::super::error::BridgeError;
use super::archive::{self, CancelOnDrop};
use super::check_sandbox_id;
use super::spool::{on_blocking_thread, receive, unnamed_file};
use super::workspace::{Workspace, relative_to_workspace};
use crate::http::AppState;
use crate::http::extract::{Params, Path, WithRejection};

const PIECE_BYTES: usize = 256 * 1024;
/// A client that takes no piece for this long is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Archives that are packed, sent or unpacked at the same time. Each keeps a disk busy and has a file.
const MAX_ARCHIVES: usize = 2;
static ARCHIVE_SLOTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_ARCHIVES)));

/// The permit is owned, because the work that holds it may outlive the request.
async fn archive_slot() -> Result<OwnedSemaphorePermit, BridgeError> {
    let slot = Arc::clone(&ARCHIVE_SLOTS).acquire_owned().await;
    slot.map_err(|error| BridgeError::persist(&io::Error::other(error)))
}

/// The path of the file, relative to the workspace.
fn file_path(sandbox: &str, path: &str) -> Result<PathBuf, BridgeError> {
    check_sandbox_id(sandbox)?;
    let resolved = directory::resolve_in_workspace(&format!("/{path}"));
    resolved.map(|path| relative_to_workspace(&path)).ok_or_else(|| BridgeError::outside_workspace("path"))
}

pub(in super::super) async fn get(
    WithRejection(Path((sandbox, path)), _): WithRejection<Path<(String, String)>, BridgeError>,
) -> Result<Response, BridgeError> {
    let path = file_path(&sandbox, &path)?;
    let (file, bytes) = on_blocking_thread(move || Workspace::open()?.read(&path)).await?;
    Ok(file_response(file, bytes, None))
}

/// Sends `bytes` of a file, and reads each piece when the client has taken the one before. The file and its slot are
/// released after the last piece, when the client disconnects, or when it takes no piece for [`SEND_TIMEOUT`].
fn file_response(file: File, bytes: u64, slot: Option<OwnedSemaphorePermit>) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _slot = slot;
        read_pieces(file, bytes, sender).await;
    });
    let pieces = stream::unfold((receiver, bytes), |(mut receiver, left)| async move {
        if left == 0 {
            return None;
        }
        // An error cuts the connection, so that the client does not take the file for complete.
        let piece = receiver.recv().await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        let left = piece.as_ref().map_or(0, |piece: &Bytes| left - piece.len() as u64);
        Some((piece, (receiver, left)))
    });
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_LENGTH, bytes.to_string())];
    (headers, Body::from_stream(pieces)).into_response()
}

async fn read_pieces(mut file: File, mut left: u64, sender: mpsc::Sender<io::Result<Bytes>>) {
    while left > 0 {
        let Ok(Ok(permit)) = tokio::time::timeout(SEND_TIMEOUT, sender.reserve()).await else { return };
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            // The file was truncated after its length was read.
            if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok((file, piece)) }
        });
        match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((same_file, piece)) => {
                file = same_file;
                left -= piece.len() as u64;
                permit.send(Ok(piece.into()));
            }
            Err(error) => return permit.send(Err(error)),
        }
    }
    // Keep the slot until the client has taken the last piece.
    let _ = tokio::time::timeout(SEND_TIMEOUT, sender.reserve()).await;
}

pub(in super::super) async fn put(
    State(app): State<AppState>,
    WithRejection(Path((sandbox, path)), _): WithRejection<Path<(String, String)>, BridgeError>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    let path = file_path(&sandbox, &path)?;
    let mut body = receive(&app, body).await?;
    let write = move || io::copy(&mut body.file, &mut Workspace::open()?.write(&path)?);
    on_blocking_thread(write).await.map_err(BridgeError::for_write)?;
    Ok(Json(json!({ "ok": true })))
}

#[derive(Deserialize)]
pub(in super::super) struct PersistQuery {
    excludes: Option<String>,
}

pub(in super::super) async fn persist(
    WithRejection(Path(sandbox), _): WithRejection<Path<String>, BridgeError>,
    WithRejection(Params(PersistQuery { excludes }), _): WithRejection<Params<PersistQuery>, BridgeError>,
) -> Result<Response, BridgeError> {
    check_sandbox_id(&sandbox)?;
    let excludes = excludes.unwrap_or_default();
    if excludes.contains("..") {
        return Err(BridgeError::invalid("exclude paths must not contain \"..\""));
    }
    let excludes: Vec<_> = excludes.split(',').filter(|path| !path.is_empty()).map(archive::normalize).collect();
    let slot = archive_slot().await?;
    let cancel = CancelOnDrop::default();
    let cancelled = cancel.token();
    let packed = tokio::task::spawn_blocking(move || {
        let mut file = unnamed_file()?;
        archive::pack(&Workspace::open()?, &excludes, &file, &cancelled)?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok((file, bytes, slot))
    });
    let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(cancel);
    let (file, bytes, slot) = packed.map_err(|error: io::Error| BridgeError::persist(&error))?;
    Ok(file_response(file, bytes, Some(slot)))
}

pub(in super::super) async fn hydrate(
    State(app): State<AppState>,
    WithRejection(Path(sandbox), _): WithRejection<Path<String>, BridgeError>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    check_sandbox_id(&sandbox)?;
    let body = receive(&app, body).await?;
    let slot = archive_slot().await?;
    let cancel = CancelOnDrop::default();
    let cancelled = cancel.token();
    let unpacked = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        if body.file.metadata()?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "Empty tar payload"));
        }
        archive::unpack(&Workspace::open()?, &body.file, &cancelled)
    });
    let unpacked = unpacked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(cancel);
    unpacked.map_err(|error| BridgeError::from_read_error(&error))?;
    Ok(Json(json!({ "ok": true })))
}

/// Parses the input as the path of a file and as excluded paths: all of them stay below the workspace.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use std::path::Component;

    let is_relative = |path: PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    let Ok(text) = std::str::from_utf8(data) else { return };
    match file_path("abc", text) {
        Ok(path) => assert!(is_relative(path)),
        Err(error) => super::super::fuzzing::check_response(error),
    }
    assert!(text.split(',').map(archive::normalize).all(is_relative));
}
