//! Errors as OpenSandbox's clients expect them. This module is the only place where errors of the core and of the
//! middleware become `{"code", "message"}`; error frames of sockets are in `socket/control_frames.rs`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::json;

use crate::http::problem::{ErrorCode, Problem, quote};

const INVALID: &str = "INVALID_REQUEST_BODY";
const NOT_SUPPORTED: &str = "NOT_SUPPORTED";
const RUNTIME: &str = "RUNTIME_ERROR";
const UNAVAILABLE: &str = "SERVICE_UNAVAILABLE";
const UNAUTHORIZED: &str =
    "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN or OPEN-SANDBOX-API-KEY (api_key)";

/// An error response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Failure {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message)
    }

    pub(super) fn missing_query(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "MISSING_QUERY", message)
    }

    /// For sessions and terminals.
    pub(super) fn context_not_found(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "CONTEXT_NOT_FOUND", format!("context not found: {}", quote(id)))
    }

    /// execd responds with 500; SDKs that read the status understand 404.
    pub(super) fn command_not_found(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, INVALID, format!("command not found: {}", quote(id)))
    }

    fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(super) fn not_running(id: &str) -> Self {
        Self::conflict(RUNTIME, format!("command {} is not running", quote(id)))
    }

    pub(super) fn viewer_needs_running_shell() -> Self {
        Self::conflict("VIEWER_REQUIRES_RUNNING_SESSION", "a viewer needs a terminal whose shell is running")
    }

    pub(super) fn already_connected() -> Self {
        let message = "another client is connected to this terminal; connect with takeover=1";
        Self::conflict("ALREADY_CONNECTED", message)
    }

    /// Too many terminals were created and never connected to.
    pub(super) fn too_many_reserved(max: u64) -> Self {
        let message = format!("{max} terminals wait for their first connection; delete some");
        Error::Busy { code: "too_many_reserved", message }.into()
    }

    pub(super) fn not_supported() -> Self {
        let message = "not supported; outlive serves commands, sessions and terminals";
        Self::new(StatusCode::NOT_IMPLEMENTED, NOT_SUPPORTED, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let (status, code) = match (&error, error.code()) {
            (Error::NotFound { .. }, _) => (StatusCode::NOT_FOUND, "CONTEXT_NOT_FOUND"),
            (_, "cwd_not_found") => {
                return Self::invalid(format!("working directory does not exist: {text}"));
            }
            (Error::Invalid { .. } | Error::Spawn { .. } | Error::InputTooLarge { .. }, _) => {
                (StatusCode::BAD_REQUEST, INVALID)
            }
            (Error::Busy { .. }, _) | (_, "process_limit" | "too_many_attachments") => {
                (StatusCode::TOO_MANY_REQUESTS, RUNTIME)
            }
            (Error::Exhausted { .. } | Error::Unavailable { .. }, _) => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
            (Error::OffsetGone { .. } | Error::LogDropped, _) => (StatusCode::GONE, RUNTIME),
            (Error::Conflict { .. } | Error::SessionEnded { .. } | Error::InputNotRead { .. }, _) => {
                (StatusCode::CONFLICT, RUNTIME)
            }
        };
        Self::new(status, code, text)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        // The generated clients read the bodies of 400, 404 and 500 only.
        let status = match problem.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        let code = match (status.as_u16(), problem.code()) {
            (_, "invalid_query") => "MISSING_QUERY",
            (400 | 408 | 413 | 415, _) => INVALID,
            (405, _) => NOT_SUPPORTED,
            (503, _) => UNAVAILABLE,
            _ => "UNKNOWN",
        };
        Self::new(status, code, problem.detail())
    }
}

/// Renders a rejection of the middleware.
pub(super) fn render_error(problem: Problem) -> Response {
    let code = ErrorCode(problem.code());
    let mut response = Failure::from(problem).into_response();
    response.extensions_mut().insert(code);
    response
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let body = if status == StatusCode::UNAUTHORIZED {
            // execd's own shape (`error`), and that of all other errors.
            json!({ "error": UNAUTHORIZED, "code": "UNAUTHORIZED", "message": UNAUTHORIZED })
        } else {
            json!({ "code": code, "message": message })
        };
        let mut response = (status, body.to_string()).into_response();
        let kind = HeaderValue::from_static("application/json; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(1));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_errors_have_opensandbox_statuses_and_codes() {
        let rendered = |error: Error| {
            let failure = Failure::from(error);
            (failure.status.as_u16(), failure.code)
        };
        assert_eq!(rendered(Error::not_found("x")), (404, "CONTEXT_NOT_FOUND"));
        assert_eq!(rendered(Error::conflict("process_limit", "full")), (429, "RUNTIME_ERROR"));
        assert_eq!(rendered(Error::conflict("not_running", "over")), (409, "RUNTIME_ERROR"));
        assert_eq!(rendered(Error::holder_gone()), (503, "SERVICE_UNAVAILABLE"));
        assert_eq!(rendered(Error::OffsetGone { requested: 1, oldest: 2, head: 3 }), (410, "RUNTIME_ERROR"));
        let cwd = Failure::from(Error::Spawn { code: "cwd_not_found", message: "/x".into() });
        assert_eq!(cwd, Failure::invalid("working directory does not exist: /x"));
    }
}
