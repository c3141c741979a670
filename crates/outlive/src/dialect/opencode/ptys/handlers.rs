//! Handlers of the calls about terminals, of both APIs. V2 wraps results in a `location` envelope, includes exited
//! terminals, and has its own error shapes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use outlive_core::attach::Role;
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::lifecycle::{CreateRequest, UpdateRequest};
use super::{PtyInfo, find, find_running, lifecycle};
use crate::access::Grant;
use crate::access::ticket::{DEFAULT_LIFETIME, Validity};
use crate::dialect::opencode::OpenCode;
use crate::dialect::opencode::error::{Failure, V1Error, V2Error};
use crate::dialect::opencode::location::Location;
use crate::dialect::opencode::shells::list_shells;
use crate::http::AppState;
use crate::http::extract::{OptionalBody, Path, WithRejection};
use crate::http::problem::Problem;

/// A request for a ticket must carry this header. A cross-site form cannot send custom headers.
const TICKET_HEADER: &str = "x-opencode-ticket";

pub(crate) async fn shells() -> Json<Value> {
    let shells = tokio::task::spawn_blocking(list_shells).await.unwrap_or_default();
    Json(shells.into())
}

// ---- V1

pub(crate) async fn list(State(app): State<AppState>, location: Location) -> Json<Value> {
    Json(super::list(&app.core, &location, false).iter().map(PtyInfo::to_json).collect())
}

pub(crate) async fn create(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<CreateRequest>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    let process = lifecycle::create(&app.core, &opencode.trackers, &location, request).await?;
    Ok(Json(pty_json(&process)))
}

/// The web client reads 404 as "the terminal is over" and opens a new one, so V1 does not find exited terminals.
pub(crate) async fn get(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    Ok(Json(pty_json(find_running(&app.core, &location, &id)?.as_ref())))
}

pub(crate) async fn update(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<UpdateRequest>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    let process = find_running(&app.core, &location, &id)?;
    lifecycle::update(&process, request).await?;
    Ok(Json(pty_json(&process)))
}

pub(crate) async fn remove(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<bool>, V1Error> {
    lifecycle::remove(&find_running(&app.core, &location, &id)?)?;
    Ok(Json(true))
}

pub(crate) async fn connect_token(
    State(app): State<AppState>,
    location: Location,
    grant: Grant,
    headers: HeaderMap,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    Ok(Json(issue_ticket(&app, &location, &grant, &headers, &id)?))
}

// ---- V2, below /api

pub(crate) async fn api_list(State(app): State<AppState>, location: Location) -> Json<Value> {
    let ptys = super::list(&app.core, &location, true).iter().map(PtyInfo::to_json).collect();
    with_location(&location, ptys)
}

pub(crate) async fn api_create(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<CreateRequest>, V2Error>,
) -> Result<Json<Value>, V2Error> {
    let process = lifecycle::create(&app.core, &opencode.trackers, &location, request).await?;
    Ok(with_location(&location, pty_json(&process)))
}

pub(crate) async fn api_get(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V2Error>,
) -> Result<Json<Value>, V2Error> {
    let process = find(&app.core, &location, &id)?;
    Ok(with_location(&location, pty_json(&process)))
}

pub(crate) async fn api_update(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V2Error>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<UpdateRequest>, V2Error>,
) -> Result<Json<Value>, V2Error> {
    let process = find(&app.core, &location, &id)?;
    lifecycle::update(&process, request).await?;
    Ok(with_location(&location, pty_json(&process)))
}

pub(crate) async fn api_remove(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V2Error>,
) -> Result<StatusCode, V2Error> {
    lifecycle::remove(&find(&app.core, &location, &id)?)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn api_connect_token(
    State(app): State<AppState>,
    location: Location,
    grant: Grant,
    headers: HeaderMap,
    WithRejection(Path(id), _): WithRejection<Path<String>, V2Error>,
) -> Result<Json<Value>, V2Error> {
    let ticket = issue_ticket(&app, &location, &grant, &headers, &id)?;
    Ok(with_location(&location, ticket))
}

// ---- both

fn pty_json(process: &Process) -> Value {
    PtyInfo::from_process(process).to_json()
}

fn with_location(location: &Location, data: Value) -> Json<Value> {
    Json(json!({ "location": location.to_json(), "data": data }))
}

fn issue_ticket(
    app: &AppState,
    location: &Location,
    grant: &Grant,
    headers: &HeaderMap,
    id: &str,
) -> Result<Value, Failure> {
    if headers.get(TICKET_HEADER).is_none_or(|value| value != "1") {
        return Err(Failure::TicketHeaderMissing);
    }
    let process = find(&app.core, location, id)?;
    let role = grant.role_for(process.id(), Some(Role::Writer)).map_err(Problem::from)?;
    let (_, secret) = app.access.issue_ticket(grant, process.id(), role, Validity::default())?;
    Ok(json!({ "ticket": secret, "expires_in": DEFAULT_LIFETIME.as_secs() }))
}
