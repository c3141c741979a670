//! Extractors of JSON bodies, query strings and path parameters, for all surfaces.
//!
//! Their rejection is a [`Problem`], which the native API sends as it is. A dialect wraps them in [`WithRejection`], so
//! that a rejected request gets an error in the shape that the dialect's clients know.

use std::marker::PhantomData;
use std::time::Duration;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;

use super::AppState;
use super::problem::{Kind, Problem, quote};

/// The extractor `E` with the rejection `R` instead of a [`Problem`], as in axum-extra. The second field only carries
/// the type: `WithRejection(Body(spec), _): WithRejection<Body<Spec>, Failure>`.
pub(crate) struct WithRejection<E, R>(pub(crate) E, pub(crate) PhantomData<R>);

impl<E, R> FromRequest<AppState> for WithRejection<E, R>
where
    E: FromRequest<AppState, Rejection = Problem>,
    R: From<Problem> + IntoResponse,
{
    type Rejection = R;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, R> {
        Ok(Self(E::from_request(request, app).await?, PhantomData))
    }
}

impl<S, E, R> FromRequestParts<S> for WithRejection<E, R>
where
    S: Send + Sync,
    E: FromRequestParts<S, Rejection = Problem>,
    R: From<Problem> + IntoResponse,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, R> {
        Ok(Self(E::from_request_parts(parts, state).await?, PhantomData))
    }
}

/// A JSON body. Its content type must be JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        let bytes = read_json(request, app).await?;
        Ok(Self(parse(&bytes)?))
    }
}

/// A JSON body that may be missing: an empty body means `{}`, whatever its content type.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        // Some clients declare a content type that is not JSON even for an empty body.
        let bytes = if request.body().is_end_stream() {
            Bytes::new()
        } else if request.headers().contains_key(header::CONTENT_TYPE) {
            read_json(request, app).await?
        } else {
            let bytes = read(request, app).await?;
            if !bytes.is_empty() {
                return Err(unsupported_media_type(""));
            }
            bytes
        };
        let json: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        Ok(Self(parse(json)?))
    }
}

/// Reads a body that is declared as JSON. The declaration is required because a page of a foreign origin can send any
/// other content type without a preflight request.
pub(super) async fn read_json(request: Request, app: &AppState) -> Result<Bytes, Problem> {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !is_json(content_type) {
        return Err(unsupported_media_type(content_type));
    }
    reject_compressed(&request)?;
    read(request, app).await
}

fn unsupported_media_type(got: &str) -> Problem {
    let detail = "expected request with `Content-Type: application/json`";
    Problem::new(Kind::InvalidRequest, StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
        .with_expected("application/json", if got.is_empty() { "no content type" } else { got })
}

/// Reads a whole body of any content type, within the limits `maxBodyBytes` and `bodyTimeoutMs`.
pub(crate) async fn read(request: Request, app: &AppState) -> Result<Bytes, Problem> {
    let limits = &app.limits;
    let too_large = || {
        let detail = format!("the body is larger than {} bytes", limits.max_body_bytes);
        Problem::new(Kind::InvalidRequest, StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    };
    // A declared length over the limit is rejected without reading.
    if request.body().size_hint().lower() > limits.max_body_bytes {
        return Err(too_large());
    }
    let timeout = Duration::from_millis(limits.body_timeout_ms);
    let read = tokio::time::timeout(timeout, Bytes::from_request(request, app)).await.map_err(|_| {
        let detail = format!("the body did not arrive within {} ms", limits.body_timeout_ms);
        Problem::new(Kind::InvalidRequest, StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail)
    })?;
    read.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ => Problem::bad_request("body_unreadable", "cannot read the body: the connection failed"),
    })
}

/// A few compressed bytes can expand to gigabytes, and no client of ours compresses its requests.
fn reject_compressed(request: &Request) -> Result<(), Problem> {
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

fn is_json(content_type: &str) -> bool {
    let media_type = media_type(content_type);
    media_type == "application/json" || media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// A content type without its parameters, in lower case.
pub(crate) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Parses one JSON value and nothing after it; an error names the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut input).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_syntax() || inner.is_eof() {
            return Problem::bad_request("malformed_json", format!("invalid JSON: {inner}"));
        }
        invalid_value(&path, &inner.to_string())
    })?;
    input.end().map_err(|error| Problem::bad_request("malformed_json", format!("invalid JSON: {error}")))?;
    Ok(value)
}

/// serde says "invalid type: integer `5`, expected a string at line 1 column 13".
fn invalid_value(path: &str, message: &str) -> Problem {
    let short = message.split(" at line ").next().unwrap_or(message);
    let detail = match path {
        "." => format!("invalid value: {}", quote(short)),
        _ => format!("invalid value: {}: {}", quote(path), quote(short)),
    };
    let mut problem = Problem::new(Kind::InvalidRequest, StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", detail);
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

pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if let Ok(axum::extract::Path(value)) = axum::extract::Path::from_request_parts(parts, state).await {
            Ok(Self(value))
        } else {
            let problem = Problem::bad_request("invalid_path", "the path is not UTF-8");
            Err(problem.with_expected("UTF-8", parts.uri.path()))
        }
    }
}

/// The parameters of the query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(invalid_query(&rejection.body_text(), parts.uri.query().unwrap_or(""))),
        }
    }
}

pub(super) fn invalid_query(text: &str, query: &str) -> Problem {
    let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    let (field, expected) = reason.split_once(": ").unwrap_or(("", reason));
    Problem::bad_request("invalid_query", format!("invalid query: {}", quote(reason)))
        .with_field(field)
        .with_expected(expected, query_value(query, field))
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
    struct Spec {
        name: String,
        size: Option<u16>,
        #[serde(default)]
        sizes: std::collections::BTreeMap<String, u16>,
    }

    #[test]
    fn errors_quote_at_most_a_short_piece_of_the_body() {
        let long = "x".repeat(10_000);
        let bodies = [
            format!(r#"{{"name":"a","sizes":{{"{long}":70000}}}}"#),
            format!(r#"{{"name":"a","size":", expected {long}"}}"#),
        ];
        for body in bodies {
            let response = serde_json::to_string(&parse::<Spec>(body.as_bytes()).unwrap_err()).unwrap();
            assert!(response.len() < 2_000, "{} bytes", response.len());
        }
    }

    #[test]
    fn a_body_error_names_the_field() {
        let problem = parse::<Spec>(br#"{"name":"a","size":70000}"#).unwrap_err();
        let text = serde_json::to_value(&problem).unwrap();
        assert_eq!((text["status"].as_u64(), text["field"].as_str()), (Some(422), Some("size")));
        let problem = serde_json::to_value(parse::<Spec>(b"{}").unwrap_err()).unwrap();
        assert_eq!((problem["field"].as_str(), problem["code"].as_str()), (Some("name"), Some("invalid_body")));
        for garbage in [&b"{"[..], b"", b"{\"name\":\"a\"} x", b"\xff\xfe"] {
            let problem = serde_json::to_value(parse::<Spec>(garbage).unwrap_err()).unwrap();
            assert_eq!(problem["status"], 400, "{garbage:?}");
        }
    }
}
