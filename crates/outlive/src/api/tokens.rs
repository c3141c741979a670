//! Tokens that an admin issues at run time.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::Error;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Scope;
use crate::access::token::{Token, random_secret};
use crate::access::token_store;
use crate::http::AppState;
use crate::http::extract::{Body, Path};
use crate::http::problem::{HandlerResult, Kind, Problem};

const MAX_TOKENS: usize = 1_000;
const MAX_NAME_BYTES: usize = 100;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenInfo {
    name: String,
    scope: Scope,
    /// `start` (flag, environment or generated at the start), `file`, or `issued` by an admin.
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
    /// Identifies the token in lists, in the audit log and for revoking.
    name: String,
    scope: Scope,
    expires_in_ms: Option<u64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedToken {
    /// Shown only once.
    token: String,
    name: String,
    scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// List tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", responses((status = 200, body = TokenList), (status = "4XX", body = Problem)))]
pub(super) async fn list(State(app): State<AppState>) -> Json<TokenList> {
    let tokens = app.access.tokens().into_iter().map(|(token, source)| TokenInfo {
        name: token.name,
        scope: token.scope,
        source,
        expires_at_ms: token.expires_at_ms,
    });
    Json(TokenList { tokens: tokens.collect() })
}

/// Issue a token.
#[utoipa::path(post, path = "/v1/tokens", request_body = TokenRequest, responses(
    (status = 200, body = IssuedToken), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn issue(
    State(app): State<AppState>,
    Body(request): Body<TokenRequest>,
) -> HandlerResult<Json<IssuedToken>> {
    let TokenRequest { name, scope, expires_in_ms } = request;
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(Error::invalid("name", format!("1 to {MAX_NAME_BYTES} printable bytes"), &name).into());
    }
    if !app.access.needs_token() {
        let message = "outlive was started with --no-token, so every client is admitted without a token";
        return Err(Error::conflict("no_tokens", message).into());
    }
    let known = app.access.tokens();
    if known.iter().any(|(token, _)| token.name == name) {
        return Err(Error::conflict("token_name_taken", format!("a token named {name} exists; revoke it first")).into());
    }
    if known.len() >= MAX_TOKENS {
        return Err(Error::conflict(
            "too_many_tokens",
            format!("there are {MAX_TOKENS} tokens, the maximum; revoke some"),
        )
        .into());
    }
    let secret = random_secret().map_err(|error| {
        let detail = format!("cannot get random bytes: {error}");
        Problem::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "no_randomness", detail)
    })?;
    let expires_at_ms = expires_in_ms.map(|ms| outlive_holder::clock::wall_ms().saturating_add(ms));
    token_store::issue(&app.core, &app.access, Token { expires_at_ms, ..Token::new(name.clone(), scope, &secret) })?;
    Ok(Json(IssuedToken { token: secret, name, scope, expires_at_ms }))
}

/// Revoke an issued token. Connections that are open stay open.
#[utoipa::path(delete, path = "/v1/tokens/{name}", params(("name" = String, Path)), responses(
    (status = 204), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn revoke(State(app): State<AppState>, Path(name): Path<String>) -> HandlerResult<StatusCode> {
    if token_store::revoke(&app.core, &app.access, &name)? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Error::NotFound { resource: "issued token", id: name }.into())
    }
}
