//! Errors in Cloudflare's words: what the core and the front have to say becomes what its clients understand here, and nowhere else.
//!
//! The container's client builds its errors from `code`, and tries again for two minutes when the status is 503: so that is for a
//! server that is being replaced alone. The bridge's clients look at the status, and show `code` and `error` to people.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use super::clock;
use crate::api::problem::{Code, Problem};

/// What the container refuses.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    code: &'static str,
    message: String,
    context: Value,
}

impl Refused {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), context: json!({}) }
    }

    pub(super) fn with_context(mut self, context: Value) -> Self {
        self.context = context;
        self
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", message)
    }

    pub(super) fn no_process(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "PROCESS_NOT_FOUND", format!("Process not found: {id}"))
            .with_context(json!({ "processId": id }))
    }

    /// Of a command that had begun. The client must not try again by itself: that would run it twice.
    pub(super) fn interrupted(error: Error) -> Self {
        match error {
            Error::Unavailable { message, .. } => Self::new(StatusCode::BAD_GATEWAY, "OPERATION_INTERRUPTED", message),
            other => other.into(),
        }
    }

    /// For those who read it on a stream.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { status, code, message, context } = self;
        let body = json!({
            "code": code,
            "message": message,
            "context": context,
            "httpStatus": status.as_u16(),
            "timestamp": clock::now(),
        });
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(Code(code));
        response
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status(), "VALIDATION_FAILED", problem.detail())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let (status, code) = match (&error, error.code()) {
            (Error::NotFound { resource: "process", id }, _) => return Self::no_process(id),
            (Error::NotFound { .. }, _) => (StatusCode::NOT_FOUND, "UNKNOWN_ERROR"),
            (Error::Invalid { field, .. }, _) if field == "command" => (StatusCode::BAD_REQUEST, "INVALID_COMMAND"),
            (Error::Invalid { .. }, _) => (StatusCode::BAD_REQUEST, "VALIDATION_FAILED"),
            (_, "command_not_found") => (StatusCode::NOT_FOUND, "COMMAND_NOT_FOUND"),
            (_, "not_executable" | "user_not_permitted") => (StatusCode::FORBIDDEN, "COMMAND_PERMISSION_DENIED"),
            (Error::Spawn { .. }, _) => (StatusCode::BAD_REQUEST, "COMMAND_EXECUTION_ERROR"),
            (_, "session_destroyed") => (StatusCode::GONE, "SESSION_DESTROYED"),
            (Error::Over { .. }, _) => (StatusCode::GONE, "SESSION_TERMINATED"),
            (Error::Conflict { .. } | Error::InputTooLarge { .. } | Error::InputNotRead { .. }, _) => {
                (StatusCode::CONFLICT, "PROCESS_ERROR")
            }
            (Error::Busy { .. } | Error::Exhausted { .. }, _) => (StatusCode::TOO_MANY_REQUESTS, "PROCESS_ERROR"),
            (Error::Gone { .. } | Error::LogDropped, _) => (StatusCode::GONE, "PROCESS_ERROR"),
            (Error::Unavailable { .. }, _) => (StatusCode::SERVICE_UNAVAILABLE, "CONTAINER_UNAVAILABLE"),
        };
        Self::new(status, code, text)
    }
}

/// What the bridge refuses.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Denied {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let mut response = (status, Json(json!({ "error": message, "code": code }))).into_response();
        response.extensions_mut().insert(Code(code));
        response
    }
}

impl From<Problem> for Denied {
    fn from(problem: Problem) -> Self {
        let code =
            if problem.status() == StatusCode::PAYLOAD_TOO_LARGE { "payload_too_large" } else { "invalid_request" };
        Self::new(problem.status(), code, problem.detail())
    }
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        let (status, code) = match &error {
            Error::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_request"),
            Error::Spawn { .. } => (StatusCode::BAD_REQUEST, "exec_error"),
            Error::NotFound { .. } => (StatusCode::NOT_FOUND, "session_error"),
            Error::Over { .. } => (StatusCode::GONE, "session_error"),
            Error::Busy { .. } | Error::Exhausted { .. } => (StatusCode::TOO_MANY_REQUESTS, "capacity_exceeded"),
            Error::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "exec_transport_error"),
            _ => (StatusCode::CONFLICT, "exec_error"),
        };
        Self::new(status, code, error.to_string())
    }
}

/// Of what stands before the handlers, which does not know whose client it refuses: so that both kinds understand.
pub(super) fn in_both_words(problem: Problem) -> Response {
    let status = problem.status();
    let (code, error) = match status {
        StatusCode::UNAUTHORIZED => ("unauthorized", "Unauthorized"),
        StatusCode::FORBIDDEN => ("forbidden", problem.detail()),
        StatusCode::NOT_FOUND => ("UNKNOWN_ERROR", problem.detail()),
        _ => ("invalid_request", problem.detail()),
    };
    let message = match status {
        StatusCode::UNAUTHORIZED => {
            "missing or invalid token: Authorization: Bearer TOKEN, or X-Outlive-Token where Bearer names a session"
        }
        _ => problem.detail(),
    };
    let body = json!({
        "error": error,
        "code": code,
        "message": message,
        "context": {},
        "httpStatus": status.as_u16(),
        "timestamp": clock::now(),
    });
    let mut response = (status, Json(body)).into_response();
    response.extensions_mut().insert(Code(problem.code()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_try_again_for_two_minutes_in_vain() {
        let all = [
            Error::not_found("proc_x"),
            Error::invalid("command", "a", "b"),
            Error::conflict("process_limit", "full"),
            Error::Spawn { code: "cwd_not_found", message: "no".into() },
            Error::Busy { code: "session_busy", message: "busy".into() },
            Error::Exhausted { code: "run_limit", message: "many".into() },
            Error::LogDropped,
        ];
        for error in all {
            assert_ne!(Refused::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
            assert_ne!(Denied::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
        }
        assert_eq!(Refused::from(Error::invalid("command", "a", "b")).code, "INVALID_COMMAND");
        assert_eq!(Refused::from(Error::not_found("x")).code, "PROCESS_NOT_FOUND");
    }
}
