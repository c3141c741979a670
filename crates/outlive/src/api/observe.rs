//! Observing a process and the machine: attachments, the process tree, load.

use axum::Json;
use axum::extract::State;
use outlive_core::attach::AttachmentInfo;
use outlive_core::observe::{ListeningPort, Machine, TreeProcess};
use serde::Serialize;
use utoipa::ToSchema;

use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::problem::{HandlerResult, Problem};

#[derive(Serialize, ToSchema)]
pub(super) struct AttachmentList {
    attachments: Vec<AttachmentInfo>,
}

/// List the attachments of a process.
#[utoipa::path(get, path = "/v1/processes/{id}/attachments", params(("id" = String, Path)), responses(
    (status = 200, body = AttachmentList), (status = 404, body = Problem)))]
pub(super) async fn attachments(State(app): State<AppState>, path: ProcessPath) -> HandlerResult<Json<AttachmentList>> {
    Ok(Json(AttachmentList { attachments: path.find(&app).await?.attachments() }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tree {
    #[schema(value_type = Vec<Object>)]
    processes: Vec<TreeProcess>,
    /// CPU time of all living processes of the tree.
    cpu_ms: u64,
    rss_bytes: u64,
    #[schema(value_type = Vec<Object>)]
    listening_ports: Vec<ListeningPort>,
}

/// Read the processes of a tree, their resources and their listening ports.
#[utoipa::path(get, path = "/v1/processes/{id}/tree", params(("id" = String, Path)), responses(
    (status = 200, body = Tree), (status = 404, body = Problem)))]
pub(super) async fn tree(State(app): State<AppState>, path: ProcessPath) -> HandlerResult<Json<Tree>> {
    let process = path.find(&app).await?;
    let (processes, listening_ports) = (process.tree().await, process.listening_ports().await);
    let (cpu_ms, rss_bytes) =
        processes.iter().fold((0, 0), |(cpu, rss), process| (cpu + process.cpu_ms, rss + process.rss_bytes));
    Ok(Json(Tree { processes, cpu_ms, rss_bytes, listening_ports }))
}

/// Read the load of the machine.
#[utoipa::path(get, path = "/v1/machine", responses((status = 200, body = Machine)))]
pub(super) async fn machine() -> Json<Machine> {
    Json(outlive_core::observe::machine().await)
}
