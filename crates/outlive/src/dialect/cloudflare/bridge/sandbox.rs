//! Sandboxes, which are all this machine, and their sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use futures_util::future::join_all;
use outlive_core::process::Process;
use outlive_core::session::Created;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::command::{Variables, given, session_spec};
use super::super::container::sessions;
use super::super::error::BridgeError;
use super::super::{SANDBOX, clock, folder};
use super::{checked_sandbox, sandbox_id, session_id};
use crate::api::App;
use crate::api::extract::{JsonBytes, Path, parse};
use crate::api::problem::Problem;

const KILL_WITHIN: Duration = Duration::from_secs(5);

pub(in super::super) async fn health() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// An id that nobody else has.
pub(in super::super) async fn create() -> Result<Json<Value>, BridgeError> {
    Ok(Json(json!({ "id": new_id()? })))
}

fn new_id() -> Result<String, BridgeError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| BridgeError::no_random_numbers())?;
    Ok(base32(random))
}

/// 26 letters and digits of five bits each; the last has three.
fn base32(bytes: [u8; 16]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let number = u128::from_be_bytes(bytes);
    let digit = |at: u32| if at < 25 { number >> (123 - 5 * at) } else { number << 2 } & 31;
    (0..26).map(|at| char::from(ALPHABET[digit(at) as usize])).collect()
}

/// There is one as long as outlive can start something.
pub(in super::super) async fn running(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<Json<Value>, BridgeError> {
    sandbox_id(id)?;
    Ok(Json(json!({ "running": !app.core.holder_is_gone() })))
}

/// Ends all that was started under this id; the files stay.
pub(in super::super) async fn delete(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
) -> Result<StatusCode, BridgeError> {
    let id = sandbox_id(id)?;
    let is_its = |process: &Arc<Process>| process.spec().annotations.get(SANDBOX).is_some_and(|of| *of == id);
    let started: Vec<_> = app.core.list(true).into_iter().filter(is_its).collect();
    join_all(started.iter().cloned().map(kill)).await;
    let prefix = format!("{id}.");
    let its = app.core.sessions().into_iter().map(|session| session.id().to_owned());
    for session in its.filter(|session| session.starts_with(&prefix)).collect::<Vec<_>>() {
        sessions::end(&app, &session).await?;
    }
    // Terminals would be found again by their ids.
    for process in started.into_iter().filter(|process| process.is_terminal()) {
        let _ = process.delete(true).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn kill(process: Arc<Process>) {
    let _ = process.kill(KILL_WITHIN).await;
}

#[derive(Default, Deserialize)]
pub(in super::super) struct SessionRequest {
    id: Option<String>,
    cwd: Option<String>,
    env: Option<Variables>,
}

/// A JSON body, or none: who says nothing wants nothing special.
pub(in super::super) struct Perhaps<T>(T);

impl<T: Default + DeserializeOwned> FromRequest<App> for Perhaps<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        let JsonBytes(bytes) = JsonBytes::from_request(request, app).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

pub(in super::super) async fn create_session(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    request: Result<Perhaps<SessionRequest>, Problem>,
) -> Result<Json<Value>, BridgeError> {
    let sandbox = sandbox_id(id)?;
    let Perhaps(request) = request?;
    let id = match request.id {
        Some(id) => id,
        None => format!("session-{}", new_id()?),
    };
    let mut spec = session_spec(session_id(&sandbox, &id)?, folder::or_home(request.cwd).await);
    spec.env = given(request.env);
    let failed = |why: &str| BridgeError::session("create", why);
    match app.core.create_session(spec).await.map_err(|error| failed(&error.to_string()))? {
        Created::New(_) => Ok(Json(json!({ "id": id }))),
        Created::Existing(_) => Err(failed(&format!("Session '{id}' already exists"))),
    }
}

pub(in super::super) async fn delete_session(
    State(app): State<App>,
    path: Result<Path<(String, String)>, Problem>,
) -> Result<Json<Value>, BridgeError> {
    let Path((sandbox, id)) = path?;
    let sandbox = checked_sandbox(sandbox)?;
    let failed = |why: &str| BridgeError::session("delete", why);
    let ended = sessions::end(&app, &session_id(&sandbox, &id)?).await;
    match ended {
        Ok(true) => Ok(Json(json!({ "success": true, "sessionId": id, "timestamp": clock::now() }))),
        Ok(false) => Err(failed(&format!("Session '{id}' not found"))),
        Err(error) => Err(failed(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_are_twenty_six_characters() {
        assert_eq!(base32([0; 16]), "a".repeat(26));
        assert_eq!(base32([255; 16]), format!("{}4", "7".repeat(25)));
        // RFC 4648 of "0123456789abcdef", without padding and in small letters.
        assert_eq!(base32(*b"0123456789abcdef"), "gaytemzugu3doobzmfrggzdfmy");
    }
}
