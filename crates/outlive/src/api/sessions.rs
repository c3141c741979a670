//! Persistent shells: making, listing, deleting, and starting processes from them.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::process::{ProcessInfo, RestartMode, Spec};
use outlive_core::session::{Created, SessionInfo, SessionSpec, StartSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::extract::{Body, JsonBytes, Path, parse};
use super::problem::{Answer, Kind, Problem};
use super::processes::idempotency_key;
use super::state::App;

#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    sessions: Vec<SessionInfo>,
}

/// Make a session: a shell that remembers.
#[utoipa::path(post, path = "/v1/sessions", request_body = SessionSpec, responses(
    (status = 200, body = SessionInfo), (status = 409, body = Problem, description = "It exists; `details.session` is it"),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn create(State(app): State<App>, Body(spec): Body<SessionSpec>) -> Answer<Json<SessionInfo>> {
    match app.core.create_session(spec).await? {
        Created::New(session) => Ok(Json(session.info())),
        Created::Existing(session) => {
            let detail = format!("conflict: the session {} exists already; use it, or delete it first", session.id());
            Err(Problem::new(Kind::Conflict, StatusCode::CONFLICT, "session_exists", detail)
                .with_details(json!({ "session": session.info() })))
        }
    }
}

/// List sessions, oldest first.
#[utoipa::path(get, path = "/v1/sessions", responses((status = 200, body = SessionList)))]
pub(super) async fn list(State(app): State<App>) -> Json<SessionList> {
    Json(SessionList { sessions: app.core.sessions().iter().map(|session| session.info()).collect() })
}

/// Read one session.
#[utoipa::path(get, path = "/v1/sessions/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = SessionInfo), (status = 404, body = Problem)))]
pub(super) async fn get(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<SessionInfo>> {
    Ok(Json(app.core.find_session(&id)?.info()))
}

/// End a session: its shell, what that started, and its records. Managed processes go on unless they said otherwise.
#[utoipa::path(delete, path = "/v1/sessions/{id}", params(("id" = String, Path)), responses(
    (status = 204), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn delete(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    // A task of its own: nobody who goes away leaves it half deleted.
    let core = app.core.clone();
    let deleted = tokio::spawn(async move { core.delete_session(&id).await }).await;
    deleted.map_err(|_| Problem::from(outlive_core::Error::holder_gone()))??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A process to be started from a session. `command` is a line for its shell.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read in two halves so that errors name the field")]
pub(super) struct StartRequest {
    #[serde(flatten)]
    spec: Spec,
    #[serde(flatten)]
    how: StartHow,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartHow {
    /// End it when the session is deleted.
    #[serde(default)]
    kill_with_session: bool,
}

/// Start a managed process with a copy of the session's state. Nothing flows back.
#[utoipa::path(post, path = "/v1/sessions/{id}/processes", request_body = StartRequest, params(
    ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn start_process(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Answer<Json<ProcessInfo>> {
    let session = app.core.find_session(&id)?;
    let how: StartHow = parse(&body)?;
    let spec: Spec = parse(&body)?;
    let given = [
        ("args", !spec.args.is_empty()),
        ("cwd", spec.cwd.is_some()),
        ("user", spec.user.is_some()),
        ("restart", spec.restart.mode != RestartMode::Never),
    ];
    if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
        let detail = format!("invalid request: {field} comes from the session, or cannot be repeated from it");
        return Err(Problem::bad_request("invalid_value", detail)
            .with_field(field)
            .with_expected("nothing", "a value"));
    }
    let idempotency_key = idempotency_key(&headers)?;
    let start = StartSpec { spec, kill_with_session: how.kill_with_session, idempotency_key };
    Ok(Json(app.core.start_in_session(&session, start).await?.info()))
}
