//! Waiting for something to happen in a process.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use outlive_core::log::StreamFilter;
use outlive_core::process::ProcessInfo;
use outlive_core::{HttpTarget, Outcome, Target, Wait, WaitFor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Body, Path};
use super::logs::stream_filter;
use super::problem::{Answer, Problem};
use super::state::App;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitRequest {
    /// `exit` (default), `output`, `silence`, `port` or `http`.
    #[serde(rename = "for")]
    until: Option<String>,
    /// For `output`: a regular expression; `^` and `$` match at lines.
    pattern: Option<String>,
    /// For `output`: look from this offset on.
    from: Option<u64>,
    stream: Option<String>,
    /// For `silence`.
    silence_ms: Option<u64>,
    /// For `port` (absent: any) and `http`.
    port: Option<u16>,
    /// For `http`; `/` if absent.
    path: Option<String>,
    /// For `http`; any below 500 if absent.
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
    /// Base64 of the match, when it is not UTF-8.
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
    pub(super) fn condition(self) -> Answer<WaitFor> {
        let missing = |field: &'static str, what: &str| {
            Problem::bad_request("missing_value", format!("invalid request: {field} is needed to wait for this"))
                .with_field(field)
                .with_expected(what, "nothing")
        };
        Ok(match self.until.as_deref().unwrap_or("exit") {
            "exit" => WaitFor::Exit,
            "output" => WaitFor::Output {
                pattern: self.pattern.ok_or_else(|| missing("pattern", "a regular expression"))?,
                from: self.from,
                filter: stream_filter(self.stream)?.unwrap_or(StreamFilter::All),
            },
            "silence" => WaitFor::Silence { ms: self.silence_ms.ok_or_else(|| missing("silenceMs", "milliseconds"))? },
            "port" => WaitFor::Port { port: self.port },
            "http" => WaitFor::Http(HttpTarget {
                port: self.port.ok_or_else(|| missing("port", "a port number"))?,
                path: checked_path(self.path)?,
                status: self.status,
            }),
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

fn checked_path(path: Option<String>) -> Answer<String> {
    let path = path.unwrap_or_else(|| "/".to_owned());
    if path.starts_with('/') && !path.contains(|c: char| c.is_control() || c == ' ') {
        return Ok(path);
    }
    Err(Problem::bad_request("invalid_value", "invalid request: path must begin with / and have no spaces")
        .with_field("path")
        .with_expected("a path such as /health", path))
}

/// Wait until something happens; `exited` if the process ended first.
#[utoipa::path(post, path = "/v1/processes/{id}/wait", params(("id" = String, Path)), request_body = WaitRequest, responses(
    (status = 200, body = WaitResponse), (status = "4XX", body = Problem)))]
pub(super) async fn wait(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(request): Body<WaitRequest>,
) -> Answer<Json<WaitResponse>> {
    let timeout_ms = request.timeout_ms;
    let until = request.condition()?;
    let process = app.core.find(&id)?;
    let outcome = tokio::select! {
        outcome = process.wait(Wait { until, timeout_ms }) => outcome?,
        () = process.until_removed() => return Err(outlive_core::Error::NotFound { resource: "process", id }.into()),
    };
    let mut response = WaitResponse { process: Some(process.info()), ..WaitResponse::default() };
    response.describe(outcome);
    Ok(Json(response))
}

impl WaitResponse {
    fn describe(&mut self, outcome: Outcome) {
        self.outcome = match outcome {
            Outcome::Exited(exit) => {
                self.offset = Some(exit.offset);
                "exited"
            }
            Outcome::Matched { offset, end, text, groups } => {
                (self.offset, self.end) = (Some(offset), Some(end));
                if std::str::from_utf8(&text).is_err() {
                    self.data = Some(base64::engine::general_purpose::STANDARD.encode(&text));
                }
                let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.text = Some(lossy(&text));
                self.groups = Some(groups.iter().map(|group| group.as_deref().map(lossy)).collect());
                "matched"
            }
            Outcome::Silent { offset } => {
                self.offset = Some(offset);
                "silent"
            }
            Outcome::Listening { port, pid } => {
                (self.port, self.pid) = (Some(port), Some(pid));
                "listening"
            }
            Outcome::Answered { port, status } => {
                (self.port, self.http_status) = (Some(port), Some(status));
                "answered"
            }
            Outcome::TimedOut => "timedOut",
        };
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PortRequest {
    port: u16,
    /// Ask for this over HTTP; absent: that somebody takes the connection is enough.
    path: Option<String>,
    /// Of the answer over HTTP; 200 if absent.
    status_min: Option<u16>,
    /// 399 if absent.
    status_max: Option<u16>,
    /// How often it is tried; 250 if absent.
    interval_ms: Option<u64>,
    timeout_ms: Option<u64>,
}

/// Wait until a port of this machine answers, whoever listens there.
#[utoipa::path(post, path = "/v1/wait", request_body = PortRequest, responses(
    (status = 200, body = WaitResponse), (status = "4XX", body = Problem)))]
pub(super) async fn wait_port(Body(request): Body<PortRequest>) -> Answer<Json<WaitResponse>> {
    let http = match request.path {
        None => None,
        path @ Some(_) => {
            Some((checked_path(path)?, request.status_min.unwrap_or(200)..=request.status_max.unwrap_or(399)))
        }
    };
    let every = Duration::from_millis(request.interval_ms.unwrap_or(250).clamp(10, 60_000));
    let target = Target { port: request.port, http, every };
    let limit = async {
        match request.timeout_ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let answer = WaitResponse { port: Some(request.port), ..WaitResponse::default() };
    Ok(Json(tokio::select! {
        reached = target.reach() => {
            let outcome = if reached.status.is_some() { "answered" } else { "listening" };
            WaitResponse { outcome, http_status: reached.status, ..answer }
        }
        () = limit => WaitResponse { outcome: "timedOut", ..answer },
    }))
}
