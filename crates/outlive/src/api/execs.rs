//! Commands in a session: running, reading, cancelling.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as AxumBody;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream;
use outlive_core::Error;
use outlive_core::follow::OnReaderGone;
use outlive_core::process::Source;
use outlive_core::session::{Exec, ExecInfo, ExecOutput, ExecSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::follow_events::follow_events;
use super::output::{OutputQuery, output_response};
use crate::access::Grant;
use crate::http::AppState;
use crate::http::extract::{Body, Params, Path};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::sse::{self, StreamEvent};
use crate::http::values::{Encoding, idempotency_key};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExecRequest {
    /// Text for the shell; may have several lines.
    command: String,
    /// For this command only.
    cwd: Option<String>,
    /// For this command only; `null` unsets.
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    stdin: Option<String>,
    stdin_encoding: Option<String>,
    /// Time limit, counted from the start of the command.
    timeout_ms: Option<u64>,
    /// How long the command may wait in the session's queue.
    queue_timeout_ms: Option<u64>,
    /// Bytes per stream in the response; longer output keeps its head and tail.
    max_output_bytes: Option<u64>,
    /// Encoding of `stdout` and `stderr` in the response: `utf8` (default) or `base64`.
    encoding: Option<String>,
    /// Respond with server-sent events while the command runs.
    #[serde(default)]
    stream: bool,
    /// Respond at once; the command is found again by its `execId`.
    #[serde(default)]
    detach: bool,
    /// On whose behalf the command runs: `user`, `agent` or `system`.
    source: Option<Source>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecResponse {
    #[serde(flatten)]
    info: ExecInfo,
    /// With `detach`, this and the fields below are only in the response of a later request for the command.
    #[schema(required = false)]
    stdout: String,
    #[schema(required = false)]
    stderr: String,
    /// The middle of the output is left out; `…/output` may have it.
    #[schema(required = false)]
    truncated: bool,
    #[schema(required = false)]
    encoding: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ExecList {
    execs: Vec<ExecInfo>,
}

/// Run a command in the session's shell. The command continues if the client disconnects.
#[utoipa::path(post, path = "/v1/sessions/{id}/exec", request_body = ExecRequest, params(
    ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, content((ExecResponse = "application/json"), (StreamEvent = "text/event-stream"))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn exec(
    State(app): State<AppState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(request): Body<ExecRequest>,
) -> HandlerResult<Response> {
    let session = app.core.find_session(&id)?;
    let encoding = Encoding::parse(request.encoding.as_deref(), Encoding::Utf8)?;
    let stdin = match &request.stdin {
        Some(text) => Some(Encoding::parse(request.stdin_encoding.as_deref(), Encoding::Utf8)?.decode(text)?),
        None => None,
    };
    let spec = ExecSpec {
        command: request.command,
        cwd: request.cwd,
        env: request.env,
        stdin,
        timeout_ms: request.timeout_ms,
        queue_timeout_ms: request.queue_timeout_ms,
        source: request.source,
        idempotency_key: idempotency_key(&headers)?,
        ..ExecSpec::default()
    };
    let max_bytes = max_output_bytes(&app, request.max_output_bytes);
    let exec = session.exec(spec).await?;
    if request.detach {
        return Ok(Json(exec.info()).into_response());
    }
    if request.stream {
        let follow = app.core.follow_exec(session, Arc::clone(&exec), OnReaderGone::KeepRunning);
        // The id is sent at once, even if the command waits in the queue, so that the client can cancel it.
        let start = json!({ "execId": exec.id(), "sessionId": exec.session_id() }).to_string();
        let start = stream::iter([sse::event("start", "", &start)]);
        return Ok(sse::response(start.chain(follow_events(app, follow, encoding, server_replaced(&exec)))));
    }
    let with_id = |error: Error| Problem::from(error).with_details(json!({ "execId": exec.id() }));
    let output = tokio::select! {
        output = exec.collect_output(max_bytes) => output,
        error = until_interrupted(&app, &exec) => return Err(with_id(error)),
    };
    match exec.failure() {
        Some(error) => Err(with_id(error)),
        None => Ok(Json(ExecResponse::new(&exec, output, encoding)).into_response()),
    }
}

/// Resolves when this server can no longer learn how the command ends.
async fn until_interrupted(app: &AppState, exec: &Exec) -> Error {
    tokio::select! {
        () = app.until_shutdown() => server_replaced(exec),
        () = app.core.wait_holder_gone() => Error::holder_gone(),
    }
}

fn server_replaced(exec: &Exec) -> Error {
    let message = format!("this server is being replaced and the command continues; request {} again", exec.id());
    Error::Unavailable { code: "server_replaced", message }
}

/// The requested limit, or the default, but never more than `maxExecOutputBytes`.
fn max_output_bytes(app: &AppState, requested: Option<u64>) -> usize {
    let limit = app.core.config().max_exec_output_bytes;
    requested.unwrap_or(app.core.process_config().max_output_bytes).min(limit) as usize
}

impl ExecResponse {
    fn new(exec: &Exec, output: ExecOutput, encoding: Encoding) -> Self {
        Self {
            info: exec.info(),
            stdout: encoding.encode(&output.stdout, false),
            stderr: encoding.encode(&output.stderr, false),
            truncated: output.truncated,
            encoding: if encoding == Encoding::Base64 { "base64" } else { "utf8" },
        }
    }
}

/// List the commands of a session, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs", params(("id" = String, Path)), responses(
    (status = 200, body = ExecList), (status = 404, body = Problem)))]
