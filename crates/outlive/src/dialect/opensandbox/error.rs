//! Errors in OpenSandbox's words: what the core and the front have to say becomes `{"code", "message"}` here, and on sockets an error
//! frame, and nowhere else.

use axum::extract::ws::Message;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::json;

use crate::api::problem::{Code, Problem};

const INVALID: &str = "INVALID_REQUEST_BODY";
const NOT_SUPPORTED: &str = "NOT_SUPPORTED";
const RUNTIME: &str = "RUNTIME_ERROR";
const UNAVAILABLE: &str = "SERVICE_UNAVAILABLE";
const UNAUTHORIZED: &str =
    "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN or OPEN-SANDBOX-API-KEY (api_key)";

/// Why something was refused.
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

    /// Of sessions and terminals.
    pub(super) fn no_context(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "CONTEXT_NOT_FOUND", format!("context not found: {}", short(id)))
    }

    /// A SDK that reads the status takes this for what it is; execd said 500.
    pub(super) fn no_command(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, INVALID, format!("command not found: {}", short(id)))
    }

    /// In the wrong state for what was asked.
    fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(super) fn not_running(id: &str) -> Self {
        Self::conflict(RUNTIME, format!("command {} is not running", short(id)))
    }

    pub(super) fn nothing_to_view() -> Self {
        Self::conflict("VIEWER_REQUIRES_RUNNING_SESSION", "a viewer needs a terminal whose shell is running")
    }

    pub(super) fn already_connected() -> Self {
        let message = "somebody else is connected to this terminal; connect with takeover=1";
        Self::conflict("ALREADY_CONNECTED", message)
    }

    /// Of terminals that were made and never connected to.
    pub(super) fn too_many_reserved(most: u64) -> Self {
        let message = format!("{most} terminals wait for somebody to connect already: delete some");
        Error::Busy { code: "too_many_reserved", message }.into()
    }

    pub(super) fn not_supported() -> Self {
        let message = "outlive serves commands, sessions and terminals; this is not one of them";
        Self::new(StatusCode::NOT_IMPLEMENTED, NOT_SUPPORTED, message)
    }
}

fn short(id: &str) -> String {
    crate::api::problem::quote(id)
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
            (Error::Gone { .. } | Error::LogDropped, _) => (StatusCode::GONE, RUNTIME),
            (Error::Conflict { .. } | Error::Over { .. } | Error::InputNotRead { .. }, _) => {
                (StatusCode::CONFLICT, RUNTIME)
            }
        };
        Self::new(status, code, text)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        // The generated clients read bodies of 400, 404 and 500 only.
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

/// What the front has to say.
pub(super) fn in_words(problem: Problem) -> Response {
    let code = Code(problem.code());
    let mut response = Failure::from(problem).into_response();
    response.extensions_mut().insert(code);
    response
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let body = if status == StatusCode::UNAUTHORIZED {
            // execd's own shape, and beside it the usual one.
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

/// What goes wrong on a socket, told in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketError {
    StartFailed,
    Runtime,
    StdinWriteFailed,
    InvalidFrame,
    ReadOnly,
}

impl SocketError {
    pub(super) fn frame(self, message: &str) -> Message {
        let code = match self {
            Self::StartFailed => "START_FAILED",
            Self::Runtime => RUNTIME,
            Self::StdinWriteFailed => "STDIN_WRITE_FAILED",
            Self::InvalidFrame => "INVALID_FRAME",
            Self::ReadOnly => "READ_ONLY",
        };
        Message::Text(json!({ "type": "error", "code": code, "error": message }).to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_facts_in_their_words() {
        let of = |error: Error| {
            let failure = Failure::from(error);
            (failure.status.as_u16(), failure.code)
        };
        assert_eq!(of(Error::not_found("x")), (404, "CONTEXT_NOT_FOUND"));
        assert_eq!(of(Error::conflict("process_limit", "full")), (429, "RUNTIME_ERROR"));
        assert_eq!(of(Error::conflict("not_running", "over")), (409, "RUNTIME_ERROR"));
        assert_eq!(of(Error::holder_gone()), (503, "SERVICE_UNAVAILABLE"));
        assert_eq!(of(Error::Gone { asked: 1, oldest: 2, head: 3 }), (410, "RUNTIME_ERROR"));
        let cwd = Failure::from(Error::Spawn { code: "cwd_not_found", message: "/x".into() });
        assert_eq!(cwd, Failure::invalid("working directory does not exist: /x"));
    }
}
