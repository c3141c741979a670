//! One message in, one message out.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::codec::{Codec, Message};
use super::failure::Failure;
use super::headers;
use crate::api::{App, extract};

/// A call whose message has been understood.
pub(in super::super) struct Unary<M> {
    pub(in super::super) message: M,
    codec: Codec,
}

impl<M: Message> FromRequest<App> for Unary<M> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let headers = request.headers();
        let Some(codec) = Codec::of_unary(headers::content_type(headers)) else {
            return Err(unknown_type("application/json, application/proto"));
        };
        let checked = headers::check_version(headers)
            .and_then(|()| headers::check_encoding(headers, header::CONTENT_ENCODING.as_str()));
        checked.map_err(IntoResponse::into_response)?;
        let read = extract::read(request, app).await.map_err(Failure::from);
        let message = read.and_then(|bytes| codec.decode(&bytes)).map_err(IntoResponse::into_response)?;
        Ok(Self { message, codec })
    }
}

impl<M> Unary<M> {
    pub(in super::super) fn answer<R: Message>(&self, message: R) -> Reply {
        let mut bytes = Vec::new();
        self.codec.append(&message, &mut bytes);
        Reply { codec: self.codec, bytes }
    }
}

pub(in super::super) struct Reply {
    codec: Codec,
    bytes: Vec<u8>,
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static(self.codec.unary_type());
        ([(header::CONTENT_TYPE, kind)], self.bytes).into_response()
    }
}

pub(super) fn unknown_type(known: &'static str) -> Response {
    let header = [(header::HeaderName::from_static("accept-post"), HeaderValue::from_static(known))];
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, header).into_response()
}
