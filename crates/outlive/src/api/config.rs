//! Limits that can be read and changed.

use axum::Json;
use axum::extract::State;
use outlive_core::config::{Config, ProcessConfig};

use super::extract::Body;
use super::problem::{Answer, Problem};
use super::state::App;

/// The six limits that sandbox-agent knows.
#[utoipa::path(get, path = "/v1/processes/config", responses((status = 200, body = ProcessConfig)))]
pub(super) async fn get_process_config(State(app): State<App>) -> Json<ProcessConfig> {
    Json(app.core.process_config())
}

/// Set all six.
#[utoipa::path(post, path = "/v1/processes/config", request_body = ProcessConfig, responses(
    (status = 200, body = ProcessConfig), (status = "4XX", body = Problem)))]
pub(super) async fn set_process_config(
    State(app): State<App>,
    Body(config): Body<ProcessConfig>,
) -> Answer<Json<ProcessConfig>> {
    Ok(Json(app.core.set_process_config(config)?))
}

/// outlive's further limits.
#[utoipa::path(get, path = "/v1/config", responses((status = 200, body = Config)))]
pub(super) async fn get_config(State(app): State<App>) -> Json<Config> {
    Json(app.core.config())
}

/// Set them; what is left out gets its default.
#[utoipa::path(post, path = "/v1/config", request_body = Config, responses(
    (status = 200, body = Config), (status = "4XX", body = Problem)))]
pub(super) async fn set_config(State(app): State<App>, Body(config): Body<Config>) -> Answer<Json<Config>> {
    Ok(Json(app.core.set_config(config)?))
}
