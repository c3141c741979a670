//! Files of the workspace: one at a time, or all of them as an archive.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::error::BridgeError;
use super::super::folder;
use super::archive;
use super::received::{nameless, on_disk, receive};
use super::workspace::{Workspace, below};
use super::{checked_sandbox, sandbox_id};
use crate::api::App;
use crate::api::extract::{Params, Path};
use crate::api::problem::Problem;

/// Bytes of a file in one piece.
const PIECE_BYTES: usize = 256 * 1024;
/// Archives that are made or unpacked at the same time; each keeps a disk busy.
static ARCHIVES: Semaphore = Semaphore::const_new(2);

/// Below the workspace.
fn path_of(path: Result<Path<(String, String)>, Problem>) -> Result<std::path::PathBuf, BridgeError> {
    let Path((sandbox, path)) = path?;
    checked_sandbox(sandbox)?;
    folder::inside(&format!("/{path}")).map(|path| below(&path)).ok_or_else(|| BridgeError::outside("path"))
}

pub(in super::super) async fn get(path: Result<Path<(String, String)>, Problem>) -> Result<Response, BridgeError> {
    let path = path_of(path)?;
    let (file, bytes) = on_disk(move || Workspace::open()?.read(&path)).await?;
    Ok(send(file, bytes))
}

/// `bytes` of a file, each piece when the last one has been taken.
fn send(file: File, bytes: u64) -> Response {
    let pieces = stream::unfold(Some((file, bytes)), |state| async move {
        let (file, left) = state.filter(|(_, left)| *left > 0)?;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
            let read = (&file).read(&mut piece)?;
            piece.truncate(read);
            // It was cut meanwhile: to end as if this were all of it would be a lie.
            if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok((file, piece)) }
        });
        Some(match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((file, piece)) => {
                let left = left - piece.len() as u64;
                (Ok(Bytes::from(piece)), Some((file, left)))
            }
            Err(error) => (Err(error), None),
        })
    });
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_LENGTH, bytes.to_string())];
    (headers, Body::from_stream(pieces)).into_response()
}

pub(in super::super) async fn put(
    State(app): State<App>,
    path: Result<Path<(String, String)>, Problem>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    let path = path_of(path)?;
    let mut received = receive(&app, body).await?;
    let write = move || io::copy(&mut received, &mut Workspace::open()?.write(&path)?);
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
    let _turn = ARCHIVES.acquire().await;
    let packed = tokio::task::spawn_blocking(move || {
        let mut file = nameless()?;
        archive::pack(&Workspace::open()?, &without, &file)?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok((file, bytes))
    });
    let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let (file, bytes) = packed.map_err(|error: io::Error| BridgeError::not_packed(&error))?;
    Ok(send(file, bytes))
}

pub(in super::super) async fn hydrate(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    body: Body,
) -> Result<Json<Value>, BridgeError> {
    sandbox_id(id)?;
    let received = Arc::new(receive(&app, body).await?);
    let _turn = ARCHIVES.acquire().await;
    let unpacked = tokio::task::spawn_blocking(move || {
        if received.metadata()?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "Empty tar payload"));
        }
        archive::unpack(&Workspace::open()?, &*received)
    });
    let unpacked = unpacked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    unpacked.map_err(|error| BridgeError::of_file(&error))?;
    Ok(Json(json!({ "ok": true })))
}
