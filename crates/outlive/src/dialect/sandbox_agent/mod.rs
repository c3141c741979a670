//! sandbox-agent: the routes that only its SDK uses. The native API adopted the SDK's other routes, so these are
//! mounted at `/v1` of the main address, beside the native ones, and have no prefix and no address of their own.
//!
//! Native behaviour that the SDK relies on, and that must not change:
//! - the prefix of a problem's `type`, and the title and message of a 401 (`http/problem.rs`);
//! - the default `waitMs` of `stop` (2 s) and `kill` (1 s) (`api/lifecycle.rs`);
//! - log entries in base64, and `combined` without terminal output (`api/logs.rs`);
//! - `exitCode: null` after a timeout of a run (`api/run.rs`).

mod terminal;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use outlive_core::attach::Size;
use outlive_core::config::ProcessConfig;

use crate::access::Scope;
use crate::http::extract::{Body, Path};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::{AppState, RequiredScope, Routes};

#[cfg(any(fuzzing, test))]
pub(crate) use self::terminal::{ClientFrame, TerminalQuery};

#[cfg(any(test, debug_assertions))]
#[derive(utoipa::OpenApi)]
#[openapi(paths(get_process_config, set_process_config, resize_terminal, terminal::terminal,))]
pub(super) struct Document;

pub(super) fn routes() -> Routes {
    const READ: RequiredScope = RequiredScope::Scope(Scope::Read);
    const WRITE: RequiredScope = RequiredScope::Scope(Scope::Write);
    const ADMIN: RequiredScope = RequiredScope::Scope(Scope::Admin);
    Routes::default()
        .add(READ, Method::GET, "/v1/processes/config", get_process_config)
        .add(ADMIN, Method::POST, "/v1/processes/config", set_process_config)
        .add(WRITE, Method::POST, "/v1/processes/{id}/terminal/resize", resize_terminal)
        .add(RequiredScope::Attach, Method::GET, "/v1/processes/{id}/terminal/ws", terminal::terminal)
}

/// Read the six limits of sandbox-agent.
#[utoipa::path(get, path = "/v1/processes/config", responses((status = 200, body = ProcessConfig)))]
pub(super) async fn get_process_config(State(app): State<AppState>) -> Json<ProcessConfig> {
    Json(app.core.process_config())
}

/// Set all six limits.
#[utoipa::path(post, path = "/v1/processes/config", request_body = ProcessConfig, responses(
    (status = 200, body = ProcessConfig), (status = "4XX", body = Problem)))]
pub(super) async fn set_process_config(
    State(app): State<AppState>,
    Body(config): Body<ProcessConfig>,
) -> HandlerResult<Json<ProcessConfig>> {
    Ok(Json(app.core.set_process_config(config)?))
}

/// Set the size of a terminal. Same as `/v1/processes/{id}/resize`.
#[utoipa::path(post, path = "/v1/processes/{id}/terminal/resize", params(("id" = String, Path)),
    request_body = Size, responses(
    (status = 200, body = Size), (status = "4XX", body = Problem)))]
pub(super) async fn resize_terminal(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(size): Body<Size>,
) -> HandlerResult<Json<Size>> {
    app.core.find(&id)?.resize(size).await?;
    Ok(Json(size))
}
