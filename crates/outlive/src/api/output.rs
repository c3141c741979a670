//! Raw output of a process by offset.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::Process;
use serde::Deserialize;
use utoipa::IntoParams;

use super::logs::stream_filter;
use super::process_path::ProcessPath;
use crate::access::Grant;
use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::output_body::output_body;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::parse_flow;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OutputQuery {
    /// First offset; default: the oldest byte in the log.
    from: Option<u64>,
    /// End before this offset.
    to: Option<u64>,
    /// `stdout`, `stderr`, `combined` or `pty`; default: all streams, in the order in which they were read.
    stream: Option<String>,
    /// Continue until the exit of the process and its last byte.
    follow: Option<bool>,
    /// `lossless` (default; needs the scope `write`, because the program waits for this client) or `live` (default
    /// without that scope; the response is aborted if the client reads too slowly).
    flow: Option<String>,
}

impl OutputQuery {
    pub(super) fn is_followed(&self) -> bool {
        self.follow.unwrap_or(false)
    }
}

/// Read the output of a process from an offset on.
#[utoipa::path(get, path = "/v1/processes/{id}/output", params(("id" = String, Path), OutputQuery), responses(
    (status = 200, content_type = "application/octet-stream"), (status = "4XX", body = Problem)))]
pub(super) async fn output(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<OutputQuery>,
) -> HandlerResult<Response> {
    let process = path.find_anywhere(&app).await?;
    output_response(app, process, &query, &path.grant).await
}

/// The output of a process, or of the process that records a session exec.
pub(super) async fn output_response(
    app: AppState,
    process: Arc<Process>,
    query: &OutputQuery,
    grant: &Grant,
) -> HandlerResult<Response> {
    let filter = stream_filter(query.stream.clone())?.unwrap_or(StreamFilter::All);
    let flow = grant.flow(parse_flow(query.flow.clone())?, Flow::Lossless)?;
    let follow = query.is_followed();
    let log = if follow { process.wait_for_log().await? } else { process.log()? };
    let mut cursor = Cursor::open(&log, query.from.map_or(Start::Oldest, Start::At), flow, filter)?;
    // A gap aborts the body. The header says where this one begins, so a client can continue after the gap.
    cursor.skip_missing().await;
    let (offset, head) = (cursor.offset(), log.head());
    let until = query.to.unwrap_or(u64::MAX).min(if follow { u64::MAX } else { head });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("x-outlive-offset"), HeaderValue::from(offset)),
        (HeaderName::from_static("x-outlive-head"), HeaderValue::from(head)),
    ];
    Ok((headers, output_body(app, process, cursor, until)).into_response())
}
