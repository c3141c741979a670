//! `/api/port-watch`: waits until a port responds, or until the process that should open it has exited.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use outlive_core::process::Process;
use outlive_core::{PortProbe, PortWait};
use serde::Deserialize;
use serde_json::json;

use super::super::command::ExitStatus;
use super::super::error::ContainerError;
use super::{event, processes};
use crate::http::AppState;
use crate::http::extract::{Body, WithRejection};
use crate::http::probe::HttpProbe;
use crate::http::sse;

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
    fn port_wait(&self) -> Result<PortWait, ContainerError> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| ContainerError::invalid_port(self.port))?;
        let probe = match self.mode.as_deref() {
            Some("tcp") => None,
            None | Some("http") => {
                let accepted = self.status_min.unwrap_or(200)..=self.status_max.unwrap_or(399);
                let probe = HttpProbe::new("localhost", port, self.path.as_deref().unwrap_or("/"), accepted)
                    .ok_or_else(|| ContainerError::invalid("path: must begin with / and have no spaces"))?;
                Some(Arc::new(probe) as Arc<dyn PortProbe>)
            }
            Some(other) => return Err(ContainerError::invalid(format!("mode: expected http or tcp, got {other:?}"))),
        };
        let interval = Duration::from_millis(self.interval.unwrap_or(500).clamp(100, 10_000));
        Ok(PortWait { port, probe, interval })
    }
}

pub(in super::super) async fn watch(
    State(app): State<AppState>,
    WithRejection(Body(request), _): WithRejection<Body<WatchRequest>, ContainerError>,
) -> Result<Response, ContainerError> {
    let wait = request.port_wait()?;
    let process = request.process_id.as_deref().map(|id| processes::find(&app, id)).transpose()?;
    let watching = event(json!({ "type": "watching", "port": wait.port }));
    let outcome = stream::once(async move { outcome(&app, &wait, process).await });
    Ok(sse::response(stream::iter([watching]).chain(outcome)))
}

async fn outcome(app: &AppState, wait: &PortWait, process: Option<Arc<Process>>) -> Bytes {
    let exited = async {
        match &process {
            Some(process) => process.wait_exited().await,
            None => std::future::pending().await,
        }
    };
    let port = wait.port;
    event(tokio::select! {
        // A port that responds is not the process's port once the process has exited.
        biased;
        exit = exited => {
            json!({ "type": "process_exited", "port": port, "exitCode": ExitStatus::from_exit(&exit).code })
        }
        ready = wait.wait_ready() => match ready.status {
            Some(status) => json!({ "type": "ready", "port": port, "statusCode": status }),
            None => json!({ "type": "ready", "port": port }),
        },
        () = app.until_shutdown() => {
            json!({ "type": "error", "port": port, "error": "the server is being replaced; try again" })
        }
    })
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::super::fuzzing::{body, check_response};

    match body::<WatchRequest, ContainerError>(data).map(|request| request.port_wait()) {
        Some(Ok(wait)) => assert!(wait.port > 0 && (100..=10_000).contains(&wait.interval.as_millis())),
        Some(Err(error)) => check_response(error),
        None => {}
    }
}
