//! Sessions of the container: create, list, delete.

use axum::Json;
use axum::extract::State;
use outlive_core::session::CreateOutcome;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::command::{Variables, without_nulls};
use super::super::error::ContainerError;
use super::super::{directory, session};
use crate::http::AppState;
use crate::http::extract::{Body, WithRejection};
use crate::rfc3339;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct CreateRequest {
    id: Option<String>,
    env: Option<Variables>,
    cwd: Option<String>,
    command_timeout_ms: Option<u64>,
}

pub(in super::super) async fn create(
    State(app): State<AppState>,
    WithRejection(Body(request), _): WithRejection<Body<CreateRequest>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    if request.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(ContainerError::invalid("id: must not be blank"));
    }
    let cwd = directory::existing_or_home(request.cwd).await;
    let mut spec = session::spec(request.id.as_deref().map(session::to_core_id), cwd);
    spec.env = without_nulls(request.env);
    spec.command_timeout_ms = request.command_timeout_ms.filter(|ms| *ms > 0);
    let session = loop {
        match app.core.create_session(spec.clone()).await? {
            CreateOutcome::New(session) => break session,
            // The shell of this session has exited, so it can be replaced.
            CreateOutcome::Existing(existing) if existing.info().exited_at_ms.is_some() => {
                session::delete(&app, existing.id().to_owned()).await?;
            }
            CreateOutcome::Existing(existing) => {
                return Err(ContainerError::session_exists(&session::from_core_id(existing.id())));
            }
        }
    };
    let info = session.info();
    let data = json!({
        "id": session::from_core_id(&info.id),
        "cwd": info.cwd,
        "createdAt": rfc3339::format_millis(info.created_at_ms),
    });
    Ok(Json(json!({ "success": true, "data": data, "containerPlacementId": null, "timestamp": rfc3339::now() })))
}

pub(in super::super) async fn list(State(app): State<AppState>) -> Json<Value> {
    let ids: Vec<String> = app.core.sessions().iter().map(|session| session::from_core_id(session.id())).collect();
    Json(json!({ "success": true, "data": ids, "timestamp": rfc3339::now() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct DeleteRequest {
    session_id: Option<String>,
}

pub(in super::super) async fn delete(
    State(app): State<AppState>,
    WithRejection(Body(DeleteRequest { session_id }), _): WithRejection<Body<DeleteRequest>, ContainerError>,
) -> Result<Json<Value>, ContainerError> {
    let id = session_id.filter(|id| !id.trim().is_empty());
    let id = id.ok_or_else(|| ContainerError::invalid("sessionId: must not be blank"))?;
    if !session::delete_with_terminal(&app, &session::to_core_id(&id)).await? {
        return Err(ContainerError::session_not_found(&id));
    }
    Ok(Json(json!({ "success": true, "sessionId": id, "timestamp": rfc3339::now() })))
}
