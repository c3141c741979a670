//! Errors as `application/problem+json` (RFC 9457). The one place where errors of the core and rejections of the
//! middleware become HTTP.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::access::AuthRejection;
use crate::access::origin::OriginRejection;

/// Prefix of `type`. The SDK of sandbox-agent, which this API is compatible with, matches on it.
const TYPE_PREFIX: &str = "urn:sandbox-agent:error:";

/// What went wrong. `code` is stable; `detail` says what to do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    got: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

/// The value of `type`, after [`TYPE_PREFIX`].
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    InvalidRequest,
    NotFound,
    Conflict,
    StreamError,
    TokenInvalid,
}

impl Kind {
    fn urn(self) -> String {
        let name = match self {
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::StreamError => "stream_error",
            Self::TokenInvalid => "token_invalid",
        };
        format!("{TYPE_PREFIX}{name}")
    }
}

impl Problem {
    pub(crate) fn new(kind: Kind, status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: kind.urn(),
            title: title(status),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            field: None,
            expected: None,
            got: None,
            details: None,
            retry_after: None,
        }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(Kind::InvalidRequest, StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        let field = quote(&field.into());
        self.field = (!field.is_empty() && field != ".").then_some(field);
        self
    }

    pub(crate) fn with_expected(mut self, expected: impl Into<String>, got: impl Into<String>) -> Self {
        // `expected` is shortened too: a parser's expectation may repeat the value.
        self.expected = Some(quote(&expected.into()));
        self.got = Some(quote(&got.into()));
        self
    }

    pub(crate) fn with_title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    pub(crate) fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The field that is wrong, if the error is about one.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The expected and the received value, if the error is about a value.
    pub(crate) fn mismatch(&self) -> Option<(&str, &str)> {
        Some((self.expected.as_deref()?, self.got.as_deref()?))
    }
}

/// Shortens a value that an error quotes.
pub(crate) fn quote(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => "Invalid Request",
        StatusCode::SERVICE_UNAVAILABLE => "Service Unavailable",
        other => other.canonical_reason().unwrap_or("Error"),
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = error.code();
        let text = error.to_string();
        match error {
            Error::NotFound { resource, id } => {
                Self::new(Kind::NotFound, StatusCode::NOT_FOUND, code, format!("not found: {resource} {id}"))
                    .with_details(json!({ "id": id, "resource": resource }))
            }
            Error::Invalid { field, expected, got } => Self::bad_request(code, format!("invalid request: {text}"))
                .with_field(field)
                .with_expected(expected, got),
            Error::Conflict { message, .. } => {
                Self::new(Kind::Conflict, StatusCode::CONFLICT, code, format!("conflict: {message}"))
                    .with_details(json!({ "message": message }))
            }
            Error::SessionEnded { message, .. } => Self::new(Kind::NotFound, StatusCode::GONE, code, message),
            Error::Busy { message, .. } => Self::new(Kind::Conflict, StatusCode::TOO_MANY_REQUESTS, code, message)
                .with_retry_after(Duration::from_secs(1)),
            Error::Spawn { message, .. } => Self::bad_request(code, message),
            Error::Exhausted { message, .. } | Error::Unavailable { message, .. } => {
                Self::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, code, message)
            }
            Error::InputTooLarge { limit, got } => {
                Self::new(Kind::InvalidRequest, StatusCode::PAYLOAD_TOO_LARGE, code, text)
                    .with_expected(format!("at most {limit} bytes"), format!("{got} bytes"))
            }
            Error::InputNotRead { written } => Self::new(Kind::Conflict, StatusCode::CONFLICT, code, text)
                .with_details(json!({ "bytesWritten": written })),
            Error::OffsetGone { requested: asked, oldest, head } => {
                Self::new(Kind::NotFound, StatusCode::GONE, code, text)
                    .with_details(json!({ "asked": asked, "oldest": oldest, "head": head }))
            }
            Error::LogDropped => Self::new(Kind::NotFound, StatusCode::GONE, code, text),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response.extensions_mut().insert(ErrorCode(self.code));
        response
    }
}

/// Extension of an error response, for metrics and logs.
#[derive(Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// The return type of handlers.
pub(crate) type HandlerResult<T> = Result<T, Problem>;

/// Errors that have no error type of their own.
impl Problem {
    pub(super) fn unknown_path(request: &Request) -> Self {
        let path = request.uri().path();
        Self::new(Kind::InvalidRequest, StatusCode::NOT_FOUND, "unknown_path", "endpoint not found")
            .with_expected("a path of /v1/openapi.json or /v1/dialects", path.chars().take(200).collect::<String>())
    }

    pub(super) fn wrong_method(request: &Request) -> Self {
        let detail = format!("{} does not support {}", request.uri().path(), request.method());
        Self::new(Kind::InvalidRequest, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
    }

    pub(crate) fn send_budget_exhausted() -> Self {
        let detail = "too many unread responses (maxUnsentBytes); retry, or request less at a time";
        Self::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "too_much_unsent", detail)
    }

    /// The slot of this unauthenticated connection was given to another one; it is about to be closed.
    pub(super) fn connection_evicted() -> Self {
        let detail = "too many connections at once, and this one is being closed; retry on a new connection";
        Self::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail)
    }
}

impl From<OriginRejection> for Problem {
    fn from(rejection: OriginRejection) -> Self {
        let forbidden = |code, detail: &str| Self::new(Kind::InvalidRequest, StatusCode::FORBIDDEN, code, detail);
        match rejection {
            OriginRejection::HostMissing => Self::bad_request("host_missing", "the request has no Host header"),
            OriginRejection::Host(host) => forbidden(
                "host_not_allowed",
                "the Host is neither an address nor localhost nor allowed; start outlive with --allow-host NAME",
            )
            .with_field("Host")
            .with_expected("an IP address, localhost, or an allowed name", host),
            OriginRejection::Origin(origin) => forbidden(
                "origin_not_allowed",
                "pages of this origin are not allowed; start outlive with --allow-origin ORIGIN",
            )
            .with_field("Origin")
            .with_expected("outlive's own or an allowed origin", origin),
        }
    }
}

impl From<AuthRejection> for Problem {
    fn from(rejection: AuthRejection) -> Self {
        // Clients match on the title and on these two texts of an invalid token.
        let invalid = |code: &'static str, message: &str| {
            Self::new(Kind::TokenInvalid, StatusCode::UNAUTHORIZED, code, "token invalid")
                .with_title("Token Invalid")
                .with_details(json!({ "message": message }))
        };
        let denied = |status, code, detail: &str| Self::new(Kind::TokenInvalid, status, code, detail);
        match rejection {
            AuthRejection::Missing | AuthRejection::WrongToken => {
                invalid("token_invalid", "missing or invalid bearer token")
            }
            AuthRejection::WrongTicket => {
                invalid("ticket_invalid", "the ticket is unknown, used or expired; request another one")
            }
            AuthRejection::TicketForAnother => {
                denied(StatusCode::FORBIDDEN, "ticket_for_another", "this ticket is for another process")
            }
            AuthRejection::Scope { has, required } => {
                let detail = format!("this needs the scope {}, and the token has {}", required.name(), has.name());
                denied(StatusCode::FORBIDDEN, "scope_insufficient", &detail).with_expected(required.name(), has.name())
            }
            AuthRejection::TooManyFailures { retry_after } => {
                let detail = "too many wrong tokens from your address; retry later";
                denied(StatusCode::TOO_MANY_REQUESTS, "too_many_failures", detail).with_retry_after(retry_after)
            }
            AuthRejection::Unavailable(error) => error.into(),
        }
    }
}
