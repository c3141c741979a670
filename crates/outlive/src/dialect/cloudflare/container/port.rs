//! Waiting until a port answers, or until the process that was to open it has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::Target;
use outlive_core::process::Process;
use serde::Deserialize;
use serde_json::json;

use super::super::command::Ended;
use super::super::error::ContainerError;
use super::inspect;
use super::sse::event;
use crate::api::App;
use crate::api::extract::Body;
use crate::api::problem::Problem;
use crate::api::sse;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct WatchRequest {
    port: u64,
    mode: Option<String>,
    path: Option<String>,
    status_min: Option<u16>,
    status_max: Option<u16>,
    process_id: Option<String>,
    interval: Option<u64>,
}

impl WatchRequest {
    fn target(&self) -> Result<Target, ContainerError> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| ContainerError::invalid_port(self.port))?;
        let http = match self.mode.as_deref() {
            Some("tcp") => None,
            None | Some("http") => {
                let path = self.path.clone().unwrap_or_else(|| "/".to_owned());
                if !path.starts_with('/') || path.contains(|c: char| c.is_control() || c == ' ') {
                    return Err(ContainerError::invalid("path: must begin with / and have no spaces"));
                }
                Some((path, self.status_min.unwrap_or(200)..=self.status_max.unwrap_or(399)))
            }
            Some(other) => return Err(ContainerError::invalid(format!("mode: expected http or tcp, got {other:?}"))),
        };
        let every = Duration::from_millis(self.interval.unwrap_or(500).clamp(100, 10_000));
        Ok(Target { port, http, every })
    }
}

pub(in super::super) async fn watch(
    State(app): State<App>,
    body: Result<Body<WatchRequest>, Problem>,
) -> Result<Response, ContainerError> {
    let Body(request) = body?;
    let target = request.target()?;
    let process = request.process_id.as_deref().map(|id| inspect::find(&app, id)).transpose()?;
    let watching = event(json!({ "type": "watching", "port": target.port }));
    let outcome = stream::once(async move { outcome(&app, &target, process).await });
    Ok(sse::answer(futures_util::StreamExt::chain(stream::iter([watching]), outcome)))
}

async fn outcome(app: &App, target: &Target, process: Option<Arc<Process>>) -> Bytes {
    let exited = async {
        match &process {
            Some(process) => process.until_exited().await,
            None => std::future::pending().await,
        }
    };
    let port = target.port;
    event(tokio::select! {
        // What it has opened does not count when it is no more.
        biased;
        exit = exited => json!({ "type": "process_exited", "port": port, "exitCode": Ended::of(&exit).code }),
        reached = target.reach() => match reached.status {
            Some(status) => json!({ "type": "ready", "port": port, "statusCode": status }),
            None => json!({ "type": "ready", "port": port }),
        },
        () = app.ended() => json!({ "type": "error", "port": port, "error": "the server is being replaced: ask again" }),
    })
}
