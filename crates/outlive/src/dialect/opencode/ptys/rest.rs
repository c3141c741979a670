//! The calls about terminals, of both APIs. They differ in their envelope, in whether terminals that ended are there, and in their words for errors.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::attach::Role;
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::super::error::{Api, Failure};
use super::super::location::Location;
use super::super::payload::{Named, Payload};
use super::{Seen, create as making, find, find_running, remove as removing, update as updating};
use crate::access::Grant;
use crate::access::ticket::Ticket;
use crate::api::App;

/// By this header a page shows that it may send headers, which a form of another page cannot.
const TICKET_HEADER: &str = "x-opencode-ticket";

pub(in super::super) async fn shells() -> Json<Value> {
    let shells = tokio::task::spawn_blocking(super::shells).await.unwrap_or_default();
    Json(shells.into())
}

// ---- the first API

pub(in super::super) async fn list(State(app): State<App>, location: Location) -> Json<Value> {
    Json(listed(&app, &location, false))
}

pub(in super::super) async fn create(State(app): State<App>, location: Location, payload: Payload) -> Response {
    answer(Api::First, created(&app, &location, payload).await)
}

pub(in super::super) async fn get(State(app): State<App>, location: Location, Named(id): Named<String>) -> Response {
    // 404 tells the web client that a terminal is over, and it replaces it.
    answer(Api::First, find_running(&app, &location, &id).map(|process| Seen::of(&process).to_pty()))
}

pub(in super::super) async fn update(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    answer(Api::First, updated(find_running(&app, &location, &id), payload).await)
}

pub(in super::super) async fn remove(State(app): State<App>, location: Location, Named(id): Named<String>) -> Response {
    answer(
        Api::First,
        find_running(&app, &location, &id).and_then(|process| removing::remove(&process)).map(|()| true.into()),
    )
}

pub(in super::super) async fn connect_token(
    State(app): State<App>,
    location: Location,
    grant: Grant,
    headers: HeaderMap,
    Named(id): Named<String>,
) -> Response {
    answer(Api::First, ticket(&app, &location, &grant, &headers, &id))
}

// ---- below /api

pub(in super::super) async fn api_list(State(app): State<App>, location: Location) -> Json<Value> {
    Json(located(&location, listed(&app, &location, true)))
}

pub(in super::super) async fn api_create(State(app): State<App>, location: Location, payload: Payload) -> Response {
    answer(Api::Second, created(&app, &location, payload).await.map(|pty| located(&location, pty)))
}

pub(in super::super) async fn api_get(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
) -> Response {
    answer(Api::Second, find(&app, &location, &id).map(|process| located(&location, Seen::of(&process).to_pty())))
}

pub(in super::super) async fn api_update(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    answer(Api::Second, updated(find(&app, &location, &id), payload).await.map(|pty| located(&location, pty)))
}

pub(in super::super) async fn api_remove(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
) -> Response {
    match find(&app, &location, &id).and_then(|process| removing::remove(&process)) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(failure) => failure.on(Api::Second),
    }
}

pub(in super::super) async fn api_connect_token(
    State(app): State<App>,
    location: Location,
    grant: Grant,
    headers: HeaderMap,
    Named(id): Named<String>,
) -> Response {
    answer(Api::Second, ticket(&app, &location, &grant, &headers, &id).map(|ticket| located(&location, ticket)))
}

// ---- both

fn answer(api: Api, done: Result<Value, Failure>) -> Response {
    match done {
        Ok(value) => Json(value).into_response(),
        Err(failure) => failure.on(api),
    }
}

fn located(location: &Location, data: Value) -> Value {
    json!({ "location": location.to_json(), "data": data })
}

fn listed(app: &App, location: &Location, with_exited: bool) -> Value {
    super::list(app, location, with_exited).iter().map(Seen::to_pty).collect()
}

async fn created(app: &App, location: &Location, payload: Payload) -> Result<Value, Failure> {
    let process = making::create(app, location, payload.parse()?).await?;
    Ok(Seen::of(&process).to_pty())
}

async fn updated(found: Result<Arc<Process>, Failure>, payload: Payload) -> Result<Value, Failure> {
    let request = payload.parse()?;
    let process = found?;
    updating::update(&process, request).await?;
    Ok(Seen::of(&process).to_pty())
}

fn ticket(app: &App, location: &Location, grant: &Grant, headers: &HeaderMap, id: &str) -> Result<Value, Failure> {
    if headers.get(TICKET_HEADER).is_none_or(|value| value != "1") {
        return Err(Failure::NoTicket);
    }
    let process = find(app, location, id)?;
    let role = grant.role_at(process.id(), Some(Role::Writer)).map_err(crate::api::problem::Problem::from)?;
    let ticket = Ticket { process: process.id().to_owned(), role, who: grant.who.to_string(), token: grant.token };
    let issued = app.access.tickets.issue(ticket);
    let (ticket, valid_for) = issued.ok_or_else(Failure::too_many_tickets)?;
    Ok(json!({ "ticket": ticket, "expires_in": valid_for.as_secs() }))
}
