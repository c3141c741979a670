//! The server itself: health, metrics, limits and the upgrade to another binary.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlive_core::HolderStatus;
use outlive_core::config::Config;
use outlive_core::history::{HistoryState, HistoryStatus};
use outlive_holder::clock;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::AppState;
use crate::http::extract::Body;
use crate::http::problem::{HandlerResult, Kind, Problem};

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    /// `ok`, or `degraded` if the holder is gone, so that nothing can be started.
    status: &'static str,
    version: &'static str,
    /// Identifies this start of outlive; stays the same when the server is replaced.
    boot_id: String,
    started_at_ms: u64,
    server_pid: u32,
    holder_pid: u32,
    /// How often the holder has restarted the server.
    server_restarts: u32,
    now_ms: u64,
    /// Whether each process tree has a cgroup of its own.
    cgroups: bool,
    history: HistoryHealth,
}

/// Whether output is stored, so that it outlives this outlive.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryHealth {
    state: HistoryState,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// Why it is off or failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<HistoryStatus> for HistoryHealth {
    fn from(status: HistoryStatus) -> Self {
        let HistoryStatus { state, directory, reason, .. } = status;
        Self { state, directory, reason }
    }
}

/// Health and identity of this outlive.
#[utoipa::path(get, path = "/v1/health", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn health(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    let welcome = app.core.welcome();
    let gone = app.core.holder_is_gone();
    let status = if gone { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let health = Health {
        status: if gone { "degraded" } else { "ok" },
        version: env!("CARGO_PKG_VERSION"),
        boot_id: format!("{:x}", welcome.boot_id),
        started_at_ms: welcome.started_at_ms,
        server_pid: std::process::id(),
        holder_pid: welcome.holder_pid,
        server_restarts: welcome.restarts,
        now_ms: clock::wall_ms(),
        cgroups: welcome.cgroups,
        history: app.core.history_status().into(),
    };
    (status, Json(health))
}

/// For probes without a token: 200 while processes can be started.
#[utoipa::path(get, path = "/healthz", responses(
    (status = 200, content_type = "text/plain"), (status = 503, content_type = "text/plain")))]
pub(super) async fn healthz(State(app): State<AppState>) -> (StatusCode, &'static str) {
    if app.core.holder_is_gone() { (StatusCode::SERVICE_UNAVAILABLE, "degraded\n") } else { (StatusCode::OK, "ok\n") }
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(State(app): State<AppState>) -> Response {
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], app.metrics.encode(&app.core)).into_response()
}

/// Read the limits of outlive.
#[utoipa::path(get, path = "/v1/config", responses((status = 200, body = Config)))]
pub(super) async fn get_config(State(app): State<AppState>) -> Json<Config> {
    Json(app.core.config())
}

/// Set the limits; fields that are left out get their defaults.
#[utoipa::path(post, path = "/v1/config", request_body = Config, responses(
    (status = 200, body = Config), (status = "4XX", body = Problem)))]
pub(super) async fn set_config(State(app): State<AppState>, Body(config): Body<Config>) -> HandlerResult<Json<Config>> {
    Ok(Json(app.core.set_config(config)?))
}

#[derive(Serialize, ToSchema)]
#[schema(as = Upgraded)]
pub(super) struct UpgradeResponse {
    status: &'static str,
}

/// Replace server and holder by the binary on disk. Processes and connections that wait to be accepted are kept.
#[utoipa::path(post, path = "/v1/upgrade", responses(
    (status = 200, body = UpgradeResponse), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn upgrade(State(app): State<AppState>) -> HandlerResult<Json<UpgradeResponse>> {
    let mut notice = app.core.holder_status();
    let before = notice.borrow().upgrades;
    app.core.upgrade();
    let settled = |notice: &HolderStatus| notice.upgrades > before || notice.retire || notice.holder_gone;
    let notice = notice.wait_for(settled).await.map(|notice| notice.clone());
    let (error, retires, gone) = match notice {
        Ok(notice) => (notice.upgrade_error, notice.retire, notice.holder_gone),
        Err(_) => (None, false, true),
    };
    if retires {
        // The new server is ready. A request after this response must not reach this server.
        app.until_shutdown().await;
        return Ok(Json(UpgradeResponse { status: "ok" }));
    }
    match error {
        _ if gone => Err(outlive_core::Error::holder_gone().into()),
        None => Ok(Json(UpgradeResponse { status: "ok" })),
        Some(why) => {
            let detail = format!("conflict: the upgrade failed and the old server continues: {why}");
            Err(Problem::new(Kind::Conflict, StatusCode::CONFLICT, "upgrade_failed", detail))
        }
    }
}
