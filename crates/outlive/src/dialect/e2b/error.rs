//! Errors in the shapes that E2B's SDKs expect: [`ConnectError`] for the process service, `{"code", "message"}` for
//! plain HTTP. This is the only place that maps the core's errors and the middleware's problems to them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use super::message::ProcessSelector;
use crate::http::problem::{ErrorCode, Problem};

/// Both SDKs map this text to their authentication error, for stream calls too.
const UNAUTHORIZED: &str = "unauthorized access, please provide a valid access token or method signing if supported";

/// An error code of the Connect protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectCode {
    Aborted,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
}

impl ConnectCode {
    fn name(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::DataLoss => "data_loss",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::FailedPrecondition => "failed_precondition",
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unauthenticated => "unauthenticated",
            Self::Unavailable => "unavailable",
            Self::Unimplemented => "unimplemented",
        }
    }

    /// The HTTP status of a unary call that fails, from the table in the Connect specification.
    fn status(self) -> StatusCode {
        match self {
            Self::Aborted => StatusCode::CONFLICT,
            Self::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::FailedPrecondition | Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        }
    }
}

/// The error of a call to the process service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectError {
    pub(super) code: ConnectCode,
    pub(super) message: String,
}

impl ConnectError {
    pub(super) fn new(code: ConnectCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ConnectCode::InvalidArgument, message)
    }

    pub(super) fn call_timed_out() -> Self {
        Self::new(ConnectCode::DeadlineExceeded, "the timeout of this call expired")
    }

    /// No process has this pid or tag.
    pub(super) fn not_found(selector: &ProcessSelector) -> Self {
        let message = match (&selector.pid, &selector.tag) {
            (Some(pid), _) => format!("process with pid {pid} not found"),
            (None, tag) => format!("process with tag {} not found", tag.as_deref().unwrap_or_default()),
        };
        Self::new(ConnectCode::NotFound, message)
    }

    /// An operation on a process failed. To E2B's clients a process that has exited does not exist.
    pub(super) fn for_process(selector: &ProcessSelector) -> impl Fn(Error) -> Self + '_ {
        |error| match error.code() {
            "not_running" | "not_found" => Self::not_found(selector),
            _ => error.into(),
        }
    }

    /// A start failed. The texts are envd's.
    pub(super) fn for_start(error: Error, command: &str, cwd: &str, user: Option<&str>) -> Self {
        match error.code() {
            "user_unknown" => {
                let message = format!("invalid username: '{}'", user.unwrap_or_default());
                Self::new(ConnectCode::Unauthenticated, message)
            }
            "cwd_not_found" => Self::invalid(format!("cwd '{cwd}' does not exist")),
            _ => {
                let Self { code, message } = error.into();
                Self::new(code, format!("error starting process '{command}': {message}"))
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "code": self.code.name(), "message": self.message })
    }
}

/// The response to a unary call. It is JSON even if the request was protobuf.
impl IntoResponse for ConnectError {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.to_json())).into_response();
        response.extensions_mut().insert(ErrorCode(self.code.name()));
        response
    }
}

impl From<Problem> for ConnectError {
    fn from(problem: Problem) -> Self {
        let code = match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ConnectCode::ResourceExhausted,
            StatusCode::REQUEST_TIMEOUT => ConnectCode::DeadlineExceeded,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ConnectCode::Unimplemented,
            StatusCode::SERVICE_UNAVAILABLE => ConnectCode::Unavailable,
            _ => ConnectCode::InvalidArgument,
        };
        Self::new(code, problem.detail())
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let (code, message) = match (&error, error.code()) {
            (_, "user_not_permitted") => (ConnectCode::PermissionDenied, text),
            (Error::NotFound { .. }, _) => (ConnectCode::NotFound, text),
            (Error::Invalid { .. } | Error::Spawn { .. }, _) => (ConnectCode::InvalidArgument, text),
            (_, "no_stdin" | "stdin_closed") => {
                (ConnectCode::FailedPrecondition, "error writing to stdin: stdin not enabled or closed".to_owned())
            }
            (_, "process_limit" | "too_many_attachments")
            | (
                Error::Exhausted { .. } | Error::Busy { .. } | Error::InputTooLarge { .. } | Error::InputNotRead { .. },
                _,
            ) => (ConnectCode::ResourceExhausted, text),
            (Error::Conflict { .. } | Error::SessionEnded { .. }, _) => (ConnectCode::FailedPrecondition, text),
            (Error::OffsetGone { .. } | Error::LogDropped, _) => (ConnectCode::DataLoss, text),
            (Error::Unavailable { .. }, _) => (ConnectCode::Unavailable, text),
        };
        Self::new(code, message)
    }
}

/// Renders an error of the middleware or of a plain HTTP endpoint: `{"code": STATUS, "message"}`.
pub(super) fn render_rest_error(problem: Problem) -> Response {
    let status = problem.status();
    let message = if status == StatusCode::UNAUTHORIZED { UNAUTHORIZED } else { problem.detail() };
    let mut response = (status, Json(json!({ "code": status.as_u16(), "message": message }))).into_response();
    response.extensions_mut().insert(ErrorCode(problem.code()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_errors_have_the_texts_of_envd() {
        let error = |code, user| {
            let error = Error::Spawn { code, message: "why".into() };
            ConnectError::for_start(error, "c", "/d", user)
        };
        let unknown_user = ConnectError::new(ConnectCode::Unauthenticated, "invalid username: 'ann'");
        assert_eq!(error("user_unknown", Some("ann")), unknown_user);
        assert_eq!(error("cwd_not_found", None), ConnectError::invalid("cwd '/d' does not exist"));
        assert_eq!(error("cwd_not_accessible", None), ConnectError::invalid("error starting process 'c': why"));
    }

    #[test]
    fn an_exited_process_is_not_found() {
        let by_pid = ProcessSelector { pid: Some(7), tag: None };
        let exited = Error::conflict("not_running", "process is not running");
        assert_eq!(ConnectError::for_process(&by_pid)(exited).message, "process with pid 7 not found");
        let full = Error::InputNotRead { written: 3 };
        assert_eq!(ConnectError::for_process(&by_pid)(full).code, ConnectCode::ResourceExhausted);
    }
}
