//! Errors in E2B's words.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

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
