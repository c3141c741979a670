//! One-shot runs: start a command, wait for its end, respond with its output.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use outlive_core::follow::OnReaderGone;
use outlive_core::process::{EnvMode, ExitReason, Limits, OnTimeout, Source, Spec};
use outlive_core::{Error, Run, RunOutcome, RunResult};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::follow_events::follow_events;
use super::processes::spec_field_names;
use crate::http::AppState;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::sse::{self, StreamEvent};
use crate::http::unknown_fields::{BodyWithUnknownFields, ReportsUnknownFields, UnknownFields, field_names};
use crate::http::values::{Encoding, idempotency_key};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunRequest {
    /// The program, or with `shell: true` a line for `/bin/sh`.
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    shell: bool,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    #[serde(default)]
    env_mode: EnvMode,
    user: Option<String>,
    stdin: Option<String>,
    stdin_encoding: Option<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    on_timeout: OnTimeout,
    /// Respond after this time even if the command is still running.
    yield_ms: Option<u64>,
    /// Let the command continue if the client disconnects.
    #[serde(default)]
    detach: bool,
    max_output_bytes: Option<u64>,
    /// Encoding of `stdout` and `stderr` in the response: `utf8` (default) or `base64`.
    encoding: Option<String>,
    /// A label of the client, as for processes; unrelated to `/v1/sessions`.
    #[serde(alias = "session_id")]
    session_id: Option<String>,
    source: Option<Source>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    no_new_privileges: bool,
    /// Store output and record in the history, which otherwise has only runs with `detach`, `yieldMs`,
    /// `onTimeout: detach` or an idempotency key.
    #[serde(default)]
    keep: bool,
    /// `false`: store neither output nor record on disk.
    history: Option<bool>,
    /// Respond with server-sent events while the command runs: `stdout`, `stderr`, `gap`, and finally `end` or `error`.
    #[serde(default)]
    stream: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunResponse {
    /// `null` after a signal or a timeout.
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_reason: Option<ExitReason>,
    timed_out: bool,
    stdout: String,
    stderr: String,
    stdout_truncated: bool,
    stderr_truncated: bool,
    duration_ms: u64,
    /// Of a run that continues as a process, and of a run with `keep`: the history has it by this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    process_id: Option<String>,
    /// The command continues as the process `processId`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    running: bool,
}

/// Run a command to its end and respond with its output.
#[utoipa::path(post, path = "/v1/processes/run", request_body = RunRequest, params(
    ("strict" = Option<bool>, Query, description = "Reject unknown fields of the body."),
    ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, content((RunResponse = "application/json"), (StreamEvent = "text/event-stream")), headers(
        ("x-outlive-unknown-fields" = String, description = "Fields of the body that have no effect."))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn run(
    State(app): State<AppState>,
    headers: HeaderMap,
    BodyWithUnknownFields(request, unknown): BodyWithUnknownFields<RunRequest>,
) -> (UnknownFields, HandlerResult<Response>) {
    (unknown, respond(app, &headers, request).await)
}

async fn respond(app: AppState, headers: &HeaderMap, request: RunRequest) -> HandlerResult<Response> {
    let encoding = Encoding::parse(request.encoding.as_deref(), Encoding::Utf8)?;
    let stream = request.stream;
    let run = request.into_run(idempotency_key(headers)?)?;
    app.metrics.count_run();
    if stream {
        return respond_with_stream(app, run, encoding).await;
    }
    let keep = run.keep;
    let response = match app.core.run(run).await? {
        RunOutcome::Finished(result) => {
            let process_id = keep.then(|| result.process_id.clone());
            RunResponse { process_id, ..RunResponse::new(&result, encoding) }
        }
        RunOutcome::StillRunning { process, so_far } => {
            let process_id = Some(process.id().to_owned());
            RunResponse { process_id, running: true, ..RunResponse::new(&so_far, encoding) }
        }
    };
    Ok(Json(response).into_response())
}

impl ReportsUnknownFields for RunRequest {
    fn parse(bytes: &[u8], unknown: &mut UnknownFields) -> HandlerResult<Self> {
        unknown.collect(bytes)
    }

    fn field_names(object: &str) -> Vec<&'static str> {
        match object {
            "" => field_names::<Self>().to_vec(),
            _ => spec_field_names(object),
        }
    }
}

impl RunRequest {
    fn into_run(self, idempotency_key: Option<String>) -> HandlerResult<Run> {
        let stdin = match &self.stdin {
            Some(text) => Some(Encoding::parse(self.stdin_encoding.as_deref(), Encoding::Utf8)?.decode(text)?),
            None => None,
        };
        Ok(Run {
            spec: Spec {
                command: self.command,
                args: self.args,
                shell: self.shell,
                cwd: self.cwd,
                env: self.env,
                env_mode: self.env_mode,
                user: self.user,
                session_id: self.session_id,
                source: self.source,
                limits: self.limits,
                no_new_privileges: self.no_new_privileges,
                history: self.history,
                ..Spec::default()
            },
            stdin,
            timeout_ms: self.timeout_ms,
            on_timeout: self.on_timeout,
            yield_ms: self.yield_ms,
            max_output_bytes: self.max_output_bytes,
            detach: self.detach,
            idempotency_key,
            keep: self.keep,
        })
    }
}

/// Streams the output while the command runs. Options about a single response at the end do not apply.
async fn respond_with_stream(app: AppState, mut run: Run, encoding: Encoding) -> HandlerResult<Response> {
    let given = [
        ("yieldMs", run.yield_ms.is_some()),
        ("onTimeout", run.on_timeout == OnTimeout::Detach),
        ("maxOutputBytes", run.max_output_bytes.is_some()),
        ("Idempotency-Key", run.idempotency_key.is_some()),
    ];
    if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
        let detail = format!("invalid request: {field} cannot be used with stream");
        return Err(Problem::bad_request("invalid_value", detail)
            .with_field(field)
            .with_expected("nothing", "a value"));
    }
    run.spec.timeout_ms = Some(app.core.run_timeout_ms(run.timeout_ms));
    let on_reader_gone = if run.detach { OnReaderGone::KeepRunning } else { OnReaderGone::Stop };
    let follow = app.core.follow_run(run, on_reader_gone).await?;
    let message = "this server is being replaced, which ends a run that is not detached".to_owned();
    let on_shutdown = Error::Unavailable { code: "server_replaced", message };
    Ok(sse::response(follow_events(app, follow, encoding, on_shutdown)))
}

impl RunResponse {
    fn new(result: &RunResult, encoding: Encoding) -> Self {
        let (exit_code, signal) = match result.exit.map(|exit| exit.status) {
            // After a timeout the signal is our own and says nothing about the command.
            _ if result.timed_out() => (None, None),
            Some(Ok(code)) => (Some(i32::from(code)), None),
            Some(Err(number)) => (None, Some(outlive_core::signal::name(i32::from(number)))),
            None => (None, None),
        };
        Self {
            exit_code,
            signal,
            exit_reason: result.exit.map(|exit| exit.cause.into()),
            timed_out: result.timed_out(),
            stdout: encoding.encode(&result.stdout, result.stdout_truncated),
            stderr: encoding.encode(&result.stderr, result.stderr_truncated),
            stdout_truncated: result.stdout_truncated,
            stderr_truncated: result.stderr_truncated,
            duration_ms: result.duration_ms,
            process_id: None,
            running: false,
        }
    }
}
