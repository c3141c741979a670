//! Input to a process, and the size of its terminal.

use axum::Json;
use axum::extract::State;
use outlive_core::attach::Size;
use outlive_core::process::ProcessInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::extract::Body;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::Encoding;

#[derive(Deserialize, ToSchema)]
pub(super) struct InputRequest {
    data: String,
    /// `base64` (default), `utf8` or `text`.
    encoding: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputResponse {
    bytes_written: usize,
}

/// Write to the stdin or terminal of a process. The response is sent when the kernel has accepted the bytes.
#[utoipa::path(post, path = "/v1/processes/{id}/input", params(("id" = String, Path)),
    request_body = InputRequest, responses(
    (status = 200, body = InputResponse), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn input(
    State(app): State<AppState>,
    path: ProcessPath,
    Body(request): Body<InputRequest>,
) -> HandlerResult<Json<InputResponse>> {
    let bytes = Encoding::parse(request.encoding.as_deref(), Encoding::Base64)?.decode(&request.data)?;
    app.check_input_size(bytes.len())?;
    path.find(&app).await?.input(&bytes).await?;
    Ok(Json(InputResponse { bytes_written: bytes.len() }))
}

/// Close the stdin pipe of a process, which then reads end of file.
#[utoipa::path(post, path = "/v1/processes/{id}/stdin/close", params(("id" = String, Path)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn close_stdin(State(app): State<AppState>, path: ProcessPath) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    process.close_input().await?;
    Ok(Json(process.info()))
}

/// Set the size of a terminal.
#[utoipa::path(post, path = "/v1/processes/{id}/resize", params(("id" = String, Path)), request_body = Size, responses(
    (status = 200, body = Size), (status = "4XX", body = Problem)))]
pub(super) async fn resize(
    State(app): State<AppState>,
    path: ProcessPath,
    Body(size): Body<Size>,
) -> HandlerResult<Json<Size>> {
    path.find(&app).await?.resize(size).await?;
    Ok(Json(size))
}
