//! Handlers of the calls about sessions and their messages.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use outlive_core::Core;
use outlive_holder::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::command::{CommandRequest, SessionCommand, ShellRequest};
use super::message::{Message, fill_output_within, zero_tokens};
use super::store::Sessions;
use super::task;
use crate::dialect::opencode::error::{Failure, V1Error};
use crate::dialect::opencode::location::Location;
use crate::dialect::opencode::static_routes::VERSION;
use crate::dialect::opencode::{OpenCode, ids};
use crate::http::AppState;
use crate::http::extract::{OptionalBody, Params, Path, WithRejection};

/// Output of all messages in one response, as JSON. The newest messages have priority. A response stays in memory until
/// its client has read it.
const MAX_OUTPUT_BYTES: usize = 2 << 20;

/// The session with this id, if the location covers it.
fn find(core: &Core, location: &Location, id: &str) -> Result<Value, Failure> {
    if !id.starts_with("ses") {
        return Err(Failure::invalid_id("sessionID", "ses", id));
    }
    let session = Sessions::find(core, id)?;
    let is_covered = location.covers(directory(&session));
    is_covered.then_some(session).ok_or_else(|| Failure::session_not_found(id))
}

fn directory(session: &Value) -> &str {
    session["directory"].as_str().unwrap_or_default()
}

fn publish(opencode: &OpenCode, kind: &'static str, session: &Value) {
    let properties = json!({ "sessionID": session["id"], "info": session });
    opencode.bus.publish(kind, directory(session), &properties);
}

// ---- sessions

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    roots: Option<bool>,
    search: Option<String>,
    start: Option<u64>,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Params(query), _): WithRejection<Params<ListQuery>, V1Error>,
) -> Json<Value> {
    let mut sessions = Sessions::list(&app.core);
    let search = query.search.unwrap_or_default().to_lowercase();
    sessions.retain(|session| {
        location.covers(directory(session))
            && (query.roots != Some(true) || session.get("parentID").is_none())
            && session["title"].as_str().unwrap_or_default().to_lowercase().contains(&search)
            && session["time"]["updated"].as_u64() >= query.start
    });
    sessions.sort_by_key(|session| std::cmp::Reverse(session["time"]["updated"].as_u64()));
    sessions.truncate(query.limit.unwrap_or(usize::MAX));
    Json(sessions.into())
}

/// The fields of a session that a client may set.
#[derive(Deserialize)]
pub(crate) struct SessionRequest {
    title: Option<String>,
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
    agent: Option<String>,
    model: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
    permission: Option<Vec<Value>>,
    #[serde(rename = "workspaceID")]
    workspace_id: Option<String>,
    time: Option<TimeRequest>,
}

#[derive(Deserialize)]
struct TimeRequest {
    archived: Option<u64>,
}

impl SessionRequest {
    fn apply(self, session: &mut Value) {
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                session[name] = value;
            }
        };
        set("title", self.title.filter(|title| !title.is_empty()).map(Value::from));
        set("agent", self.agent.map(Value::from));
        set("model", self.model.map(Value::from));
        set("metadata", self.metadata.map(Value::from));
        set("permission", self.permission.map(Value::from));
        set("workspaceID", self.workspace_id.map(Value::from));
        if let Some(archived) = self.time.and_then(|time| time.archived) {
            session["time"]["archived"] = archived.into();
        }
        session["time"]["updated"] = clock::wall_ms().into();
    }
}

pub(crate) async fn create(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<SessionRequest>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    let mut session = json!({
        "id": ids::descending("ses"),
        "projectID": "global",
        "directory": location.directory_or_default(),
        "path": "",
        "title": "New session",
        "version": VERSION,
        "cost": 0,
        "tokens": zero_tokens(),
        "time": { "created": clock::wall_ms() },
    });
    let slug = session["id"].as_str().map(|id| id[id.len() - 8..].to_lowercase());
    session["slug"] = slug.into();
    if let Some(workspace) = &location.workspace {
        session["workspaceID"] = workspace.as_str().into();
    }
    if let Some(parent) = &request.parent_id {
        Sessions::find(&app.core, parent)?;
        session["parentID"] = parent.as_str().into();
    }
    request.apply(&mut session);
    for removed in opencode.sessions.make_room(&app.core)? {
        publish(&opencode, "session.deleted", &removed);
    }
    Sessions::put(&app.core, &session)?;
    publish(&opencode, "session.created", &session);
    Ok(Json(session))
}

pub(crate) async fn get(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    Ok(Json(find(&app.core, &location, &id)?))
}

pub(crate) async fn update(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<SessionRequest>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    find(&app.core, &location, &id)?;
    let session = opencode.sessions.edit(&app.core, &id, |session| request.apply(session))?;
    publish(&opencode, "session.updated", &session);
    Ok(Json(session))
}

