//! Calls of the Connect protocol over plain HTTP, as far as E2B's process service needs them. An extractor per kind of
//! call checks the headers and decodes the request; helpers build the response.
//!
//! ```text
//! unary          body = message    ─▶ 200 + message, or the code's HTTP status + {"code", "message"}
//! server stream  body = envelope   ─▶ 200 + envelopes
//! client stream  body = envelopes  ─▶ 200 + envelopes
//! ```
//!
//! A message is JSON or protobuf. In a stream each message has an envelope: one byte of flags, the payload's length in
//! four bytes (big-endian), and the payload. Once the content type of a stream call is accepted, every error goes into
//! the last envelope of a 200 response, because clients look for it there.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::{ConnectCode, ConnectError};
use crate::http::{AppState, drain, extract};
use crate::server::FlushTracker;

const DEFAULT_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(90);
/// The limit of the Connect specification.
const MAX_TIMEOUT_DIGITS: usize = 10;
/// A client that streams input may be a person who pauses, but a connection that died silently must end eventually.
const INPUT_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
const UNARY_TYPES: &str = "application/json, application/proto";
const STREAM_TYPES: &str = "application/connect+json, application/connect+proto";
/// Length of an envelope without its payload.
const HEADER_BYTES: usize = 5;
/// Flags of an envelope.
const COMPRESSED: u8 = 1;
const END: u8 = 2;

// ---- calls ----

/// One message in, one message out.
pub(super) struct Unary<M> {
    pub(super) message: M,
    codec: Codec,
}

impl<M: Message> FromRequest<AppState> for Unary<M> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Response> {
        let headers = request.headers();
        let Some(codec) = Codec::from_unary_type(content_type(headers)) else {
            return Err(unsupported_type(UNARY_TYPES));
        };
        let checked =
            check_version(headers).and_then(|()| check_uncompressed(headers, header::CONTENT_ENCODING.as_str()));
        checked.map_err(IntoResponse::into_response)?;
        let body = extract::read(request, app).await.map_err(ConnectError::from);
        let message = body.and_then(|bytes| codec.decode(&bytes)).map_err(IntoResponse::into_response)?;
        Ok(Self { message, codec })
    }
}

impl<M> Unary<M> {
    pub(super) fn reply<R: Message>(&self, message: R) -> UnaryReply {
        let mut bytes = Vec::new();
        self.codec.append(&message, &mut bytes);
        UnaryReply { codec: self.codec, bytes }
    }
}

pub(super) struct UnaryReply {
    codec: Codec,
    bytes: Vec<u8>,
}

impl IntoResponse for UnaryReply {
    fn into_response(self) -> Response {
        let content_type = HeaderValue::from_static(self.codec.unary_type());
        ([(header::CONTENT_TYPE, content_type)], self.bytes).into_response()
    }
}

/// One message in, a stream of messages out.
pub(super) struct ServerStream<M> {
    pub(super) message: M,
    pub(super) codec: Codec,
    pub(super) timeout: Option<Duration>,
    pub(super) keepalive_interval: Duration,
    /// Reports when the kernel has taken the bytes of the response.
    pub(super) flush_tracker: Option<Arc<FlushTracker>>,
}

impl<M: Message> FromRequest<AppState> for ServerStream<M> {
    type Rejection = Response;

    /// Reads the request to its end first: a client that receives a response too early may stop sending.
    async fn from_request(request: Request, app: &AppState) -> Result<Self, Response> {
        let (codec, timeout) = check_stream_headers(request.headers())?;
        let keepalive_interval = keepalive_interval(request.headers());
        let flush_tracker = request.extensions().get().cloned();
        let read_timeout = Duration::from_millis(app.limits.body_timeout_ms);
        let mut envelopes = envelopes(request, codec, app, read_timeout);
        match read_single_message(&mut envelopes).await {
            Ok(message) => Ok(Self { message, codec, timeout, keepalive_interval, flush_tracker }),
            Err(error) => Err(error_response_after_drain(codec, &error, &mut envelopes).await),
        }
    }
}

/// A stream of messages in, one message out.
pub(super) struct ClientStream {
    pub(super) codec: Codec,
    pub(super) timeout: Option<Duration>,
    pub(super) envelopes: Envelopes,
}

