//! Start, restart, stop, kill, signal.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use outlive_core::process::ProcessInfo;
use outlive_core::signal;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::extract::{Body, Params, Path};
use super::problem::{Answer, Problem};
use super::state::App;

/// As sandbox-agent's server does.
const DEFAULT_STOP_WAIT_MS: u64 = 2_000;
const DEFAULT_KILL_WAIT_MS: u64 = 1_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndQuery {
    /// How long the answer waits for the end; the end itself does not depend on it.
    wait_ms: Option<u64>,
    /// Time between TERM and KILL.
    grace_ms: Option<u64>,
}

impl EndQuery {
    fn grace(&self, app: &App) -> Duration {
        Duration::from_millis(self.grace_ms.unwrap_or_else(|| app.core.config().stop_grace_ms))
    }
}

/// Start a reserved process, or one that has ended.
#[utoipa::path(post, path = "/v1/processes/{id}/start", params(("id" = String, Path)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn start(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    process.start().await?;
    Ok(Json(process.info()))
}

/// End the process if it runs and start it again in place: same id, same log, next generation.
#[utoipa::path(post, path = "/v1/processes/{id}/restart", params(("id" = String, Path), EndQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn restart(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<EndQuery>,
) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    process.restart(query.grace(&app)).await?;
    Ok(Json(process.info()))
}

/// TERM to the whole tree, KILL after the grace time.
#[utoipa::path(post, path = "/v1/processes/{id}/stop", params(("id" = String, Path), EndQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn stop(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<EndQuery>,
) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(DEFAULT_STOP_WAIT_MS));
    process.stop(query.grace(&app), wait).await?;
    Ok(Json(process.info()))
}

/// KILL to the whole tree.
#[utoipa::path(post, path = "/v1/processes/{id}/kill", params(("id" = String, Path), EndQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn kill(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<EndQuery>,
) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    process.kill(Duration::from_millis(query.wait_ms.unwrap_or(DEFAULT_KILL_WAIT_MS))).await?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, ToSchema)]
pub(super) struct SignalRequest {
    /// A name such as `SIGINT` or `INT`, or a number.
    #[schema(value_type = String)]
    signal: SignalName,
    /// Only to those in the foreground of its terminal, as Ctrl-C would.
    #[serde(default)]
    foreground: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum SignalName {
    Number(u8),
    Name(String),
}

impl SignalName {
    pub(super) fn number(&self) -> outlive_core::Result<u8> {
        match self {
            Self::Number(number) => signal::parse(&number.to_string()),
            Self::Name(name) => signal::parse(name),
        }
    }
}

/// Send a signal to the whole tree, or to the foreground of its terminal.
#[utoipa::path(post, path = "/v1/processes/{id}/signal", params(("id" = String, Path)), request_body = SignalRequest, responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn signal(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(request): Body<SignalRequest>,
) -> Answer<Json<ProcessInfo>> {
    let number = request.signal.number()?;
    let process = app.core.find(&id)?;
    if request.foreground {
        process.signal_foreground(number).await?;
    } else {
        process.signal(number).await?;
    }
    Ok(Json(process.info()))
}
