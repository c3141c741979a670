//! Starting, restarting, stopping, killing and signalling processes.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use outlive_core::process::ProcessInfo;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::extract::{Body, Params};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::SignalName;

/// How long a response waits for the exit by default. Clients rely on these values.
const DEFAULT_STOP_WAIT_MS: u64 = 2_000;
const DEFAULT_KILL_WAIT_MS: u64 = 1_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct StopQuery {
    /// How long the response waits for the exit. The exit itself does not depend on it.
    /// Ignored by `restart`, which waits for the next start.
    wait_ms: Option<u64>,
    /// Time between SIGTERM and SIGKILL. Ignored by `kill`.
    grace_ms: Option<u64>,
}

impl StopQuery {
    fn grace(&self, app: &AppState) -> Duration {
        Duration::from_millis(self.grace_ms.unwrap_or_else(|| app.core.config().stop_grace_ms))
    }
}

/// Start a reserved or exited process.
#[utoipa::path(post, path = "/v1/processes/{id}/start", params(("id" = String, Path)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn start(State(app): State<AppState>, path: ProcessPath) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    process.start().await?;
    Ok(Json(process.info()))
}

/// Stop the process if it is running and start it again in place: same id, same log, next generation.
#[utoipa::path(post, path = "/v1/processes/{id}/restart", params(("id" = String, Path), StopQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn restart(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<StopQuery>,
) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    process.restart(query.grace(&app)).await?;
    Ok(Json(process.info()))
}

/// Send SIGTERM to the whole tree, and SIGKILL after the grace time.
#[utoipa::path(post, path = "/v1/processes/{id}/stop", params(("id" = String, Path), StopQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn stop(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<StopQuery>,
) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(DEFAULT_STOP_WAIT_MS));
    process.stop(query.grace(&app), wait).await?;
    Ok(Json(process.info()))
}

/// Send SIGKILL to the whole tree.
#[utoipa::path(post, path = "/v1/processes/{id}/kill", params(("id" = String, Path), StopQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn kill(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<StopQuery>,
) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    process.kill(Duration::from_millis(query.wait_ms.unwrap_or(DEFAULT_KILL_WAIT_MS))).await?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, ToSchema)]
pub(super) struct SignalRequest {
    /// A name such as `SIGINT` or `INT`, or a number.
    #[schema(value_type = String)]
    signal: SignalName,
    /// Signal only the foreground process group of the terminal, as Ctrl-C does.
    #[serde(default)]
    foreground: bool,
}

/// Send a signal to the whole tree, or to the foreground process group of its terminal.
#[utoipa::path(post, path = "/v1/processes/{id}/signal", params(("id" = String, Path)),
    request_body = SignalRequest, responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn signal(
    State(app): State<AppState>,
    path: ProcessPath,
    Body(request): Body<SignalRequest>,
) -> HandlerResult<Json<ProcessInfo>> {
    let number = request.signal.number()?;
    let process = path.find(&app).await?;
    if request.foreground {
        process.signal_foreground(number).await?;
    } else {
        process.signal(number).await?;
    }
    Ok(Json(process.info()))
}
