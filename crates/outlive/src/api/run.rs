//! One-shot runs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outlive_core::process::{EnvMode, ExitReason, Limits, OnTimeout, Source, Spec};
use outlive_core::{Run, RunOutcome, RunResult};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::Body;
use super::input::{Encoding, decode};
use super::problem::{Answer, Problem};
use super::processes::idempotency_key;
use super::run_stream;
use super::sse::StreamEvent;
use super::state::App;

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
    /// Answer after this time even if it still runs.
    yield_ms: Option<u64>,
    /// Let it run on if the caller goes away.
    #[serde(default)]
    detach: bool,
    max_output_bytes: Option<u64>,
    /// Of `stdout` and `stderr` in the answer: `utf8` (default) or `base64`.
    encoding: Option<String>,
    session_id: Option<String>,
    source: Option<Source>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    no_new_privileges: bool,
    /// Answer with server-sent events while it runs: `stdout`, `stderr`, `gap`, and at last `end` or `error`.
    #[serde(default)]
    stream: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunResponse {
    /// null after a signal or a timeout.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    process_id: Option<String>,
    /// It goes on as the process `processId`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    running: bool,
}

/// Run a command to its end and answer with what it printed.
#[utoipa::path(post, path = "/v1/processes/run", request_body = RunRequest, params(("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, content((RunResponse = "application/json"), (StreamEvent = "text/event-stream"))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn run(
    State(app): State<App>,
    headers: HeaderMap,
    Body(request): Body<RunRequest>,
) -> Answer<Response> {
    let encoding = Encoding::parse(request.encoding.as_deref(), Encoding::Utf8)?;
    let stdin = match request.stdin {
        Some(text) => Some(decode(&text, Encoding::parse(request.stdin_encoding.as_deref(), Encoding::Utf8)?)?),
        None => None,
    };
    let run = Run {
        spec: Spec {
            command: request.command,
            args: request.args,
            shell: request.shell,
            cwd: request.cwd,
            env: request.env,
            env_mode: request.env_mode,
            user: request.user,
            session_id: request.session_id,
            source: request.source,
            limits: request.limits,
            no_new_privileges: request.no_new_privileges,
            ..Spec::default()
        },
        stdin,
        timeout_ms: request.timeout_ms,
        on_timeout: request.on_timeout,
        yield_ms: request.yield_ms,
        max_output_bytes: request.max_output_bytes,
        detach: request.detach,
        idempotency_key: idempotency_key(&headers)?,
    };
    app.metrics.run();
    if request.stream {
        return run_stream::answer(app, run, encoding).await;
    }
    Ok(Json(match app.core.run(run).await? {
        RunOutcome::Finished(result) => RunResponse::from(&result, encoding, None),
        RunOutcome::StillRunning { process, so_far } => {
            RunResponse::from(&so_far, encoding, Some(process.id().to_owned()))
        }
    })
    .into_response())
}

impl RunResponse {
    fn from(result: &RunResult, encoding: Encoding, running_as: Option<String>) -> Self {
        let (exit_code, signal) = match result.exit.map(|exit| exit.status) {
            // What a killed command would have answered is nobody's business.
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
            stdout: text(&result.stdout, result.stdout_truncated, encoding),
            stderr: text(&result.stderr, result.stderr_truncated, encoding),
            stdout_truncated: result.stdout_truncated,
            stderr_truncated: result.stderr_truncated,
            duration_ms: result.duration_ms,
            running: running_as.is_some(),
            process_id: running_as,
        }
    }
}

/// A cut never falls inside of a character.
pub(super) fn text(bytes: &[u8], truncated: bool, encoding: Encoding) -> String {
    match encoding {
        Encoding::Base64 => BASE64.encode(bytes),
        Encoding::Utf8 => {
            let whole = if truncated { without_partial_character(bytes) } else { bytes };
            String::from_utf8_lossy(whole).into_owned()
        }
    }
}

fn without_partial_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        // `None`: the input ended in the middle of a character.
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Err(_) => {
            // Invalid bytes earlier on say nothing about the end: look at the last few alone.
            let start = (1..=3).map(|back| bytes.len().saturating_sub(back)).find(|at| bytes[*at] >= 0xc0);
            match start.map(|at| (at, std::str::from_utf8(&bytes[at..]))) {
                Some((at, Err(error))) if error.error_len().is_none() => &bytes[..at],
                _ => bytes,
            }
        }
        Ok(_) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_keeps_characters_whole() {
        let full = "aé€😀".as_bytes();
        for cut in 0..=full.len() {
            let kept = text(&full[..cut], true, Encoding::Utf8);
            assert!("aé€😀".starts_with(&kept), "{cut} {kept:?}");
        }
        assert_eq!(text(b"\xff\xc3", true, Encoding::Utf8), "\u{fffd}");
        assert_eq!(text(b"a\xc3", false, Encoding::Utf8), "a\u{fffd}");
        assert_eq!(text(b"a\xc3", true, Encoding::Base64), "YcM=");
    }
}
