//! Tokens that an admin gives out while outlive runs. They are known to the next server too.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::Error;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Body, Path};
use super::problem::{Answer, Kind, Problem};
use super::state::App;
use crate::access::Scope;
use crate::access::token::{Token, random_secret};

/// Names in the journal begin like this.
const PREFIX: &str = "token/";
const FILE: &str = "token-file";
const MOST: usize = 1_000;
const LONGEST_NAME: usize = 100;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenInfo {
    name: String,
    scope: Scope,
    /// `start` (flag, environment or made at the start), `file`, or `issued` by an admin.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TokenList {
    tokens: Vec<TokenInfo>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TokenRequest {
    /// By which it is listed, audited and revoked.
    name: String,
    scope: Scope,
    expires_in_ms: Option<u64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedToken {
    /// Shown this once.
    token: String,
    name: String,
    scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// What earlier servers gave out.
pub(crate) fn issued(core: &outlive_core::Core) -> Vec<Token> {
    let kept = core.stored(PREFIX);
    kept.into_iter().filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
}

/// Those of the token file as it was when it last made sense.
pub(crate) fn of_file(core: &outlive_core::Core) -> Vec<Token> {
    let kept = core.stored(FILE).into_iter().next();
    kept.and_then(|(_, value)| serde_json::from_slice(&value).ok()).unwrap_or_default()
}

pub(crate) fn keep_of_file(core: &outlive_core::Core, tokens: &[Token]) {
    let value = serde_json::to_vec(tokens).unwrap_or_default();
    if let Err(error) = core.store(FILE, Some(value)) {
        tracing::warn!(%error, "the tokens of the file cannot be kept for the next server");
    }
}

/// From now on this token is known, to the next server too; one of the same name is not any more.
pub(crate) fn keep(app: &App, token: Token) -> outlive_core::Result<()> {
    let value = serde_json::to_vec(&token).unwrap_or_default();
    app.core.store(&format!("{PREFIX}{}", token.name), Some(value))?;
    app.access.issue(token);
    Ok(())
}

/// The tokens that are known, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", responses((status = 200, body = TokenList), (status = "4XX", body = Problem)))]
pub(super) async fn list(State(app): State<App>) -> Json<TokenList> {
    let tokens = app.access.tokens().into_iter().map(|(token, source)| TokenInfo {
        name: token.name,
        scope: token.scope,
        source,
        expires_at_ms: token.expires_at_ms,
    });
    Json(TokenList { tokens: tokens.collect() })
}

/// A new token.
#[utoipa::path(post, path = "/v1/tokens", request_body = TokenRequest, responses(
    (status = 200, body = IssuedToken), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn issue(State(app): State<App>, Body(request): Body<TokenRequest>) -> Answer<Json<IssuedToken>> {
    let TokenRequest { name, scope, expires_in_ms } = request;
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(Error::invalid("name", format!("1 to {LONGEST_NAME} printable bytes"), &name).into());
    }
    if !app.access.needs_token() {
        let message = "outlive was started with --no-token: everybody is let in already";
        return Err(Error::conflict("no_tokens", message).into());
    }
    let known = app.access.tokens();
    if known.iter().any(|(token, _)| token.name == name) {
        return Err(Error::conflict("token_name_taken", format!("there is a token with the name {name}")).into());
    }
    if known.len() >= MOST {
        return Err(Error::conflict("too_many_tokens", format!("at most {MOST} tokens: revoke some")).into());
    }
    let secret = random_secret().map_err(|error| {
        let detail = format!("no random numbers: {error}");
        Problem::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "no_randomness", detail)
    })?;
    let expires_at_ms = expires_in_ms.map(|ms| outlive_holder::clock::wall_ms().saturating_add(ms));
    keep(&app, Token { expires_at_ms, ..Token::new(name.clone(), scope, &secret) })?;
    Ok(Json(IssuedToken { token: secret, name, scope, expires_at_ms }))
}

/// Revoke a token that was given out. What is open by it stays open until it ends.
#[utoipa::path(delete, path = "/v1/tokens/{name}", params(("name" = String, Path)), responses(
    (status = 204), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn revoke(State(app): State<App>, Path(name): Path<String>) -> Answer<StatusCode> {
    if !app.access.revoke(&name) {
        return Err(Error::NotFound { resource: "issued token", id: name }.into());
    }
    app.core.store(&format!("{PREFIX}{name}"), None)?;
    Ok(StatusCode::NO_CONTENT)
}
