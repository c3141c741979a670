//! The calls about messages, and those that make some.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use outlive_core::Core;
use serde::Deserialize;
use serde_json::Value;

use super::super::error::{Api, Failure};
use super::super::location::Location;
use super::super::payload::{Asked, Named, Payload};
use super::order::Order;
use super::rest::find;
use super::shapes::Message;
use super::store::Sessions;
use super::{output, run};
use crate::api::App;

/// Of all output in one answer, as it is written there; the newest first. An answer is in memory until its client has read it.
const ANSWER_BYTES: usize = 2 << 20;

#[derive(Deserialize)]
pub(in super::super) struct MessagesQuery {
    /// The newest ones.
    limit: Option<usize>,
    /// Those before this one.
    before: Option<String>,
}

pub(in super::super) async fn list(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    Asked(query): Asked<MessagesQuery>,
) -> Response {
    if let Err(failure) = find(&app.core, &location, &id) {
        return failure.on(Api::First);
    }
    let mut all = Sessions::messages(&app.core, &id);
    if let Some(before) = &query.before {
        all.retain(|message| message.id() < before.as_str());
    }
    let surplus = all.len().saturating_sub(query.limit.unwrap_or(usize::MAX));
    all.drain(..surplus);
    with_output(&app.core, all, |all| serde_json::to_vec(&all)).await
}

pub(in super::super) async fn get(
    State(app): State<App>,
    location: Location,
    Named((id, message)): Named<(String, String)>,
) -> Response {
    if let Err(failure) = find(&app.core, &location, &id) {
        return failure.on(Api::First);
    }
    match Sessions::message(&app.core, &id, &message) {
        Some(message) => whole(&app.core, message).await,
        None => Failure::no_message(&message).on(Api::First),
    }
}

async fn whole(core: &Core, message: Message) -> Response {
    with_output(core, vec![message], |all| serde_json::to_vec(&all.first())).await
}

/// Reading and writing so much takes a while, and nobody else should wait for it.
async fn with_output(
    core: &Core,
    mut all: Vec<Message>,
    write: fn(&[Message]) -> serde_json::Result<Vec<u8>>,
) -> Response {
    let core = core.clone();
    let written = tokio::task::spawn_blocking(move || {
        let mut left = ANSWER_BYTES;
        for part in all.iter_mut().rev().flat_map(|message| &mut message.parts) {
            left = left.saturating_sub(output::fill_answer(&core, part, left));
        }
        write(&all).unwrap_or_default()
    });
    let body = written.await.unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

// ---- commands

pub(in super::super) async fn shell(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    let ordered = || {
        let request = payload.parse()?;
        let session = find(&app.core, &location, &id)?;
        let order = Order::of_shell(request, folder(&session))?;
        Ok((session, order))
    };
    carry_out(&app, ordered()).await
}

pub(in super::super) async fn command(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    let ordered = || {
        let request = payload.parse()?;
        let session = find(&app.core, &location, &id)?;
        let order = Order::of_command(request, folder(&session))?;
        Ok((session, order))
    };
    carry_out(&app, ordered()).await
}

fn folder(session: &Value) -> &str {
    session["directory"].as_str().unwrap_or("/")
}

async fn carry_out(app: &App, ordered: Result<(Value, Order), Failure>) -> Response {
    let (session, order) = match ordered {
        Ok(ordered) => ordered,
        Err(failure) => return failure.on(Api::First),
    };
    match run::run(&app.core, &app.opencode, session, order).await {
        Ok(message) => whole(&app.core, message).await,
        Err(failure) => failure.on(Api::First),
    }
}

pub(in super::super) async fn abort(State(app): State<App>, location: Location, Named(id): Named<String>) -> Response {
    if let Err(failure) = find(&app.core, &location, &id) {
        return failure.on(Api::First);
    }
    run::abort(&app.opencode, &id).await;
    Json(true).into_response()
}
