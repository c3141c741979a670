//! Errors in Cloudflare's words: what the core and the front have to say becomes what its clients understand here, and nowhere else.
//!
//! The container's client builds its errors from `code`, and tries again for two minutes when the status is 503: so that is for a
//! server that is being replaced alone. The bridge's clients look at the status, and show `code` and `error` to people.

use std::io;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use super::clock;
use crate::api::problem::{Code, Problem};

/// A refusal of the container.
#[derive(Debug)]
pub(super) struct ContainerError {
    status: StatusCode,
    code: &'static str,
    message: String,
    context: Value,
}

impl ContainerError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), context: json!({}) }
    }

    fn with_context(mut self, context: Value) -> Self {
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

    /// Of one that is known, and whose tree is gone.
    pub(super) fn already_ended(id: &str, command: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "COMMAND_NOT_FOUND", format!("Process {id} has already ended"))
            .with_context(json!({ "processId": id, "command": command }))
    }

    pub(super) fn invalid_command(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_COMMAND", message)
    }

    pub(super) fn invalid_port(port: u64) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_PORT", format!("port: expected 1 to 65535, got {port}"))
            .with_context(json!({ "port": port, "reason": "out of range" }))
    }

    pub(super) fn no_upgrade() -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED, "VALIDATION_FAILED", "expected upgrade: websocket")
    }

    pub(super) fn session_exists(id: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "SESSION_ALREADY_EXISTS", format!("Session '{id}' already exists"))
            .with_context(json!({ "sessionId": id }))
    }

    pub(super) fn no_session(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "INTERNAL_ERROR", format!("Session '{id}' not found"))
            .with_context(json!({ "sessionId": id }))
    }

    /// Of a command in a session; `context` is what it had printed by then.
    pub(super) fn timed_out(message: String, context: Value) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "COMMAND_EXECUTION_ERROR", message).with_context(context)
    }

    /// As above, by the command itself.
    pub(super) fn shell_ended(session: &str, code: i32, context: Value) -> Self {
        let message = format!("The shell of session '{session}' ended with code {code}");
        Self::new(StatusCode::GONE, "SESSION_TERMINATED", message).with_context(context)
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

impl IntoResponse for ContainerError {
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

impl From<Problem> for ContainerError {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status(), "VALIDATION_FAILED", problem.detail())
    }
}

impl From<Error> for ContainerError {
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

/// A refusal of the bridge, and of the terminals, which its clients share.
#[derive(Debug)]
pub(super) struct BridgeError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl BridgeError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// `what`: which part of the request leads out of the workspace.
    pub(super) fn outside(what: &str) -> Self {
        let message = format!("{what} must resolve to a location within /workspace");
        Self::new(StatusCode::FORBIDDEN, "invalid_request", message)
    }

    /// `why` it needs that.
    pub(super) fn needs_write(why: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", format!("{why}: this needs the scope write"))
    }

    pub(super) fn too_large(most_bytes: u64) -> Self {
        let message = format!("payload too large: the limit are {most_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", "the body came too slowly")
    }

    pub(super) fn no_random_numbers() -> Self {
        let message = "the system gives no random numbers";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "exec_transport_error", message)
    }

    /// Of making (`create`) and deleting (`delete`) a session.
    pub(super) fn session(what: &str, why: &str) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "session_error", format!("session {what} failed: {why}"))
    }

    pub(super) fn unsupported() -> Self {
        let message = "outlive serves processes, terminals and the files of the workspace; buckets, tunnels and pools it does not";
        Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
    }

    /// What a file system says, for those who asked for a file.
    pub(super) fn of_file(error: &io::Error) -> Self {
        // The kernel's word for a link that leads out of the workspace.
        if error.raw_os_error() == Some(libc::EXDEV) {
            return Self::outside("path");
        }
        let (status, code) = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                (StatusCode::NOT_FOUND, "workspace_read_not_found")
            }
            io::ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "invalid_request"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory => {
                (StatusCode::BAD_REQUEST, "invalid_request")
            }
            _ => (StatusCode::BAD_GATEWAY, "workspace_archive_write_error"),
        };
        Self::new(status, code, error.to_string())
    }

    /// The same for those who write one: what is missing then is not what they asked for.
    pub(super) fn of_writing(self) -> Self {
        match self.status {
            StatusCode::NOT_FOUND => Self::new(StatusCode::BAD_GATEWAY, "workspace_archive_write_error", self.message),
            _ => self,
        }
    }

    pub(super) fn not_packed(error: &io::Error) -> Self {
        let message = format!("persist failed: {error}");
        Self::new(StatusCode::BAD_GATEWAY, "workspace_archive_read_error", message)
    }

    /// For the one path whose client reads no JSON.
    pub(super) fn into_plain_text(self) -> Response {
        (self.status, self.message).into_response()
    }
}

impl IntoResponse for BridgeError {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let mut response = (status, Json(json!({ "error": message, "code": code }))).into_response();
        response.extensions_mut().insert(Code(code));
        response
    }
}

impl From<Problem> for BridgeError {
    fn from(problem: Problem) -> Self {
        let code =
            if problem.status() == StatusCode::PAYLOAD_TOO_LARGE { "payload_too_large" } else { "invalid_request" };
        Self::new(problem.status(), code, problem.detail())
    }
}

impl From<Error> for BridgeError {
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
            assert_ne!(ContainerError::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
            assert_ne!(BridgeError::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
        }
        assert_eq!(ContainerError::from(Error::invalid("command", "a", "b")).code, "INVALID_COMMAND");
        assert_eq!(ContainerError::from(Error::not_found("x")).code, "PROCESS_NOT_FOUND");
    }
}
