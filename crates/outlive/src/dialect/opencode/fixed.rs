//! What the web client asks before it shows anything. outlive has no models, agents, projects or plugins, and says so in the shapes that
//! the client understands.

use axum::Json;
use axum::extract::State;
use outlive_holder::clock;
use serde_json::{Map, Value, json};

use super::location::Location;
use super::ptys::default_shell;
use crate::api::App;
use crate::front::Needs;

/// Who runs the commands of people here. The SDK asks for a name, and any will do.
const AGENT: &str = "build";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// By this the web client knows which API to speak: `healthy` means the first one.
pub(super) async fn health(State(app): State<App>) -> Json<Value> {
    Json(json!({ "healthy": !app.core.holder_is_gone(), "version": VERSION }))
}

pub(super) async fn api_health(State(app): State<App>) -> Json<Value> {
    Json(json!({ "healthy": !app.core.holder_is_gone(), "version": VERSION, "pid": std::process::id() }))
}

pub(super) async fn location(location: Location) -> Json<Value> {
    Json(location.to_json())
}

pub(super) async fn path(location: Location) -> Json<Value> {
    let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let folder = location.folder();
    Json(json!({ "home": home, "state": folder, "config": folder, "worktree": folder, "directory": folder }))
}

/// All folders belong to it.
fn global_project(app: &App, location: &Location) -> Value {
    let began = app.core.welcome().started_at_ms;
    json!({ "id": "global", "worktree": location.folder(), "sandboxes": [], "time": { "created": began, "updated": clock::wall_ms() } })
}

pub(super) async fn project(State(app): State<App>, location: Location) -> Json<Value> {
    Json(global_project(&app, &location))
}

pub(super) async fn projects(State(app): State<App>, location: Location) -> Json<Value> {
    Json(json!([global_project(&app, &location)]))
}

pub(super) async fn config() -> Json<Value> {
    Json(json!({ "shell": default_shell(), "share": "disabled", "autoupdate": false, "default_agent": AGENT }))
}

pub(super) async fn providers() -> Json<Value> {
    Json(json!({ "all": [], "default": {}, "connected": [] }))
}

pub(super) async fn config_providers() -> Json<Value> {
    Json(json!({ "providers": [], "default": {} }))
}

pub(super) async fn agents() -> Json<Value> {
    let description = "Runs commands. No model answers.";
    Json(
        json!([{ "name": AGENT, "description": description, "mode": "primary", "native": true, "permission": [], "options": {} }]),
    )
}

pub(super) async fn none() -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn none_by_name() -> Json<Value> {
    Json(json!({}))
}

/// The routes of this dialect as an OpenAPI document, for clients that are made from one.
pub(super) async fn document() -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for route in super::routes().into_list() {
        let method = route.method.as_str().to_lowercase();
        let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters: Vec<Value> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let needs = match route.needs {
            Needs::Attach => "a ticket, or the scope write (read to look only)".to_owned(),
            needs => format!("the scope {}", needs.name()),
        };
        let operation = json!({
            "operationId": operation_id(&method, route.path),
            "description": format!("Needs {needs}."),
            "parameters": parameters,
            "responses": { "200": { "description": "Done" }, "default": { "description": "Why not" } },
        });
        if let Value::Object(methods) = paths.entry(route.path).or_insert_with(|| json!({})) {
            methods.insert(method, operation);
        }
    }
    let info = json!({ "title": "opencode", "version": VERSION, "description": "OpenCode's API as outlive speaks it" });
    Json(json!({ "openapi": "3.1.0", "info": info, "paths": paths }))
}

/// `get /session/{id}/message` is `session.id.message.get`.
fn operation_id(method: &str, path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| part.trim_matches(['{', '}']));
    parts.chain([method]).collect::<Vec<_>>().join(".")
}
