//! Connect's errors.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::problem::{Code, Problem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum FailureCode {
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

impl FailureCode {
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

    /// As the protocol's table has it.
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

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Failure {
    pub(in super::super) code: FailureCode,
    pub(in super::super) message: String,
}

impl Failure {
    pub(in super::super) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(in super::super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureCode::InvalidArgument, message)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "code": self.code.name(), "message": self.message })
    }
}

/// What was wrong with a body before anybody understood it.
impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let code = match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => FailureCode::ResourceExhausted,
            StatusCode::REQUEST_TIMEOUT => FailureCode::DeadlineExceeded,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => FailureCode::Unimplemented,
            StatusCode::SERVICE_UNAVAILABLE => FailureCode::Unavailable,
            _ => FailureCode::InvalidArgument,
        };
        Self::new(code, problem.detail())
    }
}

/// Of a unary call; JSON, whatever the call was in.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.to_json())).into_response();
        response.extensions_mut().insert(Code(self.code.name()));
        response
    }
}