pub(super) async fn list(State(app): State<AppState>, Path(id): Path<String>) -> HandlerResult<Json<ExecList>> {
    let execs = app.core.find_session(&id)?.execs();
    Ok(Json(ExecList { execs: execs.iter().map(|exec| exec.info()).collect() }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetQuery {
    max_output_bytes: Option<u64>,
    /// `utf8` (default) or `base64`
    encoding: Option<String>,
    /// Respond only when the command has ended.
    wait: Option<bool>,
}

/// Read a command and its output, including later output of its background jobs.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs/{execId}", params(
    ("id" = String, Path), ("execId" = String, Path), GetQuery), responses(
    (status = 200, body = ExecResponse), (status = "4XX", body = Problem)))]
pub(super) async fn get(
    State(app): State<AppState>,
    Path((id, exec)): Path<(String, String)>,
    Params(query): Params<GetQuery>,
) -> HandlerResult<Response> {
    let exec = app.core.find_session(&id)?.find_exec(&exec)?;
    let encoding = Encoding::parse(query.encoding.as_deref(), Encoding::Utf8)?;
    if query.wait.unwrap_or(false) {
        tokio::select! {
            () = exec.wait_finished() => {}
            error = until_interrupted(&app, &exec) => return Err(error.into()),
        }
    }
    let _slot = app.send_budget.rendering_slot().await;
    let max_bytes = max_output_bytes(&app, query.max_output_bytes);
    // Reading much output takes a while, which must not block other tasks.
    let runtime = tokio::runtime::Handle::current();
    let render = move || {
        let output = runtime.block_on(exec.output_so_far(max_bytes));
        Json(ExecResponse::new(&exec, output, encoding)).into_response()
    };
    let failed = |_| Error::Exhausted { code: "answer_failed", message: "cannot render the response".to_owned() };
    Ok(tokio::task::spawn_blocking(render).await.map_err(failed)?)
}

/// Read the raw output of a command, like that of a process.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs/{execId}/output", params(
    ("id" = String, Path), ("execId" = String, Path), OutputQuery), responses(
    (status = 200, content_type = "application/octet-stream"), (status = "4XX", body = Problem)))]
pub(super) async fn output(
    State(app): State<AppState>,
    Path((id, exec)): Path<(String, String)>,
    Params(query): Params<OutputQuery>,
    grant: Grant,
) -> HandlerResult<Response> {
    let exec = app.core.find_session(&id)?.find_exec(&exec)?;
    let sink = if query.is_followed() {
        tokio::select! {
            sink = exec.wait_started() => sink,
            error = until_interrupted(&app, &exec) => return Err(error.into()),
        }
    } else {
        exec.sink()
    };
    if let Some(sink) = sink {
        return output_response(app, sink, &query, &grant).await;
    }
    // The command has not started, so there is no output.
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let zero = |name: &'static str| (HeaderName::from_static(name), HeaderValue::from(0));
    let headers = [content_type, zero("x-outlive-offset"), zero("x-outlive-head")];
    Ok((headers, AxumBody::empty()).into_response())
}

/// Cancel a command: a queued command never runs, a running one is interrupted. The shell of the session stays.
#[utoipa::path(post, path = "/v1/sessions/{id}/execs/{execId}/cancel", params(
    ("id" = String, Path), ("execId" = String, Path)), responses(
    (status = 200, body = ExecInfo), (status = "4XX", body = Problem)))]
pub(super) async fn cancel(
    State(app): State<AppState>,
    Path((id, exec)): Path<(String, String)>,
) -> HandlerResult<Json<ExecInfo>> {
    let exec = app.core.find_session(&id)?.cancel(&exec)?;
    tokio::select! {
        () = exec.wait_finished() => {}
        error = until_interrupted(&app, &exec) => return Err(error.into()),
    }
    Ok(Json(exec.info()))
}
