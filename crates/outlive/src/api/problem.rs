//! Errors as `application/problem+json` (RFC 9457). The one place where core errors become HTTP.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

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

/// The kinds of sandbox-agent's problem types.
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
        format!("urn:sandbox-agent:error:{name}")
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
        // Quoted too: what a parser expected may repeat what it got.
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
}

/// Errors quote what was sent, but never at length.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
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
            Error::Over { message, .. } => Self::new(Kind::NotFound, StatusCode::GONE, code, message),
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
            Error::Gone { asked, oldest, head } => Self::new(Kind::NotFound, StatusCode::GONE, code, text)
                .with_details(json!({ "asked": asked, "oldest": oldest, "head": head })),
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
        response.extensions_mut().insert(Code(self.code));
        response
    }
}

/// Left on a response for metrics and logs.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// What every handler returns.
pub(crate) type Answer<T> = Result<T, Problem>;
