//! What every request passes before its handler: who may talk to us at all, who this is, what they may do; and what every
//! answer carries. The rules are in access/.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Front;
use crate::access::door::Unwanted;
use crate::access::{Grant, Refusal, Scope, credentials};
use crate::api::App;
use crate::api::problem::{Kind, Problem};
use crate::peer::{self, Peer};
use crate::server::Place;

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Everybody may, without showing anything.
    Nothing,
    Scope(Scope),
    /// A scope that the handler knows by the role; here tickets and tokens in the query count too.
    Attach,
}

impl Needs {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "open",
            Self::Scope(scope) => scope.name(),
            Self::Attach => "attach",
        }
    }
}

/// Host, Origin, CORS and the headers of every answer.
pub(super) async fn door(
    front: Front,
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let (parts, body) = request.into_parts();
    let from_tcp = matches!(peer::of(&parts), Peer::Tcp(_));
    let checked = app.access.door.check(&parts.method, &parts.uri, &parts.headers, from_tcp);
    let (origin, mut response) = match checked {
        Err(unwanted) => (None, front.refuse(unwanted)),
        // Only an origin that may is told so; everybody else's preflight fails for want of the headers.
        Ok(Some(origin)) if is_preflight(&parts) => (Some(origin), StatusCode::NO_CONTENT.into_response()),
        Ok(origin) => (origin, next(Request::from_parts(parts, body)).await),
    };
    protect(response.headers_mut());
    if let Some(origin) = origin {
        allow_reading(response.headers_mut(), origin, front.request_headers);
    }
    response
}

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn protect(headers: &mut HeaderMap) {
    // To make room once is much cheaper than to grow with each.
    headers.reserve(12);
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages say more precisely what they need.
    let nothing = || HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(nothing);
    headers.entry(header::CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-store"));
}

fn allow_reading(headers: &mut HeaderMap, origin: HeaderValue, request_headers: &'static str) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, request_headers),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "x-outlive-offset, x-outlive-head, retry-after"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Lets in who may, tells the handler who it is, and writes down who changed something.
pub(super) async fn admit(front: Front, needs: Needs, app: App, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let peer = peer::of(&parts);
    // Who asks over a socket was asked when that was opened; nothing from outside gets into the extensions.
    let known = if let Some(grant) = parts.extensions.get::<Grant>() {
        Ok(grant.clone())
    } else {
        let credential = credentials::shown(front.carriers(), &parts, needs == Needs::Attach);
        app.access.admit(&peer, credential.as_ref())
    };
    let refuse = |refusal: Refusal| {
        app.metrics.refused();
        tracing::debug!(from = %peer, surface = front.name, path = parts.uri.path(), ?refusal, "refused");
        front.refuse(refusal)
    };
    let grant = match known {
        Ok(grant) => grant,
        Err(refusal) => return refuse(refusal),
    };
    if let Needs::Scope(needed) = needs
        && grant.scope < needed
    {
        Audit::new(front, &grant, &peer, &parts).answered(StatusCode::FORBIDDEN);
        return refuse(Refusal::Scope { has: grant.scope, needs: needed });
    }
    if let Some(place) = parts.extensions.get::<Arc<Place>>()
        && !place.make_known()
    {
        return front.refuse(place_lost());
    }
    let only_reads = needs == Needs::Scope(Scope::Read) && matches!(parts.method, Method::GET | Method::HEAD);
    let audit = (!only_reads).then(|| Audit::new(front, &grant, &peer, &parts));
    parts.extensions.insert(grant);
    let response = next.run(Request::from_parts(parts, body)).await;
    if let Some(audit) = audit {
        audit.answered(response.status());
    }
    response
}

/// It was a stranger for too long; the connection ends in a moment, and nothing is to begin on it.
fn place_lost() -> Problem {
    let detail = "too many came at once and this connection was given up: try again on another one";
    Problem::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail)
}

/// A line per call that may change something, also if its client goes away in the middle.
struct Audit {
    surface: &'static str,
    who: Arc<str>,
    from: Peer,
    method: Method,
    path: String,
    status: Option<u16>,
}

impl Audit {
    fn new(front: Front, grant: &Grant, peer: &Peer, parts: &Parts) -> Self {
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        Self { surface: front.name, who: Arc::clone(&grant.who), from: peer.clone(), method, path, status: None }
    }

    fn answered(mut self, status: StatusCode) {
        self.status = Some(status.as_u16());
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let Self { surface, who, from, method, path, status } = self;
        if let Some(status) = status {
            tracing::info!(target: "audit", surface, who = &**who, %from, %method, path, status);
        } else {
            tracing::info!(target: "audit", surface, who = &**who, %from, %method, path, "the client went away");
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Grant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| Refusal::Missing.into())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let unknown = |code: &'static str, message: &str| {
            Self::new(Kind::TokenInvalid, StatusCode::UNAUTHORIZED, code, "token invalid")
                .with_title("Token Invalid")
                .with_details(serde_json::json!({ "message": message }))
        };
        match refusal {
            // sandbox-agent's words, and then ours.
            Refusal::Missing | Refusal::WrongToken => unknown("token_invalid", "missing or invalid bearer token"),
            Refusal::WrongTicket => {
                unknown("ticket_invalid", "the ticket is unknown, used or older than a minute: ask for another one")
            }
            Refusal::TicketForAnother => Self::new(
                Kind::TokenInvalid,
                StatusCode::FORBIDDEN,
                "ticket_for_another",
                "this ticket is for another process",
            ),
            Refusal::Scope { has, needs } => {
                let detail = format!("this needs the scope {}, and the token has {}", needs.name(), has.name());
                Self::new(Kind::TokenInvalid, StatusCode::FORBIDDEN, "scope_insufficient", detail)
                    .with_expected(needs.name(), has.name())
            }
            Refusal::TooManyFailures { retry_after } => {
                let detail = "too many wrong tokens came from your address: try again later";
                Self::new(Kind::TokenInvalid, StatusCode::TOO_MANY_REQUESTS, "too_many_failures", detail)
                    .with_retry_after(retry_after)
            }
        }
    }
}

impl From<Unwanted> for Problem {
    fn from(unwanted: Unwanted) -> Self {
        let forbidden = |code, detail: &str| Self::new(Kind::InvalidRequest, StatusCode::FORBIDDEN, code, detail);
        match unwanted {
            Unwanted::HostMissing => Self::bad_request("host_missing", "the request has no Host header"),
            Unwanted::Host(host) => forbidden(
                "host_not_allowed",
                "the Host is neither an address nor localhost nor allowed: start outlive with --allow-host NAME",
            )
            .with_field("Host")
            .with_expected("an IP address, localhost, or an allowed name", host),
            Unwanted::Origin(origin) => forbidden(
                "origin_not_allowed",
                "pages of this origin may not talk to outlive: start it with --allow-origin ORIGIN",
            )
            .with_field("Origin")
            .with_expected("outlive's own or an allowed origin", origin),
        }
    }
}