pub(crate) async fn remove(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<bool>, V1Error> {
    let session = find(&app.core, &location, &id)?;
    task::abort(&opencode, &id).await;
    opencode.sessions.remove(&app.core, &id)?;
    publish(&opencode, "session.deleted", &session);
    Ok(Json(true))
}

/// The status of busy sessions. OpenCode's own server leaves out idle ones too.
pub(crate) async fn status(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
) -> Json<Value> {
    let busy = opencode.sessions.busy().into_iter();
    let busy = busy.filter(|id| find(&app.core, &location, id).is_ok());
    Json(busy.map(|id| (id, json!({ "type": "busy" }))).collect::<Map<_, _>>().into())
}

pub(crate) async fn children(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    find(&app.core, &location, &id)?;
    let sessions = Sessions::list(&app.core).into_iter();
    Ok(Json(sessions.filter(|session| session["parentID"] == *id).collect::<Vec<_>>().into()))
}

/// Without a model, a session has neither todos nor changed files.
pub(crate) async fn empty_list(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<Value>, V1Error> {
    find(&app.core, &location, &id)?;
    Ok(Json(json!([])))
}

// ---- messages

#[derive(Deserialize)]
pub(crate) struct MessagesQuery {
    /// Only the newest ones.
    limit: Option<usize>,
    /// Only messages before the one with this id.
    before: Option<String>,
}

pub(crate) async fn list_messages(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(Params(query), _): WithRejection<Params<MessagesQuery>, V1Error>,
) -> Result<Response, V1Error> {
    find(&app.core, &location, &id)?;
    let mut messages = Sessions::messages(&app.core, &id);
    if let Some(before) = &query.before {
        messages.retain(|message| message.id() < before.as_str());
    }
    let surplus = messages.len().saturating_sub(query.limit.unwrap_or(usize::MAX));
    messages.drain(..surplus);
    Ok(respond_with_output(&app.core, messages, |messages| serde_json::to_vec(&messages)).await)
}

pub(crate) async fn get_message(
    State(app): State<AppState>,
    location: Location,
    WithRejection(Path((id, message)), _): WithRejection<Path<(String, String)>, V1Error>,
) -> Result<Response, V1Error> {
    find(&app.core, &location, &id)?;
    let found = Sessions::message(&app.core, &id, &message);
    let message = found.ok_or_else(|| Failure::message_not_found(&message))?;
    Ok(message_response(&app.core, message).await)
}

async fn message_response(core: &Core, message: Message) -> Response {
    respond_with_output(core, vec![message], |messages| serde_json::to_vec(&messages.first())).await
}

/// Fills in the output of commands and serializes, on a blocking thread because the logs may be large.
async fn respond_with_output(
    core: &Core,
    mut messages: Vec<Message>,
    serialize: fn(&[Message]) -> serde_json::Result<Vec<u8>>,
) -> Response {
    let (core, runtime) = (core.clone(), tokio::runtime::Handle::current());
    let body = tokio::task::spawn_blocking(move || {
        let mut room = MAX_OUTPUT_BYTES;
        for part in messages.iter_mut().rev().flat_map(|message| &mut message.parts) {
            room = room.saturating_sub(runtime.block_on(fill_output_within(&core, part, room)));
        }
        serialize(&messages).unwrap_or_default()
    });
    ([(header::CONTENT_TYPE, "application/json")], body.await.unwrap_or_default()).into_response()
}

// ---- commands

/// Runs a line of shell text; responds with its message when it has exited.
pub(crate) async fn shell(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<ShellRequest>, V1Error>,
) -> Result<Response, V1Error> {
    let session = find(&app.core, &location, &id)?;
    let command = SessionCommand::from_shell(request, directory(&session))?;
    let message = task::run(&app.core, &opencode, session, command).await?;
    Ok(message_response(&app.core, message).await)
}

/// Runs a program with arguments; responds with its message when it has exited.
pub(crate) async fn command(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<CommandRequest>, V1Error>,
) -> Result<Response, V1Error> {
    let session = find(&app.core, &location, &id)?;
    let command = SessionCommand::from_command(request, directory(&session))?;
    let message = task::run(&app.core, &opencode, session, command).await?;
    Ok(message_response(&app.core, message).await)
}

pub(crate) async fn abort(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
) -> Result<Json<bool>, V1Error> {
    find(&app.core, &location, &id)?;
    task::abort(&opencode, &id).await;
    Ok(Json(true))
}

/// Parses the input as the body and the queries about sessions.
#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(data: &[u8]) {
    use crate::api::fuzzing::{query, request_with_query};
    use crate::dialect::opencode::fuzzing::check_failure;

    match crate::http::extract::parse::<SessionRequest>(data) {
        Ok(request) => {
            let mut session = json!({ "id": "ses_1", "title": "New session", "time": { "updated": 0 } });
            request.apply(&mut session);
            assert_eq!(session["id"], "ses_1");
            assert!(session["title"].as_str().is_some_and(|title| !title.is_empty()));
            assert!(session["time"]["updated"].as_u64() > Some(0));
        }
        Err(problem) => check_failure(problem.into()),
    }
    if let Some(mut parts) = request_with_query(data) {
        query::<ListQuery>(&mut parts);
        query::<MessagesQuery>(&mut parts);
    }
}
