//! Who is attached, and what runs inside.

use axum::Json;
use axum::extract::State;
use outlive_core::attach::AttachmentInfo;
use outlive_core::observe::{ListeningPort, Machine, TreeProcess};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::Path;
use super::problem::{Answer, Problem};
use super::state::App;

#[derive(Serialize, ToSchema)]
pub(super) struct AttachmentList {
    attachments: Vec<AttachmentInfo>,
}

/// Who is attached to a process.
#[utoipa::path(get, path = "/v1/processes/{id}/attachments", params(("id" = String, Path)), responses(
    (status = 200, body = AttachmentList), (status = 404, body = Problem)))]
pub(super) async fn attachments(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<AttachmentList>> {
    Ok(Json(AttachmentList { attachments: app.core.find(&id)?.attachments() }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tree {
    #[schema(value_type = Vec<Object>)]
    processes: Vec<TreeProcess>,
    /// CPU time of all that live now.
    cpu_ms: u64,
    rss_bytes: u64,
    #[schema(value_type = Vec<Object>)]
    listening_ports: Vec<ListeningPort>,
}

/// The processes of a tree, what they use and where they listen.
#[utoipa::path(get, path = "/v1/processes/{id}/tree", params(("id" = String, Path)), responses(
    (status = 200, body = Tree), (status = 404, body = Problem)))]
pub(super) async fn tree(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<Tree>> {
    let process = app.core.find(&id)?;
    let (processes, listening_ports) = (process.tree().await, process.listening_ports().await);
    let (cpu_ms, rss_bytes) = processes.iter().fold((0, 0), |(cpu, rss), one| (cpu + one.cpu_ms, rss + one.rss_bytes));
    Ok(Json(Tree { processes, cpu_ms, rss_bytes, listening_ports }))
}

/// How busy the machine is, and how full.
#[utoipa::path(get, path = "/v1/machine", responses((status = 200, body = Machine)))]
pub(super) async fn machine() -> Json<Machine> {
    Json(outlive_core::observe::machine().await)
}
