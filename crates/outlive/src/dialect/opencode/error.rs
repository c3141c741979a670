//! Errors in OpenCode's words, of which there are two kinds: those of its first API, and those below `/api`. What the core and the front have to say becomes
//! what its clients understand here, and nowhere else.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use serde_json::{Value, json};

use super::id;
use crate::api::problem::{Code, Problem, quote};

/// Which of its two APIs a request came to: the second one is below `/api`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    First,
    Second,
}

/// What part of a request makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Params,
    Payload,
    Body,
    Query,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Params => "Params",
            Self::Payload => "Payload",
            Self::Body => "Body",
            Self::Query => "Query",
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    BadRequest {
        part: Part,
        message: String,
        field: Option<String>,
    },
    NoTerminal {
        id: String,
    },
    /// A ticket was asked for without the header that says so.
    NoTicket,
    NoSession {
        id: String,
    },
    NoMessage {
        id: String,
    },
    SessionBusy {
        id: String,
    },
    /// Whatever else the core or the front has to say.
    Other(Problem),
}

impl Failure {
    pub(super) fn bad(part: Part, message: impl Into<String>) -> Self {
        Self::BadRequest { part, message: message.into(), field: None }
    }

    /// In the words of a validator: what, and where.
    pub(super) fn wrong(field: &str, expected: &str, got: &str) -> Self {
        let place: Vec<String> = field.split('.').map(quote).collect();
        let message = format!("Expected {expected}, got {}\n  at [\"{}\"]", quote(got), place.join("\"][\""));
        Self::BadRequest { part: Part::Payload, message, field: Some(field.to_owned()) }
    }

    /// Something in the path that is no id of its kind.
    pub(super) fn no_id(name: &str, prefix: &str, got: &str) -> Self {
        let got = quote(got);
        Self::bad(Part::Params, format!("Expected a string starting with {prefix:?}, got {got:?}\n  at [{name:?}]"))
    }

    pub(super) fn no_terminal(id: &str) -> Self {
        Self::NoTerminal { id: quote(id) }
    }

    pub(super) fn no_session(id: &str) -> Self {
        Self::NoSession { id: quote(id) }
    }

    pub(super) fn no_message(id: &str) -> Self {
        Self::NoMessage { id: quote(id) }
    }

    pub(super) fn too_many_tickets() -> Self {
        let message = "too many tickets wait to be used: try again in a minute".to_owned();
        Error::Exhausted { code: "too_many_tickets", message }.into()
    }

    pub(super) fn too_many_sessions(most: usize) -> Self {
        let message = format!("{most} sessions are busy; wait until one has ended");
        Error::Exhausted { code: "too_many_sessions", message }.into()
    }

    /// The task of a command has failed, and nobody knows how far it came.
    pub(super) fn broken_off() -> Self {
        Error::conflict("broken_off", "the command was broken off").into()
    }

    pub(super) fn on(self, api: Api) -> Response {
        let (status, body) = match (self, api) {
            (Self::BadRequest { part, message, .. }, Api::First) => bad_request(part.name(), &message),
            (Self::BadRequest { part, message, field }, Api::Second) => {
                let mut body = json!({ "_tag": "InvalidRequestError", "message": message, "kind": part.name() });
                if let Some(field) = field {
                    body["field"] = field.into();
                }
                (StatusCode::BAD_REQUEST, body)
            }
            (Self::NoTerminal { id }, _) => {
                let message = format!("PTY session not found: {id}");
                (StatusCode::NOT_FOUND, json!({ "_tag": "PtyNotFoundError", "ptyID": id, "message": message }))
            }
            (Self::NoTicket, api) => {
                let tag = if api == Api::Second { "ForbiddenError" } else { "PtyForbiddenError" };
                (StatusCode::FORBIDDEN, json!({ "_tag": tag, "message": "Invalid PTY connect token request" }))
            }
            (Self::NoSession { id }, _) => {
                named("NotFoundError", StatusCode::NOT_FOUND, &format!("Session not found: {id}"))
            }
            (Self::NoMessage { id }, _) => {
                named("NotFoundError", StatusCode::NOT_FOUND, &format!("Message not found: {id}"))
            }
            (Self::SessionBusy { id }, _) => {
                let message = format!("Session is busy: {id}");
                (StatusCode::CONFLICT, json!({ "_tag": "SessionBusyError", "sessionID": id, "message": message }))
            }
            (Self::Other(problem), _) => return in_words(problem),
        };
        (status, Json(body)).into_response()
    }
}