impl FromRequest<AppState> for ClientStream {
    type Rejection = Response;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Response> {
        let (codec, timeout) = check_stream_headers(request.headers())?;
        Ok(Self { codec, timeout, envelopes: envelopes(request, codec, app, INPUT_IDLE_TIMEOUT) })
    }
}

fn envelopes(request: Request, codec: Codec, app: &AppState, read_timeout: Duration) -> Envelopes {
    let max_message_bytes = usize::try_from(app.limits.max_body_bytes).unwrap_or(usize::MAX);
    Envelopes::new(request.into_body(), codec, max_message_bytes, read_timeout)
}

async fn read_single_message<M: Message>(envelopes: &mut Envelopes) -> Result<M, ConnectError> {
    let message = envelopes.next().await?;
    let message = message.ok_or_else(|| ConnectError::invalid("protocol error: the request has no message"))?;
    match envelopes.next::<M>().await? {
        None => Ok(message),
        Some(_) => Err(ConnectError::invalid("protocol error: the request has more than one message")),
    }
}

/// A response of envelopes, or of one envelope with an error.
pub(super) fn stream_response<S>(codec: Codec, pieces: Result<S, ConnectError>) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    match pieces {
        Ok(pieces) => response(codec, Body::from_stream(pieces.map(Ok::<_, Infallible>))),
        Err(error) => stream_error_response(codec, &error),
    }
}

fn stream_error_response(codec: Codec, error: &ConnectError) -> Response {
    let mut end = Vec::new();
    append_end(Some(error), &mut end);
    response(codec, end)
}

/// The error response to a client that may still be sending. It reads the rest of the request first, because the
/// connection could not be reused otherwise, and closes the connection if the rest is too long.
pub(super) async fn error_response_after_drain(
    codec: Codec,
    error: &ConnectError,
    envelopes: &mut Envelopes,
) -> Response {
    let mut response = stream_error_response(codec, error);
    if !envelopes.drain().await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn response(codec: Codec, body: impl Into<Body>) -> Response {
    let content_type = HeaderValue::from_static(codec.stream_type());
    ([(header::CONTENT_TYPE, content_type)], body.into()).into_response()
}

fn unsupported_type(supported: &'static str) -> Response {
    let accept_post = header::HeaderName::from_static("accept-post");
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, [(accept_post, HeaderValue::from_static(supported))]).into_response()
}

