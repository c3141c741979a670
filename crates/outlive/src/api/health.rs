//! Is it alive, and which one is it; replacing it by a newer one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::Notice;
use outlive_holder::clock;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Answer, Kind, Problem};
use super::state::App;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    /// `ok`, or `degraded` when the holder is gone: then nothing can be started.
    status: &'static str,
    version: &'static str,
    /// Names this life of outlive; survives the death of the server.
    boot_id: String,
    started_at_ms: u64,
    server_pid: u32,
    holder_pid: u32,
    /// How often the server had to be started again.
    server_restarts: u32,
    now_ms: u64,
    /// Trees are held in cgroups of their own.
    cgroups: bool,
}

/// Health and identity of this outlive.
#[utoipa::path(get, path = "/v1/health", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn health(State(app): State<App>) -> (StatusCode, Json<Health>) {
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
    };
    (status, Json(health))
}

/// For probes, which have no token: 200 while it can start processes. Tells nothing else.
#[utoipa::path(get, path = "/healthz", responses((status = 200, content_type = "text/plain"), (status = 503, content_type = "text/plain")))]
pub(super) async fn healthz(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.core.holder_is_gone() { (StatusCode::SERVICE_UNAVAILABLE, "degraded\n") } else { (StatusCode::OK, "ok\n") }
}

#[derive(Serialize, ToSchema)]
pub(super) struct Upgraded {
    status: &'static str,
}

/// Replace server and holder by the binary on disk; processes and connections waiting to be accepted are kept.
#[utoipa::path(post, path = "/v1/upgrade", responses(
    (status = 200, body = Upgraded), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn upgrade(State(app): State<App>) -> Answer<Json<Upgraded>> {
    let mut notice = app.core.notice();
    let before = notice.borrow().upgrades;
    app.core.upgrade();
    let settled = |notice: &Notice| notice.upgrades > before || notice.retire || notice.holder_gone;
    let notice = notice.wait_for(settled).await.map(|notice| notice.clone());
    let (error, retires, gone) = match notice {
        Ok(notice) => (notice.upgrade_error, notice.retire, notice.holder_gone),
        Err(_) => (None, false, true),
    };
    if retires {
        // The new one is ready. Whoever asks after this answer must not meet us again.
        app.ended().await;
        return Ok(Json(Upgraded { status: "ok" }));
    }
    match error {
        _ if gone => Err(outlive_core::Error::holder_gone().into()),
        None => Ok(Json(Upgraded { status: "ok" })),
        Some(why) => {
            let detail = format!("conflict: the upgrade failed and the old server carries on: {why}");
            Err(Problem::new(Kind::Conflict, StatusCode::CONFLICT, "upgrade_failed", detail))
        }
    }
}
