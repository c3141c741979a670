//! The history: what is stored on disk, also of earlier boots.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::Error;
use outlive_core::history::{BootFilter, BootInfo, HistoryExec, HistorySession, HistoryStatus};
use outlive_core::process::Process;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::{AuthRejection, Grant, Scope};
use crate::http::AppState;
use crate::http::extract::{Params, Path};
use crate::http::problem::{HandlerResult, Problem};

/// A history that is off has no records.
fn empty_if_off<T>(listed: outlive_core::Result<Vec<T>>) -> outlive_core::Result<Vec<T>> {
    match listed {
        Err(Error::Unavailable { code: "history_off", .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

/// The processes of a `boot` filter, oldest first. They include those that still exist, if the filter includes this
/// boot.
pub(super) async fn list_processes(
    app: &AppState,
    grant: &Grant,
    boot: &str,
    with_runs: bool,
) -> HandlerResult<Vec<Arc<Process>>> {
    if grant.scope < Scope::Admin {
        return Err(AuthRejection::Scope { has: grant.scope, required: Scope::Admin }.into());
    }
    let filter = BootFilter::parse(boot);
    let mut processes = empty_if_off(app.core.list_boot(&filter).await)?;
    let is_this_boot = match &filter {
        BootFilter::Current | BootFilter::All => true,
        BootFilter::Previous => false,
        BootFilter::Id(id) => *id == format!("{:x}", app.core.welcome().boot_id),
    };
    if is_this_boot {
        processes.extend(app.core.list(with_runs));
        processes.sort_by_key(|process| process.id().to_owned());
    }
    Ok(processes)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryInfo {
    #[serde(flatten)]
    status: HistoryStatus,
    /// The runs of outlive that have records, oldest first.
    boots: Vec<BootInfo>,
}

/// What the history stores, where, and within which limits.
#[utoipa::path(get, path = "/v1/history", responses((status = 200, body = HistoryInfo)))]
pub(super) async fn info(State(app): State<AppState>) -> HandlerResult<Json<HistoryInfo>> {
    // Waits until the directory is open, so the status comes second.
    let boots = empty_if_off(app.core.boots().await)?;
    Ok(Json(HistoryInfo { status: app.core.history_status(), boots }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct BootQuery {
    /// `current`, `previous`, `all` (default) or the id of a boot.
    boot: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct HistorySessionList {
    sessions: Vec<HistorySession>,
}

/// List stored sessions, oldest first.
#[utoipa::path(get, path = "/v1/history/sessions", params(BootQuery), responses(
    (status = 200, body = HistorySessionList), (status = "4XX", body = Problem)))]
pub(super) async fn sessions(
    State(app): State<AppState>,
    Params(query): Params<BootQuery>,
) -> HandlerResult<Json<HistorySessionList>> {
    let boot = query.boot.as_deref().map_or(BootFilter::All, BootFilter::parse);
    Ok(Json(HistorySessionList { sessions: empty_if_off(app.core.history_sessions(&boot).await)? }))
}

#[derive(Serialize, ToSchema)]
pub(super) struct HistoryExecList {
    execs: Vec<HistoryExec>,
}

/// List the stored commands of a session, oldest first. The output of each is that of the process `processId`.
#[utoipa::path(get, path = "/v1/history/sessions/{id}/execs", params(("id" = String, Path)), responses(
    (status = 200, body = HistoryExecList), (status = 404, body = Problem)))]
pub(super) async fn execs(State(app): State<AppState>, Path(id): Path<String>) -> HandlerResult<Json<HistoryExecList>> {
    Ok(Json(HistoryExecList { execs: app.core.history_execs(&id).await? }))
}

/// Delete a process or session of the history; a process that is still listed, too. A session is named by its
/// `historyId`. Nothing of it can be read after the response, and its bytes are removed from the disk within a minute.
#[utoipa::path(delete, path = "/v1/history/{id}", params(("id" = String, Path)), responses(
    (status = 204), (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn delete(State(app): State<AppState>, Path(id): Path<String>) -> HandlerResult<StatusCode> {
    delete_stored(&app, &id).await
}

pub(super) async fn delete_stored(app: &AppState, id: &str) -> HandlerResult<StatusCode> {
    if app.core.delete_from_history(id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(Error::not_found(id).into()) }
}

/// Seal segments, enforce the limits and remove deleted output from the disk now.
#[utoipa::path(post, path = "/v1/history/gc", responses((status = 200, body = HistoryStatus), (status = 503, body = Problem)))]
pub(super) async fn gc(State(app): State<AppState>) -> HandlerResult<Json<HistoryStatus>> {
    app.core.collect_garbage().await?;
    Ok(Json(app.core.history_status()))
}
