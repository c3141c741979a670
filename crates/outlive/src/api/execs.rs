//! Commands in a session: running, reading, cancelling.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body as AxumBody, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream as Events, stream};
use outlive_core::Error;
use outlive_core::log::{Cursor, Flow, Item, Start, Stream, StreamFilter};
use outlive_core::process::Source;
use outlive_core::session::{Collected, Exec, ExecInfo, ExecSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::extract::{Body, Params, Path};
use super::input::{Encoding, decode};
use super::output;
use super::problem::{Answer, Problem};
use super::processes::idempotency_key;
use super::run::text;
use super::sse::{self, StreamEvent};
use super::state::App;
use crate::access::Grant;

/// Bytes per event of a streamed command.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExecRequest {
    /// Any text for the shell; may have many lines.
    command: String,
    /// For this command only.
    cwd: Option<String>,
    /// For this command only; `null` unsets.
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    stdin: Option<String>,
    stdin_encoding: Option<String>,
    /// Counts from when it begins to run.
    timeout_ms: Option<u64>,
    /// How long it may wait for its turn.
    queue_timeout_ms: Option<u64>,
    /// Per stream of the answer; of more the head and the tail are kept.
    max_output_bytes: Option<u64>,
    /// Of `stdout` and `stderr` in the answer: `utf8` (default) or `base64`.
    encoding: Option<String>,
    /// Answer with server-sent events while it runs.
    #[serde(default)]
    stream: bool,
    /// Answer at once; the command is found again by its `execId`.
    #[serde(default)]
    detach: bool,
    /// On whose behalf: `user`, `agent` or `system`.
    source: Option<Source>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecResponse {
    #[serde(flatten)]
    info: ExecInfo,
    /// With `detach`, this and what follows come later, when the command is asked for.
    #[schema(required = false)]
    stdout: String,
    #[schema(required = false)]
    stderr: String,
    /// Something is missing in the middle; `…/output` may have it.
    #[schema(required = false)]
    truncated: bool,
    #[schema(required = false)]
    encoding: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ExecList {
    execs: Vec<ExecInfo>,
}

/// Run a command in the session's shell. The client going away changes nothing.
#[utoipa::path(post, path = "/v1/sessions/{id}/exec", request_body = ExecRequest, params(
    ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, content((ExecResponse = "application/json"), (StreamEvent = "text/event-stream"))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn exec(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(request): Body<ExecRequest>,
) -> Answer<Response> {
    let session = app.core.find_session(&id)?;
    let encoding = Encoding::parse(request.encoding.as_deref(), Encoding::Utf8)?;
    let stdin = match &request.stdin {
        Some(text) => Some(decode(text, Encoding::parse(request.stdin_encoding.as_deref(), Encoding::Utf8)?)?),
        None => None,
    };
    let mut spec = ExecSpec::default();
    (spec.command, spec.cwd, spec.env, spec.stdin) = (request.command, request.cwd, request.env, stdin);
    (spec.timeout_ms, spec.queue_timeout_ms) = (request.timeout_ms, request.queue_timeout_ms);
    (spec.source, spec.idempotency_key) = (request.source, idempotency_key(&headers)?);
    let most = most_bytes(&app, request.max_output_bytes);
    let (exec, _) = session.exec(spec).await?;
    if request.detach {
        return Ok(Json(exec.info()).into_response());
    }
    if request.stream {
        return Ok(sse::answer(events(app, exec, encoding)));
    }
    let collected = tokio::select! {
        collected = exec.collect(most) => collected,
        error = cut_off(&app, &exec) => return Err(Problem::from(error).with_details(json!({ "execId": exec.id() }))),
    };
    match exec.failure() {
        Some(error) => Err(Problem::from(error).with_details(json!({ "execId": exec.id() }))),
        None => Ok(Json(ExecResponse::of(&exec, collected, encoding)).into_response()),
    }
}

/// Why this server will never hear of the end of a command.
async fn cut_off(app: &App, exec: &Exec) -> Error {
    tokio::select! {
        () = app.ended() => {
            let message = format!("this server is being replaced; the command goes on, ask for {} again", exec.id());
            Error::Unavailable { code: "server_replaced", message }
        }
        () = app.core.until_holder_gone() => Error::holder_gone(),
    }
}

/// Never more than configured; a megabyte unless more was asked for.
fn most_bytes(app: &App, wanted: Option<u64>) -> usize {
    let most = app.core.config().max_exec_output_bytes;
    wanted.unwrap_or(app.core.process_config().max_output_bytes).min(most) as usize
}

impl ExecResponse {
    fn of(exec: &Exec, collected: Collected, encoding: Encoding) -> Self {
        let name = if encoding == Encoding::Base64 { "base64" } else { "utf8" };
        Self {
            info: exec.info(),
            stdout: text(&collected.stdout, false, encoding),
            stderr: text(&collected.stderr, false, encoding),
            truncated: collected.truncated,
            encoding: name,
        }
    }
}

/// The commands of a session that are known of, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs", params(("id" = String, Path)), responses(
    (status = 200, body = ExecList), (status = 404, body = Problem)))]
