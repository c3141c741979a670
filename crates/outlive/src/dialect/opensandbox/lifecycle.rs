//! What `Sandbox.connect()` asks the lifecycle server: where to find a port of the sandbox. Here server and sandbox are one.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::extract::{OriginalUri, Request};
use axum::http::header;
use serde_json::{Value, json};

use super::asked::Named;
use super::error::Failure;
use crate::access::{Credential, credentials};

/// Where execd is in every sandbox.
const EXECD_PORT: u16 = 44772;
/// By which its clients show a token.
const TOKEN_HEADER: &str = "X-EXECD-ACCESS-TOKEN";

/// execd is where this was asked; any other port is one of this machine.
pub(super) async fn endpoint(request: Request) -> Result<Json<Value>, Failure> {
    let (mut parts, _) = request.into_parts();
    let Named((_, port)) = Named::<(String, String)>::from_request_parts(&mut parts, &()).await?;
    let port: u16 = port.parse().map_err(|_| Failure::invalid("port: expected a number from 0 to 65535"))?;
    let host = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = named.or(host).unwrap_or_default();
    if port != EXECD_PORT {
        return Ok(Json(json!({ "endpoint": format!("{}:{port}", without_port(&host)) })));
    }
    let original = parts.extensions.get::<OriginalUri>().map(|uri| uri.0.path().to_owned()).unwrap_or_default();
    let prefix = original.strip_suffix(parts.uri.path()).unwrap_or_default();
    let mut answer = json!({ "endpoint": format!("{host}{prefix}") });
    // Whoever has shown a token here has to show it there too, where the SDK would not send it by itself.
    let shown = credentials::shown(super::DIALECT.front.carriers(), &parts, false);
    if let Some(Credential::Token(token)) = shown {
        answer["headers"] = json!({ TOKEN_HEADER: token });
    }
    Ok(Json(answer))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn hosts_with_and_without_a_port() {
        for (host, name) in [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")] {
            assert_eq!(without_port(host), name);
        }
    }
}
