//! Sessions: made, listed, deleted.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use outlive_core::session::Created;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::command::{Variables, given, session_spec};
use super::super::error::ContainerError;
use super::super::{clock, folder, names, terminal};
use crate::api::App;
use crate::api::extract::Body;
use crate::api::problem::Problem;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct CreateRequest {
    id: Option<String>,
    env: Option<Variables>,
    cwd: Option<String>,
    command_timeout_ms: Option<u64>,
}

pub(in super::super) async fn create(
    State(app): State<App>,
    body: Result<Body<CreateRequest>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Body(request) = body?;
    if request.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(ContainerError::invalid("id: must not be blank"));
    }
    let cwd = folder::or_home(request.cwd).await;
    let mut spec = session_spec(String::new(), cwd);
    spec.id = request.id.as_deref().map(names::to_core);
    spec.env = given(request.env);
    spec.command_timeout_ms = request.command_timeout_ms.filter(|ms| *ms > 0);
    let session = loop {
        match app.core.create_session(spec.clone()).await? {
            Created::New(session) => break session,
            Created::Existing(session) if session.info().exited_at_ms.is_some() => {
                // Its shell has ended: whoever makes it again wants another one.
                delete_whole(&app, session.id().to_owned()).await?;
            }
            Created::Existing(session) => {
                return Err(ContainerError::session_exists(&names::from_core(session.id())));
            }
        }
    };
    let info = session.info();
    let data =
        json!({ "id": names::from_core(&info.id), "cwd": info.cwd, "createdAt": clock::text(info.created_at_ms) });
    Ok(Json(json!({ "success": true, "data": data, "containerPlacementId": null, "timestamp": clock::now() })))
}

pub(in super::super) async fn list(State(app): State<App>) -> Json<Value> {
    let ids: Vec<String> = app.core.sessions().iter().map(|session| names::from_core(session.id())).collect();
    Json(json!({ "success": true, "data": ids, "timestamp": clock::now() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct DeleteRequest {
    session_id: Option<String>,
}

pub(in super::super) async fn delete(
    State(app): State<App>,
    body: Result<Body<DeleteRequest>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Body(DeleteRequest { session_id }) = body?;
    let id = session_id.filter(|id| !id.trim().is_empty());
    let id = id.ok_or_else(|| ContainerError::invalid("sessionId: which session is to be deleted?"))?;
    if !end(&app, &names::to_core(&id)).await? {
        return Err(ContainerError::no_session(&id));
    }
    Ok(Json(json!({ "success": true, "sessionId": id, "timestamp": clock::now() })))
}

/// Ends a session and the terminal of that id. False: there was neither.
pub(in super::super) async fn end(app: &App, id: &str) -> outlive_core::Result<bool> {
    const KILL_WITHIN: Duration = Duration::from_secs(5);
    let terminal = terminal::find(app, id);
    if let Some(terminal) = &terminal {
        let _ = terminal.kill(KILL_WITHIN).await;
        let _ = terminal.delete(true).await;
    }
    if app.core.find_session(id).is_err() {
        return Ok(terminal.is_some());
    }
    delete_whole(app, id.to_owned()).await?;
    Ok(true)
}

/// A task of its own: nobody who goes away leaves it half deleted.
async fn delete_whole(app: &App, id: String) -> outlive_core::Result<()> {
    let core = app.core.clone();
    let deleted = tokio::spawn(async move { core.delete_session(&id).await }).await;
    match deleted.map_err(|_| outlive_core::Error::holder_gone())? {
        // Somebody else was faster.
        Err(outlive_core::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}
