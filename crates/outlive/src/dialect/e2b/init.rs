//! `/init`: what holds for all processes that are started from now on. E2B's orchestrator calls it; who runs
//! outlive alone may, to set variables, a user, a folder or a token.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive_core::process::check_variable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::in_rest_words;
use super::timestamp;
use crate::access::Scope;
use crate::access::token::Token;
use crate::api::extract::Body;
use crate::api::problem::Problem;
use crate::api::{self, App};

/// Under this name it survives the server.
const STORED_AS: &str = "e2b/init";
/// The token of `/init` among the others. It is for those who use the sandbox; another `/init` needs an admin's.
const TOKEN: &str = "e2b-init";
/// Of `envd` whose behaviour this follows: clients tell by it what they may ask for.
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-envd-version"), HeaderValue::from_static("0.6.13"));
/// Every process has it.
const ALWAYS: (&str, &str) = ("E2B_SANDBOX", "true");

/// What holds unless a client asks for something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Defaults {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) user: Option<String>,
    pub(super) workdir: Option<String>,
    /// Of the latest `/init`, in nanoseconds since 1970.
    pub(super) at: Option<i128>,
}

impl Defaults {
    pub(super) fn read(app: &App) -> Self {
        let stored = app.core.stored(STORED_AS).into_iter().find(|(rest, _)| rest.is_empty());
        let mut known: Self = stored.and_then(|(_, value)| serde_json::from_slice(&value).ok()).unwrap_or_default();
        known.variables.entry(ALWAYS.0.to_owned()).or_insert_with(|| ALWAYS.1.to_owned());
        known
    }
}

/// All of it may be missing; what we do not know is for other parts of a sandbox.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitRequest {
    env_vars: Option<BTreeMap<String, String>>,
    access_token: Option<String>,
    default_user: Option<String>,
    default_workdir: Option<String>,
    timestamp: Option<String>,
}

pub(super) async fn init(State(app): State<App>, body: Result<Body<InitRequest>, Problem>) -> Response {
    let done = body.and_then(|Body(request)| apply(&app, request));
    match done {
        Ok(()) => (StatusCode::NO_CONTENT, [VERSION]).into_response(),
        Err(problem) => in_rest_words(problem),
    }
}

fn apply(app: &App, request: InitRequest) -> Result<(), Problem> {
    let mut known = Defaults::read(app);
    if let Some(text) = &request.timestamp {
        let at = timestamp::parse(text).ok_or_else(|| {
            Problem::bad_request("invalid_timestamp", "timestamp: expected a time such as 2026-02-03T04:05:06Z")
        })?;
        if known.at.is_some_and(|latest| at < latest) {
            // Overtaken by a later one.
            return Ok(());
        }
        known.at = Some(at);
    }
    for (name, value) in request.env_vars.iter().flatten() {
        check_variable(name, value)?;
    }
    if let Some(secret) = request.access_token.filter(|secret| !secret.is_empty()) {
        if !app.access.needs_token() {
            let message = "outlive was started with --no-token and lets everybody in: start it with a token to set one";
            return Err(outlive_core::Error::conflict("no_tokens", message).into());
        }
        if app.access.knows_otherwise(TOKEN, &secret) {
            let message = "this token is known under another name already, with a scope of its own: choose another one";
            return Err(outlive_core::Error::conflict("token_known", message).into());
        }
        api::keep_token(app, Token::new(TOKEN, Scope::Write, &secret))?;
    }
    let set = |value: Option<String>, known: &mut Option<String>| {
        if let Some(value) = value {
            *known = (!value.is_empty()).then_some(value);
        }
    };
    set(request.default_user, &mut known.user);
    set(request.default_workdir, &mut known.workdir);
    if let Some(variables) = request.env_vars {
        known.variables = variables;
    }
    let value = serde_json::to_vec(&known).unwrap_or_default();
    Ok(app.core.store(STORED_AS, Some(value))?)
}

/// The variables that every process gets.
pub(super) async fn envs(State(app): State<App>) -> axum::Json<Value> {
    axum::Json(serde_json::to_value(Defaults::read(&app).variables).unwrap_or_default())
}
