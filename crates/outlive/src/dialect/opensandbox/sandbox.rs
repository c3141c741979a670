//! Calls about the sandbox itself: health, metrics, its address, and the parts of OpenSandbox that outlive does not
//! serve.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::header;
use axum::response::Response;
use futures_util::stream;
use outlive_core::observe;
use serde_json::{Value, json};

use super::error::Failure;
use crate::access::{Credential, credentials};
use crate::http::extract::Path;
use crate::http::{AppState, sse};

const METRICS_INTERVAL: Duration = Duration::from_secs(2);
/// The port of execd in every sandbox.
const EXECD_PORT: u16 = 44772;
/// The header in which OpenSandbox's clients send a token.
const TOKEN_HEADER: &str = "X-EXECD-ACCESS-TOKEN";

/// 200 while commands can be started.
pub(super) async fn ping(State(app): State<AppState>) -> Result<(), Failure> {
    if app.core.holder_is_gone() {
        return Err(outlive_core::Error::holder_gone().into());
    }
    Ok(())
}

pub(super) async fn metrics() -> Json<Value> {
    Json(read_metrics().await)
}

async fn read_metrics() -> Value {
    const MIB: f64 = 1_048_576.0;
    let machine = observe::machine().await;
    json!({
        "cpu_count": f64::from(machine.cpus),
        "cpu_used_pct": machine.cpu_used_percent,
        "mem_total_mib": machine.memory_total_bytes as f64 / MIB,
        "mem_used_mib": machine.memory_used_bytes as f64 / MIB,
        "timestamp": machine.at_ms,
    })
}

/// The metrics every two seconds, as one JSON object per line.
pub(super) async fn watch_metrics(State(app): State<AppState>) -> Response {
    let lines = stream::unfold((app, true), |(app, is_first)| async move {
        if !is_first {
            tokio::select! {
                () = tokio::time::sleep(METRICS_INTERVAL) => {}
                () = app.until_shutdown() => return None,
            }
        }
        let line = Bytes::from(format!("{}\n", read_metrics().await));
        Some((io::Result::Ok(line), (app, false)))
    });
    sse::raw_response(lines)
}

/// The address of a port of the sandbox, which `Sandbox.connect()` requests from the lifecycle server. execd is served
/// at the address of this request; every other port is a port of this machine.
pub(super) async fn endpoint(request: Request) -> Result<Json<Value>, Failure> {
    let (mut parts, _) = request.into_parts();
    let Path((_, port)) = Path::<(String, String)>::from_request_parts(&mut parts, &()).await?;
    let port: u16 = port.parse().map_err(|_| Failure::invalid("port: expected a number from 0 to 65535"))?;
    let authority = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = host.or(authority).unwrap_or_default();
    if port != EXECD_PORT {
        return Ok(Json(json!({ "endpoint": format!("{}:{port}", without_port(&host)) })));
    }
    let original = parts.extensions.get::<OriginalUri>().map(|uri| uri.0.path().to_owned()).unwrap_or_default();
    let prefix = original.strip_suffix(parts.uri.path()).unwrap_or_default();
    let mut body = json!({ "endpoint": format!("{host}{prefix}") });
    // The SDK sends its token to the endpoint only if this response tells it to.
    let credential = credentials::find(super::DIALECT.surface.carriers(), &parts, false);
    if let Some(Credential::Token(token)) = credential {
        body["headers"] = json!({ TOKEN_HEADER: token });
    }
    Ok(Json(body))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Sessions in their own namespaces. The SDK requests this before it uses any.
pub(super) async fn isolation() -> Json<Value> {
    Json(json!({ "available": false, "message": "outlive runs everything in one sandbox" }))
}

pub(super) async fn not_supported() -> Failure {
    Failure::not_supported()
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn the_port_is_removed_from_a_host() {
        for (host, name) in [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")] {
            assert_eq!(without_port(host), name);
        }
    }
}