pub(super) async fn list(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<ExecList>> {
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
    /// Answer only when it is over.
    wait: Option<bool>,
}

/// Read a command and what it has printed, late output of its background jobs included.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs/{execId}", params(
    ("id" = String, Path), ("execId" = String, Path), GetQuery), responses(
    (status = 200, body = ExecResponse), (status = "4XX", body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Path((id, exec)): Path<(String, String)>,
    Params(query): Params<GetQuery>,
) -> Answer<Response> {
    let exec = app.core.find_session(&id)?.find_exec(&exec)?;
    let encoding = Encoding::parse(query.encoding.as_deref(), Encoding::Utf8)?;
    if query.wait.unwrap_or(false) {
        tokio::select! {
            () = exec.finished() => {}
            error = cut_off(&app, &exec) => return Err(error.into()),
        }
    }
    let _turn = app.unsent.turn_to_make().await;
    let most = most_bytes(&app, query.max_output_bytes);
    // Of much output this takes a while, and no other task should wait for that.
    let made = move || Json(ExecResponse::of(&exec, exec.so_far(most), encoding)).into_response();
    let failed = |_| Error::Exhausted { code: "answer_failed", message: "the answer could not be made".to_owned() };
    Ok(tokio::task::spawn_blocking(made).await.map_err(failed)?)
}

/// Raw output of a command, as of a process.
#[utoipa::path(get, path = "/v1/sessions/{id}/execs/{execId}/output", params(
    ("id" = String, Path), ("execId" = String, Path), output::OutputQuery), responses(
    (status = 200, content_type = "application/octet-stream"), (status = "4XX", body = Problem)))]
pub(super) async fn output(
    State(app): State<App>,
    Path((id, exec)): Path<(String, String)>,
    Params(query): Params<output::OutputQuery>,
    grant: Grant,
) -> Answer<Response> {
    let exec = app.core.find_session(&id)?.find_exec(&exec)?;
    let sink = if query.is_followed() {
        tokio::select! {
            sink = exec.started() => sink,
            error = cut_off(&app, &exec) => return Err(error.into()),
        }
    } else {
        exec.sink()
    };
    if let Some(sink) = sink {
        return output::of(app, sink, &query, &grant).await;
    }
    // It has not begun, so it has printed nothing.
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let nothing = |name: &'static str| (HeaderName::from_static(name), HeaderValue::from(0));
    let headers = [kind, nothing("x-outlive-offset"), nothing("x-outlive-head")];
    Ok((headers, AxumBody::empty()).into_response())
}

/// Stop a command: one that waits never runs, one that runs is interrupted and its shell stays.
#[utoipa::path(post, path = "/v1/sessions/{id}/execs/{execId}/cancel", params(
    ("id" = String, Path), ("execId" = String, Path)), responses(
    (status = 200, body = ExecInfo), (status = "4XX", body = Problem)))]
