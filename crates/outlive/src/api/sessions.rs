//! Sessions (persistent shells): creating, listing, deleting, and starting processes from them.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::process::{ProcessInfo, RestartMode, Spec};
use outlive_core::session::{CreateOutcome, SessionInfo, SessionSpec, StartSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::processes::spec_field_names;
use crate::http::AppState;
use crate::http::extract::{Body, Path};
use crate::http::problem::{HandlerResult, Kind, Problem};
use crate::http::unknown_fields::{BodyWithUnknownFields, ReportsUnknownFields, UnknownFields, field_names};
use crate::http::values::idempotency_key;

#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    sessions: Vec<SessionInfo>,
}

/// Create a session: a persistent shell.
#[utoipa::path(post, path = "/v1/sessions", request_body = SessionSpec, responses(
    (status = 200, body = SessionInfo),
    (status = 409, body = Problem, description = "The session exists; it is in `details.session`"),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn create(
    State(app): State<AppState>,
    Body(spec): Body<SessionSpec>,
) -> HandlerResult<Json<SessionInfo>> {
    match app.core.create_session(spec).await? {
        CreateOutcome::New(session) => Ok(Json(session.info())),
        CreateOutcome::Existing(session) => {
            let detail = format!("conflict: the session {} exists already; use it, or delete it first", session.id());
            Err(Problem::new(Kind::Conflict, StatusCode::CONFLICT, "session_exists", detail)
                .with_details(json!({ "session": session.info() })))
        }
    }
}

/// List sessions, oldest first.
#[utoipa::path(get, path = "/v1/sessions", responses((status = 200, body = SessionList)))]
pub(super) async fn list(State(app): State<AppState>) -> Json<SessionList> {
    Json(SessionList { sessions: app.core.sessions().iter().map(|session| session.info()).collect() })
}

/// Read one session.
#[utoipa::path(get, path = "/v1/sessions/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = SessionInfo), (status = 404, body = Problem)))]
pub(super) async fn get(State(app): State<AppState>, Path(id): Path<String>) -> HandlerResult<Json<SessionInfo>> {
    Ok(Json(app.core.find_session(&id)?.info()))
}

/// Delete a session: its shell, the shell's background jobs, and its records. Managed processes that were started from
/// it continue, unless they were started with `killWithSession`.
#[utoipa::path(delete, path = "/v1/sessions/{id}", params(("id" = String, Path)), responses(
    (status = 204), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn delete(State(app): State<AppState>, Path(id): Path<String>) -> HandlerResult<Response> {
    // A task of its own, so that a client that disconnects does not leave the session half deleted.
    let core = app.core.clone();
    let deleted = tokio::spawn(async move { core.delete_session(&id).await }).await;
    deleted.map_err(|_| Problem::from(outlive_core::Error::holder_gone()))??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A process to start from a session. `command` is a line for its shell.
#[derive(Deserialize, ToSchema)]
pub(super) struct StartRequest {
    #[serde(flatten)]
    spec: Spec,
    #[serde(flatten)]
    options: StartOptions,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StartHow)]
pub(super) struct StartOptions {
    /// Kill the process when the session is deleted.
    #[serde(default)]
    kill_with_session: bool,
}

impl ReportsUnknownFields for StartRequest {
    fn parse(bytes: &[u8], unknown: &mut UnknownFields) -> HandlerResult<Self> {
        let (spec, options) = unknown.collect_both(bytes)?;
        Ok(Self { spec, options })
    }

    fn field_names(object: &str) -> Vec<&'static str> {
        match object {
            "" => [field_names::<Spec>(), field_names::<StartOptions>()].concat(),
            _ => spec_field_names(object),
        }
    }
}

/// Start a managed process with a copy of the session's state. The process does not change the session.
#[utoipa::path(post, path = "/v1/sessions/{id}/processes", request_body = StartRequest, params(
    ("id" = String, Path), ("strict" = Option<bool>, Query, description = "Reject unknown fields of the body."),
    ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, body = ProcessInfo, headers(
        ("x-outlive-unknown-fields" = String, description = "Fields of the body that have no effect."))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn start_process(
    State(app): State<AppState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    BodyWithUnknownFields(request, unknown): BodyWithUnknownFields<StartRequest>,
) -> (UnknownFields, HandlerResult<Json<ProcessInfo>>) {
    (unknown, start_in_session(&app, &id, &headers, request).await)
}

async fn start_in_session(
    app: &AppState,
    id: &str,
    headers: &HeaderMap,
    request: StartRequest,
) -> HandlerResult<Json<ProcessInfo>> {
    let session = app.core.find_session(id)?;
    let StartRequest { spec, options } = request;
    let given = [
        ("args", !spec.args.is_empty()),
        ("cwd", spec.cwd.is_some()),
        ("user", spec.user.is_some()),
        ("restart", spec.restart.mode != RestartMode::Never),
    ];
    if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
        let detail = format!("invalid request: {field} is determined by the session; leave it out");
        return Err(Problem::bad_request("invalid_value", detail)
            .with_field(field)
            .with_expected("nothing", "a value"));
    }
    let idempotency_key = idempotency_key(headers)?;
    let start = StartSpec { spec, kill_with_session: options.kill_with_session, idempotency_key };
    Ok(Json(app.core.start_in_session(&session, start).await?.info()))
}
