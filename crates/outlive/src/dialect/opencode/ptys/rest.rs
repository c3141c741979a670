//! The calls about terminals, of both APIs. They differ in their envelope, in whether terminals that ended are there, and in their words for errors.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::attach::Role;
use outlive_core::process::Process;
use serde_json::{Value, json};

use super::super::error::{Failure, Surface};
use super::super::payload::{Named, Payload};
use super::super::scope::Scope;
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

pub(in super::super) async fn list(State(app): State<App>, scope: Scope) -> Json<Value> {
    Json(listed(&app, &scope, false))
}

pub(in super::super) async fn create(State(app): State<App>, scope: Scope, payload: Payload) -> Response {
    answer(Surface::First, created(&app, &scope, payload).await)
}

pub(in super::super) async fn get(State(app): State<App>, scope: Scope, Named(id): Named<String>) -> Response {
    // 404 tells the web client that a terminal is over, and it replaces it.
    answer(Surface::First, find_running(&app, &scope, &id).map(|process| Seen::of(&process).to_pty()))
}

pub(in super::super) async fn update(
    State(app): State<App>,
    scope: Scope,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    answer(Surface::First, updated(find_running(&app, &scope, &id), payload).await)
}

pub(in super::super) async fn remove(State(app): State<App>, scope: Scope, Named(id): Named<String>) -> Response {
    answer(
        Surface::First,
        find_running(&app, &scope, &id).and_then(|process| removing::remove(&process)).map(|()| true.into()),
    )
}

pub(in super::super) async fn connect_token(
    State(app): State<App>,
    scope: Scope,
    grant: Grant,
    headers: HeaderMap,
    Named(id): Named<String>,
) -> Response {
    answer(Surface::First, ticket(&app, &scope, &grant, &headers, &id))
}

// ---- below /api

pub(in super::super) async fn api_list(State(app): State<App>, scope: Scope) -> Json<Value> {
    Json(located(&scope, listed(&app, &scope, true)))
}

pub(in super::super) async fn api_create(State(app): State<App>, scope: Scope, payload: Payload) -> Response {
    answer(Surface::Api, created(&app, &scope, payload).await.map(|pty| located(&scope, pty)))
}

pub(in super::super) async fn api_get(State(app): State<App>, scope: Scope, Named(id): Named<String>) -> Response {
    answer(Surface::Api, find(&app, &scope, &id).map(|process| located(&scope, Seen::of(&process).to_pty())))
}

pub(in super::super) async fn api_update(
    State(app): State<App>,
    scope: Scope,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    answer(Surface::Api, updated(find(&app, &scope, &id), payload).await.map(|pty| located(&scope, pty)))
}

pub(in super::super) async fn api_remove(State(app): State<App>, scope: Scope, Named(id): Named<String>) -> Response {
    match find(&app, &scope, &id).and_then(|process| removing::remove(&process)) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(failure) => failure.on(Surface::Api),
    }
}

pub(in super::super) async fn api_connect_token(
    State(app): State<App>,
    scope: Scope,
    grant: Grant,
    headers: HeaderMap,
    Named(id): Named<String>,
) -> Response {
    answer(Surface::Api, ticket(&app, &scope, &grant, &headers, &id).map(|ticket| located(&scope, ticket)))
}

// ---- both

fn answer(surface: Surface, done: Result<Value, Failure>) -> Response {
    match done {
        Ok(value) => Json(value).into_response(),
        Err(failure) => failure.on(surface),
    }
}

fn located(scope: &Scope, data: Value) -> Value {
    json!({ "location": scope.location(), "data": data })
}

fn listed(app: &App, scope: &Scope, with_exited: bool) -> Value {
    super::list(app, scope, with_exited).iter().map(Seen::to_pty).collect()
}

async fn created(app: &App, scope: &Scope, payload: Payload) -> Result<Value, Failure> {
    let process = making::create(app, scope, payload.parse()?).await?;
    Ok(Seen::of(&process).to_pty())
}

async fn updated(found: Result<Arc<Process>, Failure>, payload: Payload) -> Result<Value, Failure> {
    let request = payload.parse()?;
    let process = found?;
    updating::update(&process, request).await?;
    Ok(Seen::of(&process).to_pty())
}

fn ticket(app: &App, scope: &Scope, grant: &Grant, headers: &HeaderMap, id: &str) -> Result<Value, Failure> {
    if headers.get(TICKET_HEADER).is_none_or(|value| value != "1") {
        return Err(Failure::NoTicket);
    }
    let process = find(app, scope, id)?;
    let role = grant.role_at(process.id(), Some(Role::Writer)).map_err(crate::api::problem::Problem::from)?;
    let ticket = Ticket { process: process.id().to_owned(), role, who: grant.who.to_string(), token: grant.token };
    let issued = app.access.tickets.issue(ticket);
    let (ticket, valid_for) = issued.ok_or_else(Failure::too_many_tickets)?;
    Ok(json!({ "ticket": ticket, "expires_in": valid_for.as_secs() }))
}