pub(super) async fn cancel(State(app): State<App>, Path((id, exec)): Path<(String, String)>) -> Answer<Json<ExecInfo>> {
    let exec = app.core.find_session(&id)?.cancel(&exec)?;
    tokio::select! {
        () = exec.finished() => {}
        error = cut_off(&app, &exec) => return Err(error.into()),
    }
    Ok(Json(exec.info()))
}

/// Where the telling of a streamed command has come to.
enum Told {
    Nothing,
    Id,
    Begun(Cursor),
    Output,
    All,
}

/// `start`, at once and even if it has to wait, so that it can be cancelled; then `stdout` and `stderr` with their offsets
/// (`gap` where bytes are gone), then `end` or `error`.
fn events(app: App, exec: Arc<Exec>, encoding: Encoding) -> impl Events<Item = Bytes> {
    stream::unfold((app, exec, Told::Nothing), move |(app, exec, told)| async move {
        let (bytes, told) = tokio::select! {
            biased;
            next = next_event(&exec, told, encoding) => next?,
            // The command goes on: whoever wants the rest asks for it by its offset.
            error = cut_off(&app, &exec) => (error_event(&error), Told::All),
        };
        Some((bytes, (app, exec, told)))
    })
}

/// Bytes of one stream; its id is the offset after them.
pub(super) fn piece_event(offset: u64, stream: Stream, bytes: &[u8], encoding: Encoding) -> Bytes {
    let name = if stream == Stream::Stderr { "stderr" } else { "stdout" };
    let data = match (encoding, std::str::from_utf8(bytes)) {
        (Encoding::Base64, _) => json!({ "offset": offset, "data": BASE64.encode(bytes) }),
        (_, Ok(text)) => json!({ "offset": offset, "data": text }),
        // A piece may end within a character, and bytes may be no text at all: nothing is bent to fit.
        (_, Err(_)) => json!({ "offset": offset, "data": BASE64.encode(bytes), "encoding": "base64" }),
    };
    let end = (offset + bytes.len() as u64).to_string();
    sse::event(name, &end, &data.to_string())
}

pub(super) fn gap_event(from: u64, to: u64) -> Bytes {
    sse::event("gap", "", &json!({ "from": from, "to": to }).to_string())
}

pub(super) fn error_event(error: &Error) -> Bytes {
    let data = json!({ "code": error.code(), "message": error.to_string() }).to_string();
    sse::event("error", "", &data)
}

async fn next_event(exec: &Exec, told: Told, encoding: Encoding) -> Option<(Bytes, Told)> {
    let mut cursor = match told {
        Told::Nothing => {
            let data = json!({ "execId": exec.id(), "sessionId": exec.session_id() }).to_string();
            return Some((sse::event("start", "", &data), Told::Id));
        }
        Told::Id => match exec.started().await.and_then(|sink| sink.log().ok()) {
            Some(log) => Cursor::new(log, Start::At(0), Flow::Lossless, StreamFilter::All),
            None => return Box::pin(next_event(exec, Told::Output, encoding)).await,
        },
        Told::Begun(cursor) => cursor,
        Told::Output => {
            exec.finished().await;
            let event = match exec.failure() {
                Some(error) => error_event(&error),
                None => sse::event("end", "", &serde_json::to_string(&exec.info()).unwrap_or_default()),
            };
            return Some((event, Told::All));
        }
        Told::All => return None,
    };
    loop {
        match cursor.next(PIECE_BYTES).await {
            Item::Bytes { offset, stream, bytes } => {
                return Some((piece_event(offset, stream, &bytes, encoding), Told::Begun(cursor)));
            }
            Item::Gap { from, to } => return Some((gap_event(from, to), Told::Begun(cursor))),
            Item::BecameLive => {}
            Item::Exit(_) => {
                cursor.close();
                return Box::pin(next_event(exec, Told::Output, encoding)).await;
            }
        }
    }
}
