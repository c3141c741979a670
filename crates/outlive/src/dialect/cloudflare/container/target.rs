//! Where a command runs: in a session, or without one.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use outlive_core::session::Session;

use super::super::error::ContainerError;
use super::super::session;
use crate::access::Grant;
use crate::access::credentials::strip_scheme;
use crate::http::AppState;

/// The session id that means no session.
const STATELESS: &str = "__DISABLE_SESSION__";
const DEFAULT_SESSION: &str = "default";
/// Header with the token where `Authorization: Bearer` names a session.
const TOKEN: &str = "x-outlive-token";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandTarget {
    Stateless,
    /// The client's id of the session.
    Session(String),
}

impl CommandTarget {
    /// The session, created if it does not exist; `None` if the command runs without one.
    pub(super) async fn session(&self, app: &AppState) -> Result<Option<Arc<Session>>, ContainerError> {
        match self {
            Self::Stateless => Ok(None),
            Self::Session(id) => Ok(Some(session::find_or_create(app, &session::to_core_id(id)).await?)),
        }
    }

    /// The session id in responses.
    pub(super) fn session_id(&self) -> &str {
        match self {
            Self::Stateless => STATELESS,
            Self::Session(id) => id,
        }
    }
}

/// The session id in the headers or the query of a request.
#[derive(Default)]
pub(in super::super) struct RequestSession(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for RequestSession {
    type Rejection = ContainerError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ContainerError> {
        let grant = Grant::from_request_parts(parts, state).await?;
        Ok(Self(session_id(&parts.headers, parts.uri.query().unwrap_or(""), grant.token.is_some())))
    }
}

impl RequestSession {
    /// The session id in the body takes precedence.
    pub(super) fn target(self, body_session: Option<String>) -> Result<CommandTarget, ContainerError> {
        let id = body_session.or(self.0).unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        match id.as_str() {
            STATELESS => Ok(CommandTarget::Stateless),
            blank if blank.trim().is_empty() => Err(ContainerError::invalid("sessionId: must not be blank")),
            _ => Ok(CommandTarget::Session(id)),
        }
    }
}

fn session_id(headers: &HeaderMap, query: &str, has_token: bool) -> Option<String> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    // Bearer can only be a session id if it is not what authenticated the client.
    let is_bearer_free = !has_token || headers.contains_key(TOKEN);
    let bearer = || strip_scheme(header(header::AUTHORIZATION.as_str())?, "bearer").filter(|_| is_bearer_free);
    let in_query = |name: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    let in_headers = bearer().or_else(|| header("x-session-id")).map(str::to_owned);
    in_headers.or_else(|| in_query("session")).or_else(|| in_query("sessionId"))
}

/// Reads the session id of a request. A bearer token that authenticates the client is never a session id.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    let Some(mut parts) = crate::fuzzing::request(data) else { return };
    let query = parts.uri.query().unwrap_or("").to_owned();
    for has_token in [false, true] {
        let id = session_id(&parts.headers, &query, has_token);
        if let Err(error) = RequestSession(id).target(None) {
            super::super::fuzzing::check_response(error);
        }
    }
    parts.headers.remove(TOKEN);
    let with_bearer = session_id(&parts.headers, &query, true);
    parts.headers.remove(header::AUTHORIZATION);
    assert_eq!(session_id(&parts.headers, &query, true), with_bearer);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn bearer_names_a_session_unless_it_authenticates() {
        let bearer = ("authorization", "Bearer s1");
        let id = |pairs: &[(&'static str, &str)], has_token| session_id(&headers(pairs), "", has_token);
        assert_eq!(id(&[bearer], false).as_deref(), Some("s1"));
        assert_eq!(id(&[bearer], true), None);
        assert_eq!(id(&[bearer, (TOKEN, "t")], true).as_deref(), Some("s1"));
        assert_eq!(id(&[bearer, ("x-session-id", "s2")], true).as_deref(), Some("s2"));
        assert_eq!(id(&[("authorization", "Basic x")], false), None);
        assert_eq!(session_id(&headers(&[]), "a=b&session=s%203&sessionId=s4", false).as_deref(), Some("s 3"));
    }

    #[test]
    fn the_session_of_the_body_takes_precedence() {
        let target = |request: Option<&str>, body: Option<&str>| {
            RequestSession(request.map(str::to_owned)).target(body.map(str::to_owned))
        };
        assert_eq!(target(Some("a"), Some("b")).unwrap(), CommandTarget::Session("b".into()));
        assert_eq!(target(None, None).unwrap(), CommandTarget::Session("default".into()));
        assert_eq!(target(None, Some(STATELESS)).unwrap(), CommandTarget::Stateless);
        assert!(target(Some("a"), Some("  ")).is_err());
    }
}
