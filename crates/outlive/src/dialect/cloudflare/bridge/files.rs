//! Files of the workspace: one at a time, or all of them as an archive.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
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

use super::super::error::BridgeError;
use super::super::folder;
use super::archive::{self, Asking};
use super::received::{nameless, on_disk, receive};
use super::workspace::{Workspace, below};
use super::{checked_sandbox, sandbox_id};
use crate::api::App;
use crate::api::extract::{Params, Path};
use crate::api::problem::Problem;

/// Bytes of a file in one piece.
const PIECE_BYTES: usize = 256 * 1024;
/// A client that takes no piece for this long is gone.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// Archives that are made, sent or unpacked at the same time; each keeps a disk busy, and has a file there.
static ARCHIVES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(2)));

/// For work that goes on without the one who asked for it: so the turn belongs to the work.
async fn turn(of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, BridgeError> {
    let turn = Arc::clone(of).acquire_owned().await;
    turn.map_err(|error| BridgeError::not_packed(&io::Error::other(error)))
}

/// Below the workspace.
fn path_of(path: Result<Path<(String, String)>, Problem>) -> Result<std::path::PathBuf, BridgeError> {
    let Path((sandbox, path)) = path?;
    checked_sandbox(sandbox)?;
    folder::inside(&format!("/{path}")).map(|path| below(&path)).ok_or_else(|| BridgeError::outside("path"))
}

pub(in super::super) async fn get(path: Result<Path<(String, String)>, Problem>) -> Result<Response, BridgeError> {
    let path = path_of(path)?;
    let (file, bytes) = on_disk(move || Workspace::open()?.read(&path)).await?;
    Ok(send(file, bytes, None))
}

/// `bytes` of a file, each piece when the last one has been taken. The file, and the turn that was taken for it, go with the last piece, with
/// the client, or when it takes nothing for too long.
fn send(file: File, bytes: u64, turn: Option<OwnedSemaphorePermit>) -> Response {
    let (give, taken) = mpsc::channel(1);
    tokio::spawn(async move {
        let _turn = turn;
        read_out(file, bytes, give).await;
    });
    let pieces = stream::unfold((taken, bytes), |(mut taken, left)| async move {
        if left == 0 {
            return None;
        }
        // To end as if this were all of it would be a lie.
        let piece = taken.recv().await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        let left = piece.as_ref().map_or(0, |piece: &Bytes| left - piece.len() as u64);
        Some((piece, (taken, left)))
    });
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_LENGTH, bytes.to_string())];
    (headers, Body::from_stream(pieces)).into_response()
}

async fn read_out(mut file: File, mut left: u64, give: mpsc::Sender<io::Result<Bytes>>) {
    while left > 0 {
        let Ok(Ok(room)) = tokio::time::timeout(TAKEN_WITHIN, give.reserve()).await else { return };
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            // It was cut meanwhile.
            if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok((file, piece)) }
        });
        match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((same, piece)) => {
                file = same;
                left -= piece.len() as u64;
                room.send(Ok(piece.into()));
            }
            Err(error) => return room.send(Err(error)),
        }
    }
    // The file is there until its last piece has been taken.
    let _ = tokio::time::timeout(TAKEN_WITHIN, give.reserve()).await;
}

pub(in super::super) async fn put(
    State(app): State<App>,
    path: Result<Path<(String, String)>, Problem>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    let path = path_of(path)?;
    let mut received = receive(&app, body).await?;
    let write = move || io::copy(&mut received.file, &mut Workspace::open()?.write(&path)?);
    on_disk(write).await.map_err(BridgeError::of_writing)?;
    Ok(Json(json!({ "ok": true })))
}

#[derive(Deserialize)]
pub(in super::super) struct PersistQuery {
    excludes: Option<String>,
}

pub(in super::super) async fn persist(
    id: Result<Path<String>, Problem>,
    query: Result<Params<PersistQuery>, Problem>,
) -> Result<Response, BridgeError> {
    sandbox_id(id)?;
    let Params(PersistQuery { excludes }) = query?;
    let excludes = excludes.unwrap_or_default();
    if excludes.contains("..") {
        return Err(BridgeError::invalid("exclude paths must not contain \"..\""));
    }
    let without: Vec<_> = excludes.split(',').filter(|path| !path.is_empty()).map(archive::plain).collect();
    let turn = turn(&ARCHIVES).await?;
    let asking = Asking::default();
    let asked = asking.asked();
    let packed = tokio::task::spawn_blocking(move || {
        let mut file = nameless()?;
        archive::pack(&Workspace::open()?, &without, &file, &asked)?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok((file, bytes, turn))
    });
    let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(asking);
    let (file, bytes, turn) = packed.map_err(|error: io::Error| BridgeError::not_packed(&error))?;
    Ok(send(file, bytes, Some(turn)))
}

pub(in super::super) async fn hydrate(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    sandbox_id(id)?;
    let received = receive(&app, body).await?;
    let turn = turn(&ARCHIVES).await?;
    let asking = Asking::default();
    let asked = asking.asked();
    let unpacked = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        if received.file.metadata()?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "Empty tar payload"));
        }
        archive::unpack(&Workspace::open()?, &received.file, &asked)
    });
    let unpacked = unpacked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(asking);
    unpacked.map_err(|error| BridgeError::of_file(&error))?;
    Ok(Json(json!({ "ok": true })))
}
