//! Errors as OpenCode's clients expect them. V1 and V2 have different shapes; this module is the only place where
//! errors of the core and of the middleware become responses of this dialect.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use super::ids;
use crate::http::problem::{ErrorCode, Problem, quote};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    V1,
    V2,
}

/// The part of a request that is invalid, under the name that clients expect in `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPart {
    Params,
    Payload,
    Body,
    Query,
}

impl RequestPart {
    fn name(self) -> &'static str {
        match self {
            Self::Params => "Params",
            Self::Payload => "Payload",
            Self::Body => "Body",
            Self::Query => "Query",
        }
    }
}

/// Why a request failed. [`V1Error`] and [`V2Error`] render it for the two APIs.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    BadRequest {
        part: RequestPart,
        message: String,
        field: Option<String>,
    },
    PtyNotFound {
        id: String,
    },
    /// The request for a connect token lacks the header `x-opencode-ticket: 1`.
    TicketHeaderMissing,
    SessionNotFound {
        id: String,
    },
    MessageNotFound {
        id: String,
    },
    SessionBusy {
        id: String,
    },
    /// Any other error of the core or of the middleware.
    Other(Problem),
}

impl Failure {
    pub(super) fn bad_request(part: RequestPart, message: impl Into<String>) -> Self {
        Self::BadRequest { part, message: message.into(), field: None }
    }

    /// A field of the body has an invalid value. The text has the form of OpenCode's schema validator.
    pub(super) fn invalid_field(field: &str, expected: &str, got: &str) -> Self {
        let path: Vec<String> = field.split('.').map(quote).collect();
        let message = format!("Expected {expected}, got {}\n  at [\"{}\"]", quote(got), path.join("\"][\""));
        Self::BadRequest { part: RequestPart::Payload, message, field: Some(field.to_owned()) }
    }

    /// An id in the path does not have the prefix of its kind.
    pub(super) fn invalid_id(name: &str, prefix: &str, got: &str) -> Self {
        let got = quote(got);
        let message = format!("Expected a string starting with {prefix:?}, got {got:?}\n  at [{name:?}]");
        Self::bad_request(RequestPart::Params, message)
    }

    pub(super) fn pty_not_found(id: &str) -> Self {
        Self::PtyNotFound { id: quote(id) }
    }

    pub(super) fn session_not_found(id: &str) -> Self {
        Self::SessionNotFound { id: quote(id) }
    }

    pub(super) fn message_not_found(id: &str) -> Self {
        Self::MessageNotFound { id: quote(id) }
    }

    pub(super) fn too_many_sessions(max: usize) -> Self {
        let message = format!("all {max} sessions are busy; wait until one is idle");
        Error::Exhausted { code: "too_many_sessions", message }.into()
    }

    /// The task of a command panicked, so its outcome is unknown.
    pub(super) fn task_failed() -> Self {
        Error::conflict("broken_off", "the task that runs the command failed").into()
    }

    fn render(self, api: Api) -> Response {
        let (status, body) = match (self, api) {
            (Self::BadRequest { part, message, .. }, Api::V1) => bad_request_body(part.name(), &message),
            (Self::BadRequest { part, message, field }, Api::V2) => {
                let mut body = json!({ "_tag": "InvalidRequestError", "message": message, "kind": part.name() });
                if let Some(field) = field {
                    body["field"] = field.into();
                }
                (StatusCode::BAD_REQUEST, body)
            }
            (Self::PtyNotFound { id }, _) => {
                let message = format!("PTY session not found: {id}");
                (StatusCode::NOT_FOUND, json!({ "_tag": "PtyNotFoundError", "ptyID": id, "message": message }))
            }
            (Self::TicketHeaderMissing, api) => {
                let tag = if api == Api::V2 { "ForbiddenError" } else { "PtyForbiddenError" };
                (StatusCode::FORBIDDEN, json!({ "_tag": tag, "message": "Invalid PTY connect token request" }))
            }
            (Self::SessionNotFound { id }, _) => not_found_body(&format!("Session not found: {id}")),
            (Self::MessageNotFound { id }, _) => not_found_body(&format!("Message not found: {id}")),
            (Self::SessionBusy { id }, _) => {
                let message = format!("Session is busy: {id}");
                (StatusCode::CONFLICT, json!({ "_tag": "SessionBusyError", "sessionID": id, "message": message }))
            }
            (Self::Other(problem), _) => return render_error(problem),
        };
        (status, Json(body)).into_response()
    }
}

fn not_found_body(message: &str) -> (StatusCode, Value) {
    (StatusCode::NOT_FOUND, json!({ "name": "NotFoundError", "data": { "message": message } }))
}

/// The error without a more specific name, in a response or in an event.
pub(super) fn unknown_error(message: &str) -> Value {
    json!({ "name": "UnknownError", "data": { "message": message } })
}

fn bad_request_body(kind: &str, message: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, json!({ "name": "BadRequest", "data": { "message": message, "kind": kind } }))
}

fn forbidden_body(message: &str) -> (StatusCode, Value) {
    (StatusCode::FORBIDDEN, json!({ "_tag": "ForbiddenError", "message": message }))
}

