//! Errors in the shapes that Cloudflare's clients expect. This is the only place that maps the core's errors and the
//! middleware's problems to them.
//!
//! The container's client builds its errors from `code`, and retries for two minutes if the status is 503. So 503 means
//! only that the server is being replaced. The bridge's clients decide by the status, and show `code` and `error` to
//! users.

use std::io;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use crate::http::problem::{ErrorCode, Problem};
use crate::rfc3339;

/// An error of the container's API.
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

    pub(super) fn process_not_found(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "PROCESS_NOT_FOUND", format!("Process not found: {id}"))
            .with_context(json!({ "processId": id }))
    }

    /// A kill of a process whose tree is empty.
    pub(super) fn already_exited(id: &str, command: &str) -> Self {
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

    pub(super) fn upgrade_required() -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED, "VALIDATION_FAILED", "expected upgrade: websocket")
    }

    pub(super) fn session_exists(id: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "SESSION_ALREADY_EXISTS", format!("Session '{id}' already exists"))
            .with_context(json!({ "sessionId": id }))
    }

    pub(super) fn session_not_found(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "INTERNAL_ERROR", format!("Session '{id}' not found"))
            .with_context(json!({ "sessionId": id }))
    }

    /// An exec in a session reached its time limit. `context` has its output so far.
    pub(super) fn timed_out(message: String, context: Value) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "COMMAND_EXECUTION_ERROR", message).with_context(context)
    }

    /// An exec in a session ended the shell. `context` has its output.
    pub(super) fn shell_exited(session: &str, code: i32, context: Value) -> Self {
        let message = format!("The shell of session '{session}' exited with code {code}");
        Self::new(StatusCode::GONE, "SESSION_TERMINATED", message).with_context(context)
    }

    /// A command that had started was interrupted. The status must not be 503: a retry would run the command twice.
    pub(super) fn interrupted(error: Error) -> Self {
        match error {
            Error::Unavailable { message, .. } => Self::new(StatusCode::BAD_GATEWAY, "OPERATION_INTERRUPTED", message),
            other => other.into(),
        }
    }

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
            "timestamp": rfc3339::now(),
        });
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(ErrorCode(code));
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
            (Error::NotFound { resource: "process", id }, _) => return Self::process_not_found(id),
            (Error::NotFound { .. }, _) => (StatusCode::NOT_FOUND, "UNKNOWN_ERROR"),
            (Error::Invalid { field, .. }, _) if field == "command" => (StatusCode::BAD_REQUEST, "INVALID_COMMAND"),
            (Error::Invalid { .. }, _) => (StatusCode::BAD_REQUEST, "VALIDATION_FAILED"),
            (_, "command_not_found") => (StatusCode::NOT_FOUND, "COMMAND_NOT_FOUND"),
            (_, "not_executable" | "user_not_permitted") => (StatusCode::FORBIDDEN, "COMMAND_PERMISSION_DENIED"),
            (Error::Spawn { .. }, _) => (StatusCode::BAD_REQUEST, "COMMAND_EXECUTION_ERROR"),
            (_, "session_destroyed") => (StatusCode::GONE, "SESSION_DESTROYED"),
            (Error::SessionEnded { .. }, _) => (StatusCode::GONE, "SESSION_TERMINATED"),
            (Error::Conflict { .. } | Error::InputTooLarge { .. } | Error::InputNotRead { .. }, _) => {
                (StatusCode::CONFLICT, "PROCESS_ERROR")
            }
            (Error::Busy { .. } | Error::Exhausted { .. }, _) => (StatusCode::TOO_MANY_REQUESTS, "PROCESS_ERROR"),
            (Error::OffsetGone { .. } | Error::LogDropped, _) => (StatusCode::GONE, "PROCESS_ERROR"),
            (Error::Unavailable { .. }, _) => (StatusCode::SERVICE_UNAVAILABLE, "CONTAINER_UNAVAILABLE"),
        };
        Self::new(status, code, text)
    }
}

/// An error of the bridge's API and of the terminals, which both APIs use.
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

    /// The path in `field` of the request leads out of the workspace.
    pub(super) fn outside_workspace(field: &str) -> Self {
        let message = format!("{field} must resolve to a location within /workspace");
        Self::new(StatusCode::FORBIDDEN, "invalid_request", message)
    }

    pub(super) fn terminal_needs_write() -> Self {
        let message = "cannot open the terminal: the token needs the scope write";
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(super) fn too_large(max_bytes: u64) -> Self {
        let message = format!("payload too large: the limit is {max_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", "the body did not arrive in time")
    }

    pub(super) fn no_random_numbers() -> Self {
        let message = "cannot create an id: the system has no random numbers";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "exec_transport_error", message)
    }

    /// `operation` is `create` or `delete`.
    pub(super) fn session(operation: &str, reason: &str) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "session_error", format!("session {operation} failed: {reason}"))
    }

    pub(super) fn unsupported() -> Self {
        let message = "outlive does not support buckets, tunnels and pools";
        Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
    }

    /// Reading a file of the workspace failed.
    pub(super) fn from_read_error(error: &io::Error) -> Self {
        // openat2() fails with EXDEV on a link that leads out of the workspace.
        if error.raw_os_error() == Some(libc::EXDEV) {
            return Self::outside_workspace("path");
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

    /// The same error for a write. `NOT_FOUND` then does not mean the file that the client named.
    pub(super) fn for_write(self) -> Self {
        match self.status {
            StatusCode::NOT_FOUND => Self::new(StatusCode::BAD_GATEWAY, "workspace_archive_write_error", self.message),
            _ => self,
        }
    }

    pub(super) fn persist(error: &io::Error) -> Self {
        let message = format!("persist failed: {error}");
        Self::new(StatusCode::BAD_GATEWAY, "workspace_archive_read_error", message)
    }

    /// For `/ws/pty`, whose client expects plain text.
    pub(super) fn into_plain_text(self) -> Response {
        (self.status, self.message).into_response()
    }
}

impl IntoResponse for BridgeError {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let mut response = (status, Json(json!({ "error": message, "code": code }))).into_response();
        response.extensions_mut().insert(ErrorCode(code));
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
            Error::SessionEnded { .. } => (StatusCode::GONE, "session_error"),
            Error::Busy { .. } | Error::Exhausted { .. } => (StatusCode::TOO_MANY_REQUESTS, "capacity_exceeded"),
            Error::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "exec_transport_error"),
            _ => (StatusCode::CONFLICT, "exec_error"),
        };
        Self::new(status, code, error.to_string())
    }
}

/// Renders an error of the middleware, which does not know the kind of client: the body has the fields of both shapes.
pub(super) fn render_shared_error(problem: Problem) -> Response {
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
        "timestamp": rfc3339::now(),
    });
    let mut response = (status, Json(body)).into_response();
    response.extensions_mut().insert(ErrorCode(problem.code()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_is_being_replaced_responds_with_503() {
        let errors = [
            Error::not_found("proc_x"),
            Error::invalid("command", "a", "b"),
            Error::conflict("process_limit", "full"),
            Error::Spawn { code: "cwd_not_found", message: "no".into() },
            Error::Busy { code: "session_busy", message: "busy".into() },
            Error::Exhausted { code: "run_limit", message: "many".into() },
            Error::LogDropped,
        ];
        for error in errors {
            assert_ne!(ContainerError::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
            assert_ne!(BridgeError::from(error.clone()).status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
        }
        assert_eq!(ContainerError::from(Error::invalid("command", "a", "b")).code, "INVALID_COMMAND");
        assert_eq!(ContainerError::from(Error::not_found("x")).code, "PROCESS_NOT_FOUND");
    }
}
