//! What `envd` answers besides the process service.

use axum::extract::State;
use axum::http::StatusCode;

use crate::api::App;

/// 204 while processes can be started. Never 502, which to the SDKs means that the sandbox is gone.
pub(super) async fn health(State(app): State<App>) -> StatusCode {
    if app.core.holder_is_gone() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}