/// The codec and the timeout of a stream call.
fn check_stream_headers(headers: &HeaderMap) -> Result<(Codec, Option<Duration>), Response> {
    let codec = Codec::from_stream_type(content_type(headers)).ok_or_else(|| unsupported_type(STREAM_TYPES))?;
    let timeout = check_version(headers)
        .and_then(|()| check_uncompressed(headers, "connect-content-encoding"))
        .and_then(|()| timeout(headers));
    match timeout {
        Ok(Some(timeout)) if timeout.is_zero() => Err(stream_error_response(codec, &ConnectError::call_timed_out())),
        Ok(timeout) => Ok((codec, timeout)),
        Err(error) => Err(stream_error_response(codec, &error)),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

fn content_type(headers: &HeaderMap) -> &str {
    header_text(headers, header::CONTENT_TYPE.as_str()).unwrap_or("")
}

fn check_version(headers: &HeaderMap) -> Result<(), ConnectError> {
    match header_text(headers, "connect-protocol-version") {
        None | Some("1") => Ok(()),
        Some(_) => Err(ConnectError::invalid("connect-protocol-version must be \"1\"")),
    }
}

/// A few compressed bytes can expand to gigabytes, and no SDK compresses its requests.
fn check_uncompressed(headers: &HeaderMap, name: &str) -> Result<(), ConnectError> {
    match header_text(headers, name) {
        None | Some("identity" | "") => Ok(()),
        Some(_) => {
            let message = "unknown compression: supported encodings are identity";
            Err(ConnectError::new(ConnectCode::Unimplemented, message))
        }
    }
}

fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, ConnectError> {
    let Some(value) = header_text(headers, "connect-timeout-ms") else { return Ok(None) };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse() {
        Ok(ms) if is_number && value.len() <= MAX_TIMEOUT_DIGITS => Ok(Some(Duration::from_millis(ms))),
        _ => Err(ConnectError::invalid("protocol error: connect-timeout-ms must be a number of at most 10 digits")),
    }
}

/// After how much silence the client wants a keepalive event. A value that is not a positive number is ignored.
fn keepalive_interval(headers: &HeaderMap) -> Duration {
    let seconds = header_text(headers, "keepalive-ping-interval").and_then(|value| value.trim().parse::<u32>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0);
    seconds.map_or(DEFAULT_KEEPALIVE_INTERVAL, |seconds| Duration::from_secs(seconds.into()))
}

// ---- messages and envelopes ----

/// A message that has both encodings.
pub(super) trait Message: prost::Message + Default + Serialize + DeserializeOwned {}

impl<T: prost::Message + Default + Serialize + DeserializeOwned> Message for T {}

/// The encoding of all messages of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Json,
    Proto,
}

impl Codec {
    pub(super) fn from_unary_type(content_type: &str) -> Option<Self> {
        Self::from_name(extract::media_type(content_type).strip_prefix("application/")?)
    }

    pub(super) fn from_stream_type(content_type: &str) -> Option<Self> {
        Self::from_name(extract::media_type(content_type).strip_prefix("application/connect+")?)
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "proto" => Some(Self::Proto),
            _ => None,
        }
    }

    /// Has no parameters: the Python SDK compares the whole header.
    pub(super) fn unary_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Proto => "application/proto",
        }
    }

    pub(super) fn stream_type(self) -> &'static str {
        match self {
            Self::Json => "application/connect+json",
            Self::Proto => "application/connect+proto",
        }
    }

    pub(super) fn decode<M: Message>(self, bytes: &[u8]) -> Result<M, ConnectError> {
        match self {
            // No bytes are the empty message, as in protobuf.
            Self::Json if bytes.is_empty() => Ok(M::default()),
            Self::Json => extract::parse(bytes).map_err(ConnectError::from),
            Self::Proto => {
                M::decode(bytes).map_err(|error| ConnectError::invalid(format!("cannot decode the message: {error}")))
            }
        }
    }

    pub(super) fn append<M: Message>(self, message: &M, out: &mut Vec<u8>) {
        // Writing to a growing vector cannot fail.
        match self {
            Self::Json => drop(serde_json::to_writer(out, message)),
            Self::Proto => drop(message.encode(out)),
        }
    }
}

