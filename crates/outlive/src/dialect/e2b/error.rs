//! Errors in E2B's words: what the core and the front have to say becomes what its clients understand here, and nowhere else.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::json;

use super::connect::{Failure, FailureCode};
use super::message::ProcessSelector;
use crate::api::problem::{Code, Problem};

/// What both SDKs take for an authentication error, also in answer to a stream.
const UNAUTHORIZED: &str = "unauthorized access, please provide a valid access token or method signing if supported";

/// `{"code": STATUS, "message"}`, as everything but the process service answers.
pub(super) fn in_rest_words(problem: Problem) -> Response {
    let status = problem.status();
    let message = if status == StatusCode::UNAUTHORIZED { UNAUTHORIZED } else { problem.detail() };
    let mut response = (status, Json(json!({ "code": status.as_u16(), "message": message }))).into_response();
    response.extensions_mut().insert(Code(problem.code()));
    response
}

/// Nobody has this pid or tag.
pub(super) fn not_found(selector: &ProcessSelector) -> Failure {
    let message = match (&selector.pid, &selector.tag) {
        (Some(pid), _) => format!("process with pid {pid} not found"),
        (None, tag) => format!("process with tag {} not found", tag.as_deref().unwrap_or_default()),
    };
    Failure::new(FailureCode::NotFound, message)
}

/// Of something that was asked of a process: who has ended is not there any more.
pub(super) fn about(selector: &ProcessSelector) -> impl Fn(Error) -> Failure + '_ {
    |error| match error.code() {
        "not_running" | "not_found" => not_found(selector),
        _ => error.into(),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let (code, message) = match (&error, error.code()) {
            (_, "user_not_permitted") => (FailureCode::PermissionDenied, text),
            (Error::NotFound { .. }, _) => (FailureCode::NotFound, text),
            (Error::Invalid { .. } | Error::Spawn { .. }, _) => (FailureCode::InvalidArgument, text),
            (_, "no_stdin" | "stdin_closed") => {
                (FailureCode::FailedPrecondition, "error writing to stdin: stdin not enabled or closed".to_owned())
            }
            (_, "process_limit" | "too_many_attachments")
            | (
                Error::Exhausted { .. } | Error::Busy { .. } | Error::InputTooLarge { .. } | Error::InputNotRead { .. },
                _,
            ) => (FailureCode::ResourceExhausted, text),
            (Error::Conflict { .. } | Error::Over { .. }, _) => (FailureCode::FailedPrecondition, text),
            (Error::Gone { .. } | Error::LogDropped, _) => (FailureCode::DataLoss, text),
            (Error::Unavailable { .. }, _) => (FailureCode::Unavailable, text),
        };
        Self::new(code, message)
    }
}

/// A start that failed, in the words that users of the SDKs know.
pub(super) fn of_start(error: Error, command: &str, cwd: &str, user: Option<&str>) -> Failure {
    match error.code() {
        "user_unknown" => {
            let message = format!("invalid username: '{}'", user.unwrap_or_default());
            Failure::new(FailureCode::Unauthenticated, message)
        }
        "cwd_not_found" => Failure::invalid(format!("cwd '{cwd}' does not exist")),
        _ => {
            let failure = Failure::from(error);
            let message = format!("error starting process '{command}': {}", failure.message);
            Failure::new(failure.code, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_facts_in_their_words() {
        let spawn = |code| Error::Spawn { code, message: "why".into() };
        let failure = of_start(spawn("user_unknown"), "c", "/d", Some("ann"));
        assert_eq!(failure, Failure::new(FailureCode::Unauthenticated, "invalid username: 'ann'"));
        assert_eq!(of_start(spawn("cwd_not_found"), "c", "/d", None), Failure::invalid("cwd '/d' does not exist"));
        let failure = of_start(spawn("cwd_not_accessible"), "c", "/d", None);
        assert_eq!(failure, Failure::invalid("error starting process 'c': why"));
        let ended = Error::conflict("not_running", "process is not running");
        let by_pid = ProcessSelector { pid: Some(7), tag: None };
        assert_eq!(about(&by_pid)(ended).message, "process with pid 7 not found");
        let full = Error::InputNotRead { written: 3 };
        assert_eq!(about(&by_pid)(full).code, FailureCode::ResourceExhausted);
    }
}
