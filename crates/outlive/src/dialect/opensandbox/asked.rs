//! What clients send, with refusals in this dialect's words.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::Failure;
use crate::api::App;
use crate::api::extract::{Body, JsonBytes, Params, Path, parse, read};

/// A JSON body.
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Sent<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        Ok(Self(Body::from_request(request, app).await?.0))
    }
}

/// A JSON body that may as well be missing: one SDK sends none where the other sends `{}`.
pub(super) struct SentOrNothing<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for SentOrNothing<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let has_kind = request.headers().contains_key(header::CONTENT_TYPE);
        let bytes = if has_kind {
            JsonBytes::from_request(request, app).await?.0
        } else {
            let bytes = read(request, app).await?;
            if !bytes.is_empty() {
                return Err(Failure::invalid("expected request with `Content-Type: application/json`"));
            }
            bytes
        };
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        Ok(Self(parse(&bytes)?))
    }
}

/// The query.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        Ok(Self(Params::from_request_parts(parts, state).await?.0))
    }
}

/// The variable part of the path.
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        Ok(Self(Path::from_request_parts(parts, state).await?.0))
    }
}
