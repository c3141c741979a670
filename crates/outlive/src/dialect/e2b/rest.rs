//! envd's plain HTTP endpoints: `/health`, `/metrics`, `/envs` and `/init`.
//!
//! E2B's orchestrator calls `/init` to set what applies to every later start: variables, user, directory and token.
//! Without an orchestrator, the administrator may call it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use outlive_core::observe;
use outlive_core::process::check_variable;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::render_rest_error;
use super::start::Defaults;
use crate::access::Scope;
use crate::access::token::Token;
use crate::access::token_store;
use crate::http::AppState;
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::rfc3339;

/// Name of the token that `/init` sets. Its scope is write; calling `/init` again needs an admin token.
const TOKEN: &str = "e2b-init";
/// The envd version whose behaviour this dialect follows. Clients enable features by it.
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-envd-version"), HeaderValue::from_static("0.6.13"));

/// 204 while processes can be started. Never 502: the SDKs take that for a sandbox that no longer exists.
pub(super) async fn health(State(app): State<AppState>) -> StatusCode {
    if app.core.holder_is_gone() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}

pub(super) async fn metrics() -> Json<Value> {
    let machine = observe::machine().await;
    Json(json!({
        "ts": machine.at_ms / 1000,
        "cpu_count": machine.cpus,
        "cpu_used_pct": machine.cpu_used_percent,
        "mem_total": machine.memory_total_bytes,
        "mem_used": machine.memory_used_bytes,
        "mem_cache": machine.memory_cache_bytes,
        "mem_total_mib": machine.memory_total_bytes >> 20,
        "mem_used_mib": machine.memory_used_bytes >> 20,
        "disk_used": machine.disk_used_bytes,
        "disk_total": machine.disk_total_bytes,
    }))
}

/// The variables of every process.
pub(super) async fn envs(State(app): State<AppState>) -> Json<Value> {
    Json(serde_json::to_value(Defaults::load(&app).variables).unwrap_or_default())
}

/// Every field is optional. Fields that are not listed concern other parts of an E2B sandbox.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitRequest {
    env_vars: Option<BTreeMap<String, String>>,
    access_token: Option<String>,
    default_user: Option<String>,
    default_workdir: Option<String>,
    timestamp: Option<String>,
}

pub(super) async fn init(State(app): State<AppState>, body: Result<Body<InitRequest>, Problem>) -> Response {
    let applied = body.and_then(|Body(request)| apply(&app, request));
    match applied {
        Ok(()) => (StatusCode::NO_CONTENT, [VERSION]).into_response(),
        Err(problem) => render_rest_error(problem),
    }
}

fn apply(app: &AppState, request: InitRequest) -> Result<(), Problem> {
    let mut defaults = Defaults::load(app);
    if let Some(text) = &request.timestamp {
        let at = rfc3339::parse(text).ok_or_else(|| {
            Problem::bad_request("invalid_timestamp", "timestamp: expected a time such as 2026-02-03T04:05:06Z")
        })?;
        if defaults.at.is_some_and(|latest| at < latest) {
            // A later request overtook this one.
            return Ok(());
        }
        defaults.at = Some(at);
    }
    for (name, value) in request.env_vars.iter().flatten() {
        check_variable(name, value)?;
    }
    if let Some(secret) = request.access_token.filter(|secret| !secret.is_empty()) {
        set_token(app, &secret)?;
    }
    let set = |value: Option<String>, default: &mut Option<String>| {
        if let Some(value) = value {
            *default = (!value.is_empty()).then_some(value);
        }
    };
    set(request.default_user, &mut defaults.user);
    set(request.default_workdir, &mut defaults.workdir);
    if let Some(variables) = request.env_vars {
        defaults.variables = variables;
    }
    Ok(defaults.store(app)?)
}

fn set_token(app: &AppState, secret: &str) -> Result<(), Problem> {
    if !app.access.needs_token() {
        let message = "cannot set a token: outlive was started with --no-token; start it with a token";
        return Err(Error::conflict("no_tokens", message).into());
    }
    if app.access.has_token_under_another_name(TOKEN, secret) {
        let message = "another token already has this secret; choose another one";
        return Err(Error::conflict("token_known", message).into());
    }
    Ok(token_store::issue(&app.core, &app.access, Token::new(TOKEN, Scope::Write, secret))?)
}
