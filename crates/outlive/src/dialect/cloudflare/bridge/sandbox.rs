//! Sandboxes, which all are this machine, and their sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::future::join_all;
use outlive_core::process::Process;
use outlive_core::session::CreateOutcome;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::command::{Variables, without_nulls};
use super::super::error::BridgeError;
use super::super::{SANDBOX, directory, session};
use super::{check_sandbox_id, core_session_id};
use crate::http::AppState;
use crate::http::extract::{OptionalBody, Path, WithRejection};
use crate::rfc3339;

const KILL_TIMEOUT: Duration = Duration::from_secs(5);

pub(in super::super) async fn health() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// Returns a new id, and starts nothing.
pub(in super::super) async fn create() -> Result<Json<Value>, BridgeError> {
    Ok(Json(json!({ "id": new_id()? })))
}

fn new_id() -> Result<String, BridgeError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| BridgeError::no_random_numbers())?;
    Ok(base32(random))
}

/// 26 characters of five bits each; the last one has three.
fn base32(bytes: [u8; 16]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let number = u128::from_be_bytes(bytes);
    let digit = |at: u32| if at < 25 { number >> (123 - 5 * at) } else { number << 2 } & 31;
    (0..26).map(|at| char::from(ALPHABET[digit(at) as usize])).collect()
}

/// A sandbox runs as long as outlive can start processes.
pub(in super::super) async fn running(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, BridgeError>,
) -> Result<Json<Value>, BridgeError> {
    check_sandbox_id(&id)?;
    Ok(Json(json!({ "running": !app.core.holder_is_gone() })))
}

/// Kills everything that was started under this id. The files stay.
pub(in super::super) async fn delete(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, BridgeError>,
) -> Result<StatusCode, BridgeError> {
    check_sandbox_id(&id)?;
    let has_id = |process: &Arc<Process>| process.is_annotated(SANDBOX, &id);
    let processes: Vec<_> = app.core.list(true).into_iter().filter(has_id).collect();
    join_all(processes.iter().cloned().map(kill)).await;
    let prefix = format!("{id}.");
    let session_ids = app.core.sessions().into_iter().map(|session| session.id().to_owned());
    for session_id in session_ids.filter(|session_id| session_id.starts_with(&prefix)).collect::<Vec<_>>() {
        session::delete_with_terminal(&app, &session_id).await?;
    }
    // An exited terminal would be found again by its id.
    for process in processes.into_iter().filter(|process| process.is_terminal()) {
        let _ = process.delete(true).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn kill(process: Arc<Process>) {
    let _ = process.kill(KILL_TIMEOUT).await;
}

#[derive(Default, Deserialize)]
pub(in super::super) struct SessionRequest {
    id: Option<String>,
    cwd: Option<String>,
    env: Option<Variables>,
}

pub(in super::super) async fn create_session(
    State(app): State<AppState>,
    WithRejection(Path(sandbox), _): WithRejection<Path<String>, BridgeError>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<SessionRequest>, BridgeError>,
) -> Result<Json<Value>, BridgeError> {
    check_sandbox_id(&sandbox)?;
    let id = match request.id {
        Some(id) => id,
        None => format!("session-{}", new_id()?),
    };
    let core_id = core_session_id(&sandbox, &id)?;
    let mut spec = session::spec(Some(core_id), directory::existing_or_home(request.cwd).await);
    spec.env = without_nulls(request.env);
    match app.core.create_session(spec).await {
        Ok(CreateOutcome::New(_)) => Ok(Json(json!({ "id": id }))),
        Ok(CreateOutcome::Existing(_)) => {
            Err(BridgeError::session("create", &format!("Session '{id}' already exists")))
        }
        Err(error) => Err(BridgeError::session("create", &error.to_string())),
    }
}

pub(in super::super) async fn delete_session(
    State(app): State<AppState>,
    WithRejection(Path((sandbox, id)), _): WithRejection<Path<(String, String)>, BridgeError>,
) -> Result<Json<Value>, BridgeError> {
    check_sandbox_id(&sandbox)?;
    match session::delete_with_terminal(&app, &core_session_id(&sandbox, &id)?).await {
        Ok(true) => Ok(Json(json!({ "success": true, "sessionId": id, "timestamp": rfc3339::now() }))),
        Ok(false) => Err(BridgeError::session("delete", &format!("Session '{id}' not found"))),
        Err(error) => Err(BridgeError::session("delete", &error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_become_26_characters() {
        assert_eq!(base32([0; 16]), "a".repeat(26));
        assert_eq!(base32([255; 16]), format!("{}4", "7".repeat(25)));
        // RFC 4648 for "0123456789abcdef", without padding and in lower case.
        assert_eq!(base32(*b"0123456789abcdef"), "gaytemzugu3doobzmfrggzdfmy");
    }
}
