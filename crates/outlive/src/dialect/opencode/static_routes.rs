//! Responses that OpenCode's web client requests before it shows anything. outlive has no models, agents, projects or
//! plugins; these responses say so in the shapes that the client expects.

use axum::Json;
use axum::extract::State;
use outlive_holder::clock;
use serde_json::{Map, Value, json};

use super::location::Location;
use super::shells::default_shell;
use crate::http::AppState;
use crate::http::RequiredScope;

/// The only agent. The SDK requires an agent's name with every command; outlive accepts any.
const AGENT: &str = "build";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The web client reads the API version from this response: a `healthy` field means V1.
pub(super) async fn health(State(app): State<AppState>) -> Json<Value> {
    Json(json!({ "healthy": !app.core.holder_is_gone(), "version": VERSION }))
}

pub(super) async fn api_health(State(app): State<AppState>) -> Json<Value> {
    Json(json!({ "healthy": !app.core.holder_is_gone(), "version": VERSION, "pid": std::process::id() }))
}

pub(super) async fn location(location: Location) -> Json<Value> {
    Json(location.to_json())
}

pub(super) async fn path(location: Location) -> Json<Value> {
    let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let directory = location.directory_or_default();
    Json(json!({
        "home": home, "state": directory, "config": directory, "worktree": directory, "directory": directory,
    }))
}

/// The one project, which contains every directory.
fn global_project(app: &AppState, location: &Location) -> Value {
    let time = json!({ "created": app.core.welcome().started_at_ms, "updated": clock::wall_ms() });
    json!({ "id": "global", "worktree": location.directory_or_default(), "sandboxes": [], "time": time })
}

pub(super) async fn project(State(app): State<AppState>, location: Location) -> Json<Value> {
    Json(global_project(&app, &location))
}

pub(super) async fn projects(State(app): State<AppState>, location: Location) -> Json<Value> {
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
    Json(json!([{
        "name": AGENT, "description": "Runs commands. No model answers.", "mode": "primary", "native": true,
        "permission": [], "options": {},
    }]))
}

pub(super) async fn empty_list() -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn empty_object() -> Json<Value> {
    Json(json!({}))
}

/// The routes of this dialect as an OpenAPI document, for generated clients.
pub(super) async fn openapi_document() -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for route in super::routes().into_list() {
        let method = route.method.as_str().to_lowercase();
        let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters: Vec<Value> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let required = match route.required {
            RequiredScope::Attach => "a ticket, or the scope write (read to look only)".to_owned(),
            scope => format!("the scope {}", scope.name()),
        };
        let operation = json!({
            "operationId": operation_id(&method, route.path),
            "description": format!("Needs {required}."),
            "parameters": parameters,
            "responses": { "200": { "description": "Success" }, "default": { "description": "Error" } },
        });
        if let Value::Object(methods) = paths.entry(route.path).or_insert_with(|| json!({})) {
            methods.insert(method, operation);
        }
    }
    let info = json!({ "title": "opencode", "version": VERSION, "description": "OpenCode's API as outlive serves it" });
    Json(json!({ "openapi": "3.1.0", "info": info, "paths": paths }))
}

/// `get /session/{id}/message` is `session.id.message.get`.
fn operation_id(method: &str, path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| part.trim_matches(['{', '}']));
    parts.chain([method]).collect::<Vec<_>>().join(".")
}
