//! Where a command is to run: in which session, or in none.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use outlive_core::session::Session;

use super::super::error::ContainerError;
use super::super::{command, names};
use crate::access::Grant;
use crate::access::credentials::after_scheme;
use crate::api::App;

/// Says that there is to be no session.
const STATELESS: &str = "__DISABLE_SESSION__";
const USUAL: &str = "default";
/// Shows the token where Bearer names a session.
const TOKEN: &str = "x-outlive-token";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Alone,
    /// By the name that clients have for it.
    Session(String),
}

/// What a request says about it besides its body.
pub(in super::super) struct Named(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ContainerError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ContainerError> {
        let grant = Grant::from_request_parts(parts, state).await?;
        Ok(Self(named(&parts.headers, parts.uri.query().unwrap_or(""), grant.token.is_some())))
    }
}

fn named(headers: &HeaderMap, query: &str, by_token: bool) -> Option<String> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    // Who has shown a token elsewhere, or needed none, has nothing but a session to name by it.
    let bearer_is_free = !by_token || headers.contains_key(TOKEN);
    let bearer = || after_scheme(header(header::AUTHORIZATION.as_str())?, "bearer").filter(|_| bearer_is_free);
    let in_query = |name: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    let in_headers = bearer().or_else(|| header("x-session-id")).map(str::to_owned);
    in_headers.or_else(|| in_query("session")).or_else(|| in_query("sessionId"))
}

impl Named {
    /// `body`: what the body says, which counts first.
    pub(super) fn place(self, body: Option<String>) -> Result<Place, ContainerError> {
        let id = body.or(self.0).unwrap_or_else(|| USUAL.to_owned());
        match id.as_str() {
            STATELESS => Ok(Place::Alone),
            blank if blank.trim().is_empty() => Err(ContainerError::invalid("sessionId: must not be blank")),
            _ => Ok(Place::Session(id)),
        }
    }
}

impl Place {
    /// Made now if there is none; `None`: there is to be none.
    pub(super) async fn session(&self, app: &App) -> Result<Option<Arc<Session>>, ContainerError> {
        match self {
            Self::Alone => Ok(None),
            Self::Session(id) => Ok(Some(command::session(app, &names::to_core(id)).await?)),
        }
    }

    /// As it is told to clients.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Alone => STATELESS,
            Self::Session(id) => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn bearer_is_a_token_where_one_is_needed_and_a_session_where_not() {
        let bearer = ("authorization", "Bearer s1");
        let of = |all: &[(&'static str, &str)], by_token| named(&headers(all), "", by_token);
        assert_eq!(of(&[bearer], false).as_deref(), Some("s1"));
        assert_eq!(of(&[bearer], true), None);
        assert_eq!(of(&[bearer, (TOKEN, "t")], true).as_deref(), Some("s1"));
        assert_eq!(of(&[bearer, ("x-session-id", "s2")], true).as_deref(), Some("s2"));
        assert_eq!(of(&[("authorization", "Basic x")], false), None);
        assert_eq!(named(&headers(&[]), "a=b&session=s%203&sessionId=s4", false).as_deref(), Some("s 3"));
    }

    #[test]
    fn the_body_counts_first_and_nothing_means_the_usual_one() {
        let place =
            |named: Option<&str>, body: Option<&str>| Named(named.map(str::to_owned)).place(body.map(str::to_owned));
        assert_eq!(place(Some("a"), Some("b")).unwrap(), Place::Session("b".into()));
        assert_eq!(place(None, None).unwrap(), Place::Session("default".into()));
        assert_eq!(place(None, Some(STATELESS)).unwrap(), Place::Alone);
        assert!(place(Some("a"), Some("  ")).is_err());
    }
}