fn append_envelope(flags: u8, out: &mut Vec<u8>, write_payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([flags, 0, 0, 0, 0]);
    write_payload(out);
    let length = u32::try_from(out.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(start + 1..start + HEADER_BYTES) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

pub(super) fn append_message<M: Message>(codec: Codec, message: &M, out: &mut Vec<u8>) {
    append_envelope(0, out, |out| codec.append(message, out));
}

/// Appends the last envelope of a stream. It is JSON even if the messages are protobuf.
pub(super) fn append_end(error: Option<&ConnectError>, out: &mut Vec<u8>) {
    let end = error.map_or_else(|| json!({}), |error| json!({ "error": error.to_json() }));
    append_envelope(END, out, |out| out.extend(end.to_string().into_bytes()));
}

/// The envelopes of a request body, read as they arrive.
pub(super) struct Envelopes {
    body: Body,
    codec: Codec,
    /// Received bytes that are not a whole envelope yet.
    buffer: BytesMut,
    max_message_bytes: usize,
    /// The longest silence of the client.
    read_timeout: Duration,
}

impl Envelopes {
    pub(super) fn new(body: Body, codec: Codec, max_message_bytes: usize, read_timeout: Duration) -> Self {
        Self { body, codec, buffer: BytesMut::new(), max_message_bytes, read_timeout }
    }

    /// The next message; `None` at the end of the body.
    pub(super) async fn next<M: Message>(&mut self) -> Result<Option<M>, ConnectError> {
        loop {
            if let Some((flags, payload)) = split_envelope(&mut self.buffer, self.max_message_bytes)? {
                if flags & END != 0 {
                    return Err(ConnectError::invalid("protocol error: a client sent an end-of-stream envelope"));
                }
                return self.codec.decode(&payload).map(Some);
            }
            let frame = tokio::time::timeout(self.read_timeout, self.body.frame()).await.map_err(|_| {
                ConnectError::new(ConnectCode::DeadlineExceeded, "the client sent nothing for too long")
            })?;
            match frame {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(_)) => return Err(ConnectError::new(ConnectCode::Aborted, "the request was aborted")),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(ConnectError::invalid("protocol error: the last envelope is incomplete")),
            }
        }
    }

    /// Discards the rest of the body. Returns false if the client sends too much or too slowly.
    pub(super) async fn drain(&mut self) -> bool {
        drain::discard(&mut self.body).await
    }
}

/// Removes the first envelope from `buffer` if it is complete.
fn split_envelope(buffer: &mut BytesMut, max_message_bytes: usize) -> Result<Option<(u8, Bytes)>, ConnectError> {
    let Some(&[flags, a, b, c, d]) = buffer.first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if flags & COMPRESSED != 0 {
        let message = "protocol error: the envelope is compressed, and no compression was negotiated";
        return Err(ConnectError::new(ConnectCode::Unimplemented, message));
    }
    if flags & !(COMPRESSED | END) != 0 {
        return Err(ConnectError::invalid(format!("protocol error: unknown envelope flags {flags:#04x}")));
    }
    if length > max_message_bytes {
        let message = format!("the message has {length} bytes; the limit is {max_message_bytes}");
        return Err(ConnectError::new(ConnectCode::ResourceExhausted, message));
    }
    if buffer.len() < HEADER_BYTES + length {
        return Ok(None);
    }
    buffer.advance(HEADER_BYTES);
    Ok(Some((flags, buffer.split_to(length).freeze())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    // Regression: envd crashes on an interval of zero.
    #[test]
    fn an_invalid_keepalive_interval_is_the_default() {
        for invalid in ["0", "-1", "", "x", "1.5", "99999999999999999999"] {
            let interval = keepalive_interval(&headers("keepalive-ping-interval", invalid));
            assert_eq!(interval, DEFAULT_KEEPALIVE_INTERVAL, "{invalid:?}");
        }
        assert_eq!(keepalive_interval(&headers("keepalive-ping-interval", "50")), Duration::from_secs(50));
        assert_eq!(keepalive_interval(&HeaderMap::new()), DEFAULT_KEEPALIVE_INTERVAL);
    }

    #[test]
    fn timeouts_are_decimal_numbers() {
        let parse = |value: &str| timeout(&headers("connect-timeout-ms", value));
        assert_eq!(parse("60000"), Ok(Some(Duration::from_mins(1))));
        assert_eq!(parse("9999999999"), Ok(Some(Duration::from_millis(9_999_999_999))));
        for invalid in ["", "+1", "-1", "1.5", "x", "12345678901"] {
            assert_eq!(parse(invalid).unwrap_err().code, ConnectCode::InvalidArgument, "{invalid:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn envelopes_are_found_wherever_the_bytes_are_split() {
        let mut wire = Vec::new();
        append_envelope(0, &mut wire, |out| out.extend(b"one"));
        append_envelope(0, &mut wire, |_| {});
        append_end(Some(&ConnectError::invalid("no")), &mut wire);
        for middle in 0..=wire.len() {
            let mut found = Vec::new();
            let mut buffer = BytesMut::new();
            for part in [&wire[..middle], &wire[middle..]] {
                buffer.extend_from_slice(part);
                while let Some(envelope) = split_envelope(&mut buffer, 1000).unwrap() {
                    found.push(envelope);
                }
            }
            assert!(buffer.is_empty());
            let end = br#"{"error":{"code":"invalid_argument","message":"no"}}"#;
            let expected: [(u8, &[u8]); 3] = [(0, b"one"), (0, b""), (2, end)];
            assert!(found.iter().map(|(flags, bytes)| (*flags, &bytes[..])).eq(expected), "{found:?}");
        }
    }

    #[test]
    fn a_malformed_envelope_is_rejected_before_its_payload_arrives() {
        for (wire, code) in [
            (&[0u8, 0xff, 0xff, 0xff, 0xff][..], ConnectCode::ResourceExhausted),
            (&[1, 0, 0, 0, 0], ConnectCode::Unimplemented),
            (&[0x80, 0, 0, 0, 0], ConnectCode::InvalidArgument),
        ] {
            assert_eq!(split_envelope(&mut BytesMut::from(wire), 1000).unwrap_err().code, code);
        }
        assert_eq!(split_envelope(&mut BytesMut::from(&[0u8, 0, 0, 0][..]), 1000), Ok(None));
    }
}