/// Renders a rejection of the middleware, and every error without a variant in [`Failure`]. The middleware does not
/// know the API of a request, so both APIs share this form.
pub(super) fn render_error(problem: Problem) -> Response {
    let (code, detail) = (problem.code(), problem.detail());
    let (status, body) = match problem.status() {
        StatusCode::UNAUTHORIZED if code == "ticket_invalid" => forbidden_body("Invalid PTY connect token request"),
        StatusCode::UNAUTHORIZED => {
            let body = json!({ "_tag": "UnauthorizedError", "message": "Authentication required" });
            (StatusCode::UNAUTHORIZED, body)
        }
        StatusCode::FORBIDDEN => forbidden_body(detail),
        StatusCode::NOT_FOUND => not_found_body(detail),
        status if status.is_client_error() => {
            let part = match code {
                "invalid_query" => RequestPart::Query,
                "invalid_path" => RequestPart::Params,
                _ => RequestPart::Body,
            };
            let (_, body) = bad_request_body(part.name(), detail);
            (status, body)
        }
        status => (status, unknown_error(detail)),
    };
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"Secure Area\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    response.extensions_mut().insert(ErrorCode(code));
    response
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound { resource: "process", id } => Self::PtyNotFound { id: ids::pty_id(&id) },
            Error::Invalid { field, expected, got } => {
                // The field that outlive calls `label` is `title` in this dialect.
                let field = if field == "label" { "title" } else { &field };
                Self::invalid_field(field, &expected, &got)
            }
            Error::Spawn { message, .. } => Self::bad_request(RequestPart::Payload, message),
            other => Self::Other(other.into()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match (problem.code(), problem.field(), problem.mismatch()) {
            ("malformed_json", ..) => Self::bad_request(RequestPart::Body, problem.detail()),
            // OpenCode's validator calls a missing value `undefined`.
            ("invalid_body", Some(field), Some((expected, "nothing"))) => {
                Self::invalid_field(field, expected, "undefined")
            }
            ("invalid_body", Some(field), Some((expected, got))) => Self::invalid_field(field, expected, got),
            ("invalid_body", ..) => Self::bad_request(RequestPart::Payload, problem.detail()),
            _ => Self::Other(problem),
        }
    }
}

/// A failure of a V1 call: the error type of its handler and of its extractors.
#[derive(Debug)]
pub(super) struct V1Error(Failure);

impl<E: Into<Failure>> From<E> for V1Error {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for V1Error {
    fn into_response(self) -> Response {
        self.0.render(Api::V1)
    }
}

/// A failure of a V2 call.
#[derive(Debug)]
pub(super) struct V2Error(Failure);

impl<E: Into<Failure>> From<E> for V2Error {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for V2Error {
    fn into_response(self) -> Response {
        self.0.render(Api::V2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_errors_have_the_form_of_opencodes_validator() {
        #[derive(Debug, serde::Deserialize)]
        struct Request {
            _agent: String,
        }
        let message = |body: &str| {
            let failure = Failure::from(crate::http::extract::parse::<Request>(body.as_bytes()).unwrap_err());
            async { read(failure.render(Api::V1)).await.1["data"].clone() }
        };
        assert_eq!(message("{}").await["message"], "Expected a value, got undefined\n  at [\"_agent\"]");
        assert_eq!(message("{\"_agent\":5}").await["message"], "Expected a string, got integer `5`\n  at [\"_agent\"]");
        assert_eq!(message("{").await["kind"], "Body");
    }

    async fn read(response: Response) -> (u16, Value) {
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn each_api_renders_a_failure_in_its_own_shape() {
        let invalid = || Failure::invalid_field("size.rows", "a value greater than 0", "0");
        let (status, body) = read(invalid().render(Api::V1)).await;
        assert_eq!((status, body["data"]["kind"].as_str()), (400, Some("Payload")));
        assert_eq!(body["data"]["message"], "Expected a value greater than 0, got 0\n  at [\"size\"][\"rows\"]");
        let (_, body) = read(invalid().render(Api::V2)).await;
        assert_eq!((body["_tag"].as_str(), body["field"].as_str()), (Some("InvalidRequestError"), Some("size.rows")));
        let not_found = Failure::from(Error::not_found("proc_1"));
        assert_eq!(read(not_found.render(Api::V2)).await.1["ptyID"], "pty_1");
        assert_eq!(read(Failure::TicketHeaderMissing.render(Api::V1)).await.1["_tag"], "PtyForbiddenError");
    }

    #[tokio::test]
    async fn a_failed_spawn_is_a_client_error() {
        let spawn = Error::Spawn { code: "command_not_found", message: "x: command not found".into() };
        assert_eq!(read(Failure::from(spawn).render(Api::V1)).await.0, 400);
        let full = Error::Exhausted { code: "x", message: "full".into() };
        assert_eq!(
            read(Failure::from(full).render(Api::V1)).await,
            (503, json!({"name":"UnknownError","data":{"message":"full"}}))
        );
    }
}
