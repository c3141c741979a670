//! What a request says: in its path, in its query, in its body.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::error::{Failure, Part, in_words};
use crate::api::App;
use crate::api::extract::{JsonBytes, Params, Path, read};
use crate::api::problem::Problem;

/// The variable parts of the path.
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        Path::from_request_parts(parts, state).await.map(|Path(value)| Self(value)).map_err(in_words)
    }
}

/// The query.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        Params::from_request_parts(parts, state).await.map(|Params(value)| Self(value)).map_err(in_words)
    }
}

/// The body, not looked at yet. The SDK sends none at all when it has nothing to say, so nothing means `{}`.
pub(super) struct Payload(Result<Bytes, Problem>);

impl FromRequest<App> for Payload {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Self::Rejection> {
        let says_nothing = !request.headers().contains_key(axum::http::header::CONTENT_TYPE);
        if says_nothing {
            let bytes = read(request, app).await;
            return Ok(Self(bytes.and_then(|bytes| if bytes.is_empty() { Ok(bytes) } else { Err(untold()) })));
        }
        Ok(Self(JsonBytes::from_request(request, app).await.map(|JsonBytes(bytes)| bytes)))
    }
}

/// A web page can send anything else without asking.
fn untold() -> Problem {
    Problem::bad_request("unsupported_media_type", "expected request with `Content-Type: application/json`")
}

impl Payload {
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let bytes = self.0?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let mut input = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut input).map_err(|error| {
            let path = error.path().to_string();
            let inner = error.into_inner();
            if inner.is_syntax() || inner.is_eof() {
                return Failure::bad(Part::Body, format!("the body is not JSON: {inner}"));
            }
            does_not_fit(&path, &inner.to_string())
        })?;
        input.end().map_err(|error| Failure::bad(Part::Body, format!("the body is not JSON: {error}")))?;
        Ok(value)
    }
}

/// serde says "invalid type: integer `5`, expected a string at line 1 column 13".
fn does_not_fit(path: &str, message: &str) -> Failure {
    let short = message.split(" at line ").next().unwrap_or(message);
    if let Some(missing) = short.strip_prefix("missing field ") {
        let missing = missing.trim_matches('`');
        let path = if path == "." { missing.to_owned() } else { format!("{path}.{missing}") };
        return Failure::wrong(&path, "a value", "undefined");
    }
    match short.split_once(", expected ") {
        Some((got, expected)) => Failure::wrong(path, expected, got.trim_start_matches("invalid type: ")),
        None => Failure::wrong(path, "something else", short),
    }
}
