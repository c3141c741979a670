//! Waiting for a condition: exit, output, silence, a port or an HTTP response.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use outlive_core::log::StreamFilter;
use outlive_core::process::ProcessInfo;
use outlive_core::{PortProbe, PortWait, WaitCondition, WaitOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::logs::stream_filter;
use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::extract::Body;
use crate::http::probe::HttpProbe;
use crate::http::problem::{HandlerResult, Problem};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitRequest {
    /// `exit` (default), `output`, `silence`, `port` or `http`.
    #[serde(rename = "for")]
    until: Option<String>,
    /// For `output`: a regular expression; `^` and `$` match at lines.
    pattern: Option<String>,
    /// For `output`: search from this offset on.
    from: Option<u64>,
    stream: Option<String>,
    /// For `silence`: how long there must be no output.
    silence_ms: Option<u64>,
    /// For `port` (absent: any) and `http`.
    port: Option<u16>,
    /// For `http`; default `/`.
    path: Option<String>,
    /// For `http`; default: any below 500.
    status: Option<u16>,
    timeout_ms: Option<u64>,
}

#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitResponse {
    /// `exited`, `matched`, `silent`, `listening`, `answered` or `timedOut`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The match in Base64 if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Option<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessInfo>,
}

impl WaitRequest {
    pub(super) fn condition(self) -> HandlerResult<WaitCondition> {
        let missing = |field: &'static str, expected: &str| {
            Problem::bad_request("missing_value", format!("invalid request: {field} is needed to wait for this"))
                .with_field(field)
                .with_expected(expected, "nothing")
        };
        Ok(match self.until.as_deref().unwrap_or("exit") {
            "exit" => WaitCondition::Exit,
            "output" => WaitCondition::Output {
                pattern: self.pattern.ok_or_else(|| missing("pattern", "a regular expression"))?,
                from: self.from,
                filter: stream_filter(self.stream)?.unwrap_or(StreamFilter::All),
            },
            "silence" => {
                WaitCondition::Silence { ms: self.silence_ms.ok_or_else(|| missing("silenceMs", "milliseconds"))? }
            }
            "port" => WaitCondition::Port { port: self.port },
            "http" => {
                let port = self.port.ok_or_else(|| missing("port", "a port number"))?;
                let accepted = self.status.map_or(0..=499, |status| status..=status);
                WaitCondition::Probe { port, probe: http_probe("127.0.0.1", port, self.path, accepted)? }
            }
            other => {
                let expected = "exit, output, silence, port, http";
                return Err(Problem::bad_request(
                    "invalid_value",
                    format!("invalid request: for must be one of {expected}"),
                )
                .with_field("for")
                .with_expected(expected, other));
            }
        })
    }
}

fn http_probe(
    host: &str,
    port: u16,
    path: Option<String>,
    accepted: RangeInclusive<u16>,
) -> HandlerResult<Arc<dyn PortProbe>> {
    let path = path.unwrap_or_else(|| "/".to_owned());
    match HttpProbe::new(host, port, &path, accepted) {
        Some(probe) => Ok(Arc::new(probe)),
        None => {
            Err(Problem::bad_request("invalid_value", "invalid request: path must begin with / and have no spaces")
                .with_field("path")
                .with_expected("a path such as /health", path))
        }
    }
}

/// Wait for a condition. The outcome is `exited` if the process exits first.
#[utoipa::path(post, path = "/v1/processes/{id}/wait", params(("id" = String, Path)),
    request_body = WaitRequest, responses(
    (status = 200, body = WaitResponse), (status = "4XX", body = Problem)))]
pub(super) async fn wait(
    State(app): State<AppState>,
    path: ProcessPath,
    Body(request): Body<WaitRequest>,
) -> HandlerResult<Json<WaitResponse>> {
    let timeout = request.timeout_ms.map(Duration::from_millis);
    let condition = request.condition()?;
    let process = path.find(&app).await?;
    let outcome = tokio::select! {
        outcome = process.wait(condition, timeout) => outcome?,
        () = process.wait_removed() => return Err(outlive_core::Error::NotFound { resource: "process", id: path.id }.into()),
    };
    let mut response = WaitResponse { process: Some(process.info()), ..WaitResponse::default() };
    response.describe(outcome);
    Ok(Json(response))
}

impl WaitResponse {
    fn describe(&mut self, outcome: WaitOutcome) {
        self.outcome = match outcome {
            WaitOutcome::Exited(exit) => {
                self.offset = Some(exit.offset);
                "exited"
            }
            WaitOutcome::Matched { offset, end, text, groups } => {
                (self.offset, self.end) = (Some(offset), Some(end));
                if std::str::from_utf8(&text).is_err() {
                    self.data = Some(base64::engine::general_purpose::STANDARD.encode(&text));
                }
                let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.text = Some(lossy(&text));
                self.groups = Some(groups.iter().map(|group| group.as_deref().map(lossy)).collect());
                "matched"
            }
            WaitOutcome::Silent { offset } => {
                self.offset = Some(offset);
                "silent"
            }
            WaitOutcome::Listening { port, pid } => {
                (self.port, self.pid) = (Some(port), Some(pid));
                "listening"
            }
            WaitOutcome::Answered { port, status } => {
                (self.port, self.http_status) = (Some(port), Some(status));
                "answered"
            }
            WaitOutcome::TimedOut => "timedOut",
        };
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PortRequest {
    port: u16,
    /// Send an HTTP request for this path; absent: an accepted connection is enough.
    path: Option<String>,
    /// Lowest accepted HTTP status; default 200.
    status_min: Option<u16>,
    /// Highest accepted HTTP status; default 399.
    status_max: Option<u16>,
    /// Time between attempts; default 250.
    interval_ms: Option<u64>,
    timeout_ms: Option<u64>,
}

/// Wait until a port of this machine accepts connections or responds over HTTP, whichever process listens there.
#[utoipa::path(post, path = "/v1/wait", request_body = PortRequest, responses(
    (status = 200, body = WaitResponse), (status = "4XX", body = Problem)))]
pub(super) async fn wait_port(Body(request): Body<PortRequest>) -> HandlerResult<Json<WaitResponse>> {
    let accepted = request.status_min.unwrap_or(200)..=request.status_max.unwrap_or(399);
    let probe = match request.path {
        None => None,
        path @ Some(_) => Some(http_probe("localhost", request.port, path, accepted)?),
    };
    let interval = Duration::from_millis(request.interval_ms.unwrap_or(250).clamp(10, 60_000));
    let wait = PortWait { port: request.port, probe, interval };
    let timeout = async {
        match request.timeout_ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let response = WaitResponse { port: Some(request.port), ..WaitResponse::default() };
    Ok(Json(tokio::select! {
        ready = wait.wait_ready() => {
            let outcome = if ready.status.is_some() { "answered" } else { "listening" };
            WaitResponse { outcome, http_status: ready.status, ..response }
        }
        () = timeout => WaitResponse { outcome: "timedOut", ..response },
    }))
}
