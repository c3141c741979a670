//! Bodies and queries, with clear answers when they make no sense.

use std::time::Duration;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem, quote};
use super::state::App;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &App) -> Result<Self, Problem> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// The bytes of a JSON body. The content type must say so: a web page can send anything else without asking.
pub(crate) struct JsonBytes(pub(crate) Bytes);

impl FromRequest<App> for JsonBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if !is_json(kind) {
            let detail = "expected request with `Content-Type: application/json`";
            return Err(Problem::new(
                Kind::InvalidRequest,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                detail,
            )
            .with_expected("application/json", if kind.is_empty() { "no content type" } else { kind }));
        }
        refuse_encoded(&request)?;
        read(request, app).await.map(Self)
    }
}

/// A whole body, within the limits of size and time.
pub(crate) async fn read(request: Request, app: &App) -> Result<Bytes, Problem> {
    let limits = &app.limits;
    let too_large = || {
        let detail = format!("the body is larger than {} bytes", limits.max_body_bytes);
        Problem::new(Kind::InvalidRequest, StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    };
    // Said before it is sent, it need not be read.
    if request.body().size_hint().lower() > limits.max_body_bytes {
        return Err(too_large());
    }
    let within = Duration::from_millis(limits.body_timeout_ms);
    let read = tokio::time::timeout(within, Bytes::from_request(request, app)).await.map_err(|_| {
        let detail = format!("the body was not there within {} ms", limits.body_timeout_ms);
        Problem::new(Kind::InvalidRequest, StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail)
    })?;
    read.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ => Problem::bad_request("body_unreadable", "the body could not be read to its end"),
    })
}

/// A few bytes can unfold to gigabytes, and nobody needs it here.
fn refuse_encoded(request: &Request) -> Result<(), Problem> {
    match request.headers().get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let detail = "the body must not be compressed";
            Err(Problem::new(Kind::InvalidRequest, StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", detail)
                .with_field("Content-Encoding")
                .with_expected("identity", String::from_utf8_lossy(encoding.as_bytes())))
        }
        _ => Ok(()),
    }
}

fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json")
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut input).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_syntax() || inner.is_eof() {
            return Problem::bad_request("malformed_json", format!("the body is not JSON: {inner}"));
        }
        wrong_type(&path, &inner.to_string())
    })?;
    input.end().map_err(|error| Problem::bad_request("malformed_json", format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// serde says "invalid type: integer `5`, expected a string at line 1 column 13".
fn wrong_type(path: &str, message: &str) -> Problem {
    let short = message.split(" at line ").next().unwrap_or(message);
    let mut problem = Problem::new(
        Kind::InvalidRequest,
        StatusCode::UNPROCESSABLE_ENTITY,
        "invalid_body",
        format!("the body does not fit: {}: {}", quote(path), quote(short)),
    );
    if let Some(missing) = short.strip_prefix("missing field ") {
        let missing = missing.trim_matches('`');
        let path = if path == "." { missing.to_owned() } else { format!("{path}.{missing}") };
        return problem.with_field(path).with_expected("a value", "nothing");
    }
    problem = problem.with_field(path);
    match short.split_once(", expected ") {
        Some((got, expected)) => problem.with_expected(expected, got.trim_start_matches("invalid type: ")),
        None => problem,
    }
}

/// The variable part of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(value)| Self(value)).map_err(|_| {
            Problem::bad_request("invalid_path", "the path is not UTF-8").with_expected("UTF-8", parts.uri.path())
        })
    }
}

/// The query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::<T>::try_from_uri(&parts.uri).map(|Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            let (field, why) = reason.split_once(": ").unwrap_or(("", reason));
            let problem =
                Problem::bad_request("invalid_query", format!("invalid query: {}", quote(reason))).with_field(field);
            let got = query_value(parts.uri.query().unwrap_or(""), field);
            problem.with_expected(why, got)
        })
    }
}

fn query_value(query: &str, field: &str) -> String {
    let pair = query.split('&').find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == field));
    pair.map_or("", |(_, value)| value).chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Thing {
        name: String,
        size: Option<u16>,
        #[serde(default)]
        sizes: std::collections::BTreeMap<String, u16>,
    }

    #[test]
    fn an_answer_repeated_what_was_sent_at_length() {
        let long = "x".repeat(10_000);
        let bodies = [
            format!(r#"{{"name":"a","sizes":{{"{long}":70000}}}}"#),
            format!(r#"{{"name":"a","size":", expected {long}"}}"#),
        ];
        for body in bodies {
            let answer = serde_json::to_string(&parse::<Thing>(body.as_bytes()).unwrap_err()).unwrap();
            assert!(answer.len() < 2_000, "{} bytes", answer.len());
        }
    }

    #[test]
    fn bodies_that_do_not_fit_name_the_field() {
        let problem = parse::<Thing>(br#"{"name":"a","size":70000}"#).unwrap_err();
        let text = serde_json::to_value(&problem).unwrap();
        assert_eq!((text["status"].as_u64(), text["field"].as_str()), (Some(422), Some("size")));
        let problem = serde_json::to_value(parse::<Thing>(b"{}").unwrap_err()).unwrap();
        assert_eq!((problem["field"].as_str(), problem["code"].as_str()), (Some("name"), Some("invalid_body")));
        for garbage in [&b"{"[..], b"", b"{\"name\":\"a\"} x", b"\xff\xfe"] {
            let problem = serde_json::to_value(parse::<Thing>(garbage).unwrap_err()).unwrap();
            assert_eq!(problem["status"], 400, "{garbage:?}");
        }
    }
}
