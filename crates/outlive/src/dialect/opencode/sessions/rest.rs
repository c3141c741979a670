//! The calls about sessions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use outlive_core::Core;
use outlive_holder::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::error::{Api, Failure};
use super::super::fixed::VERSION;
use super::super::id;
use super::super::location::Location;
use super::super::payload::{Asked, Named, Payload};
use super::run;
use super::shapes::no_tokens;
use super::store::Sessions;
use crate::api::App;

fn answer(done: Result<Value, Failure>) -> Response {
    match done {
        Ok(value) => Json(value).into_response(),
        Err(failure) => failure.on(Api::First),
    }
}

#[derive(Deserialize)]
pub(in super::super) struct ListQuery {
    roots: Option<bool>,
    search: Option<String>,
    start: Option<u64>,
    limit: Option<usize>,
}

pub(in super::super) async fn list(
    State(app): State<App>,
    location: Location,
    Asked(query): Asked<ListQuery>,
) -> Json<Value> {
    let mut all = Sessions::list(&app.core);
    let search = query.search.unwrap_or_default().to_lowercase();
    all.retain(|session| {
        location.covers(session["directory"].as_str().unwrap_or_default())
            && (query.roots != Some(true) || session.get("parentID").is_none())
            && session["title"].as_str().unwrap_or_default().to_lowercase().contains(&search)
            && session["time"]["updated"].as_u64() >= query.start
    });
    all.sort_by_key(|session| std::cmp::Reverse(session["time"]["updated"].as_u64()));
    all.truncate(query.limit.unwrap_or(usize::MAX));
    Json(all.into())
}

/// What a client may say of a session; the rest of it is ours.
#[derive(Deserialize)]
pub(in super::super) struct SessionRequest {
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

pub(in super::super) async fn create(State(app): State<App>, location: Location, payload: Payload) -> Response {
    answer(created(&app, &location, payload))
}

fn created(app: &App, location: &Location, payload: Payload) -> Result<Value, Failure> {
    let request: SessionRequest = payload.parse()?;
    let mut session = json!({
        "id": id::descending("ses"),
        "projectID": "global",
        "directory": location.folder(),
        "path": "",
        "title": "New session",
        "version": VERSION,
        "cost": 0,
        "tokens": no_tokens(),
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
    for removed in app.opencode.sessions.make_room(&app.core)? {
        say(app, "session.deleted", &removed);
    }
    Sessions::put(&app.core, &session)?;
    say(app, "session.created", &session);
    Ok(session)
}

fn say(app: &App, kind: &'static str, session: &Value) {
    let folder = session["directory"].as_str().unwrap_or_default();
    app.opencode.bus.say(kind, folder, &json!({ "sessionID": session["id"], "info": session }));
}

/// Whether it is there, and for who asks.
pub(super) fn find(core: &Core, location: &Location, id: &str) -> Result<Value, Failure> {
    if !id.starts_with("ses") {
        return Err(Failure::no_id("sessionID", "ses", id));
    }
    let session = Sessions::find(core, id)?;
    let is_meant = location.covers(session["directory"].as_str().unwrap_or_default());
    is_meant.then_some(session).ok_or_else(|| Failure::no_session(id))
}

pub(in super::super) async fn get(State(app): State<App>, location: Location, Named(id): Named<String>) -> Response {
    answer(find(&app.core, &location, &id))
}

pub(in super::super) async fn update(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    payload: Payload,
) -> Response {
    let updated = || {
        let request: SessionRequest = payload.parse()?;
        find(&app.core, &location, &id)?;
        let session = app.opencode.sessions.edit(&app.core, &id, |session| request.apply(session))?;
        say(&app, "session.updated", &session);
        Ok(session)
    };
    answer(updated())
}

pub(in super::super) async fn remove(State(app): State<App>, location: Location, Named(id): Named<String>) -> Response {
    let session = match find(&app.core, &location, &id) {
        Ok(session) => session,
        Err(failure) => return failure.on(Api::First),
    };
    run::abort(&app.opencode, &id).await;
    let removed = app.opencode.sessions.remove(&app.core, &id).map(|()| {
        say(&app, "session.deleted", &session);
        true.into()
    });
    answer(removed)
}

/// Those that are busy; idle ones are left out, as there.
pub(in super::super) async fn status(State(app): State<App>, location: Location) -> Json<Value> {
    let busy = app.opencode.sessions.busy().into_iter();
    let busy = busy.filter(|id| find(&app.core, &location, id).is_ok());
    Json(busy.map(|id| (id, json!({ "type": "busy" }))).collect::<Map<_, _>>().into())
}

pub(in super::super) async fn children(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
) -> Response {
    let children = find(&app.core, &location, &id).map(|_| {
        let all = Sessions::list(&app.core).into_iter();
        all.filter(|session| session["parentID"] == *id).collect::<Vec<_>>().into()
    });
    answer(children)
}

/// There is no model, so a session has neither plans nor changed files.
pub(in super::super) async fn nothing_of(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
) -> Response {
    answer(find(&app.core, &location, &id).map(|_| json!([])))
}
