//! Streams of messages, in one direction each.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;

use super::codec::{Codec, Message};
use super::envelope::{Envelopes, append_end};
use super::failure::{Failure, FailureCode};
use super::headers;
use super::unary::unknown_type;
use crate::api::App;
use crate::server::Sent;

const TYPES: &str = "application/connect+json, application/connect+proto";
const ENCODING: &str = "connect-content-encoding";
/// A client that streams input may well be a person who thinks; but a line that died without a word must not stay for ever.
const LONGEST_SILENCE: Duration = Duration::from_secs(10 * 60);

/// A call with one message, to be answered by many.
pub(in super::super) struct ServerStream<M> {
    pub(in super::super) message: M,
    pub(in super::super) codec: Codec,
    pub(in super::super) timeout: Option<Duration>,
    pub(in super::super) keepalive: Duration,
    /// Tells when an answer is with the kernel.
    pub(in super::super) sent: Option<Arc<Sent>>,
}

impl<M: Message> FromRequest<App> for ServerStream<M> {
    type Rejection = Response;

    /// Reads the request to its end first: a client that sees an answer too early may stop sending.
    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let codec = codec(&request)?;
        let timeout = timeout(&request).map_err(|failure| refuse(codec, &failure))?;
        let keepalive = headers::keepalive(request.headers());
        let sent = request.extensions().get().cloned();
        let mut envelopes = envelopes(request, codec, app, Duration::from_millis(app.limits.body_timeout_ms));
        let message = match only(&mut envelopes).await {
            Ok(message) => message,
            Err(failure) => return Err(refuse_early(codec, &failure, &mut envelopes).await),
        };
        Ok(Self { message, codec, timeout, keepalive, sent })
    }
}

/// A call with many messages, to be answered by one.
pub(in super::super) struct ClientStream {
    pub(in super::super) codec: Codec,
    pub(in super::super) timeout: Option<Duration>,
    pub(in super::super) envelopes: Envelopes,
}

impl FromRequest<App> for ClientStream {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let codec = codec(&request)?;
        let timeout = timeout(&request).map_err(|failure| refuse(codec, &failure))?;
        Ok(Self { codec, timeout, envelopes: envelopes(request, codec, app, LONGEST_SILENCE) })
    }
}

fn codec(request: &Request) -> Result<Codec, Response> {
    Codec::of_stream(headers::content_type(request.headers())).ok_or_else(|| unknown_type(TYPES))
}

fn timeout(request: &Request) -> Result<Option<Duration>, Failure> {
    let headers = request.headers();
    headers::check_version(headers)?;
    headers::check_encoding(headers, ENCODING)?;
    let timeout = headers::timeout(headers)?;
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Failure::new(FailureCode::DeadlineExceeded, "the time was over before it began"));
    }
    Ok(timeout)
}

fn envelopes(request: Request, codec: Codec, app: &App, patience: Duration) -> Envelopes {
    let largest = usize::try_from(app.limits.max_body_bytes).unwrap_or(usize::MAX);
    Envelopes::new(request.into_body(), codec, largest, patience)
}

async fn only<M: Message>(envelopes: &mut Envelopes) -> Result<M, Failure> {
    let message = envelopes.next().await?;
    let message = message.ok_or_else(|| Failure::invalid("protocol error: the request has no message"))?;
    match envelopes.next::<M>().await? {
        None => Ok(message),
        Some(_) => Err(Failure::invalid("protocol error: the request has more than one message")),
    }
}

/// An answer that ends before it has begun.
pub(in super::super) fn refuse(codec: Codec, failure: &Failure) -> Response {
    let mut end = Vec::new();
    append_end(Some(failure), &mut end);
    with_type(codec, end)
}

/// The same to a client that may still be sending.
pub(in super::super) async fn refuse_early(codec: Codec, failure: &Failure, envelopes: &mut Envelopes) -> Response {
    let mut response = refuse(codec, failure);
    if !envelopes.discard_rest().await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn with_type(codec: Codec, body: impl Into<Body>) -> Response {
    let kind = HeaderValue::from_static(codec.stream_type());
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

/// An answer of envelopes, or why there is none.
pub(in super::super) fn answer<S>(codec: Codec, pieces: Result<S, Failure>) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    match pieces {
        Ok(pieces) => {
            let pieces = futures_util::StreamExt::map(pieces, Ok::<_, Infallible>);
            with_type(codec, Body::from_stream(pieces))
        }
        Err(failure) => refuse(codec, &failure),
    }
}