fn named(name: &str, status: StatusCode, message: &str) -> (StatusCode, Value) {
    (status, json!({ "name": name, "data": { "message": message } }))
}

/// Whatever has no name of its own, in an answer or an event.
pub(super) fn unknown(message: &str) -> Value {
    json!({ "name": "UnknownError", "data": { "message": message } })
}

fn bad_request(kind: &str, message: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, json!({ "name": "BadRequest", "data": { "message": message, "kind": kind } }))
}

/// What the front refuses, and what has no words of its own. It does not know to which API a request came, so there is one form for both.
pub(super) fn in_words(problem: Problem) -> Response {
    let (code, detail) = (problem.code(), problem.detail());
    let (status, body) = match problem.status() {
        StatusCode::UNAUTHORIZED if code == "ticket_invalid" => forbidden("Invalid PTY connect token request"),
        StatusCode::UNAUTHORIZED => {
            let body = json!({ "_tag": "UnauthorizedError", "message": "Authentication required" });
            (StatusCode::UNAUTHORIZED, body)
        }
        StatusCode::FORBIDDEN => forbidden(detail),
        StatusCode::NOT_FOUND => named("NotFoundError", StatusCode::NOT_FOUND, detail),
        status if status.is_client_error() => {
            let part = match code {
                "invalid_query" => Part::Query,
                "invalid_path" => Part::Params,
                _ => Part::Body,
            };
            let (_, body) = bad_request(part.name(), detail);
            (status, body)
        }
        status => (status, unknown(detail)),
    };
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"Secure Area\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    response.extensions_mut().insert(Code(code));
    response
}

fn forbidden(message: &str) -> (StatusCode, Value) {
    (StatusCode::FORBIDDEN, json!({ "_tag": "ForbiddenError", "message": message }))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound { resource: "process", id } => Self::NoTerminal { id: id::of_process(&id) },
            Error::Invalid { field, expected, got } => {
                // Where our words for a thing differ from theirs.
                let field = if field == "label" { "title" } else { &field };
                Self::wrong(field, &expected, &got)
            }
            Error::Spawn { message, .. } => Self::bad(Part::Payload, message),
            other => Self::Other(other.into()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(response: Response) -> (u16, Value) {
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn the_same_fact_on_both_apis() {
        let wrong = || Failure::wrong("size.rows", "a value greater than 0", "0");
        let (status, body) = said(wrong().on(Api::First)).await;
        assert_eq!((status, body["data"]["kind"].as_str()), (400, Some("Payload")));
        assert_eq!(body["data"]["message"], "Expected a value greater than 0, got 0\n  at [\"size\"][\"rows\"]");
        let (_, body) = said(wrong().on(Api::Second)).await;
        assert_eq!((body["_tag"].as_str(), body["field"].as_str()), (Some("InvalidRequestError"), Some("size.rows")));
        let gone = Failure::from(Error::not_found("proc_1"));
        assert_eq!(said(gone.on(Api::Second)).await.1["ptyID"], "pty_1");
        assert_eq!(said(Failure::NoTicket.on(Api::First)).await.1["_tag"], "PtyForbiddenError");
    }

    #[tokio::test]
    async fn a_failed_start_is_the_callers_affair() {
        let spawn = Error::Spawn { code: "command_not_found", message: "x: command not found".into() };
        assert_eq!(said(Failure::from(spawn).on(Api::First)).await.0, 400);
        let full = Error::Exhausted { code: "x", message: "full".into() };
        assert_eq!(
            said(Failure::from(full).on(Api::First)).await,
            (503, json!({"name":"UnknownError","data":{"message":"full"}}))
        );
    }
}
