//! The writer of server-sent events (`text/event-stream`) for all surfaces.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, TryStream, stream};
use utoipa::ToSchema;

/// A comment is sent after this long without an event, so that proxies keep the connection open.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The fields of one event. `OpenAPI` 3.1 cannot describe the items of a stream, so for `text/event-stream` the
/// document gives the schema of each event.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes the output of `push_event`")]
pub(crate) struct StreamEvent {
    /// The kind of event.
    event: String,
    /// Resume after this event by sending it as `Last-Event-ID`.
    id: Option<String>,
    /// JSON on one line.
    data: String,
}

/// One event. An empty `name` or `id` is left out. `data` must not contain line breaks.
pub(crate) fn event(name: &str, id: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(name.len() + id.len() + data.len() + 24);
    push_event(&mut text, name, id, data);
    text.into()
}

/// Appends one event to `text`; see [`event`].
pub(crate) fn push_event(text: &mut String, name: &str, id: &str, data: &str) {
    for (field, value) in [("event: ", name), ("id: ", id)] {
        if !value.is_empty() {
            text.push_str(field);
            text.push_str(value);
            text.push('\n');
        }
    }
    text.push_str("data: ");
    text.push_str(data);
    text.push_str("\n\n");
}

/// Responds with these events, and with a comment whenever there was none for [`KEEP_ALIVE_INTERVAL`].
pub(crate) fn response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = Box::pin(events);
    let with_keep_alive = stream::unfold(events, |mut events| async move {
        match tokio::time::timeout(KEEP_ALIVE_INTERVAL, events.next()).await {
            Ok(Some(bytes)) => Some((Ok::<_, Infallible>(bytes), events)),
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(b":\n\n")), events)),
        }
    });
    raw_response(with_keep_alive)
}

/// Responds with these pieces as they are, for surfaces whose clients expect their own heartbeat. An error cuts the
/// connection, so that the client does not take the stream for complete.
pub(crate) fn raw_response<S>(pieces: S) -> Response
where
    S: TryStream<Ok: Into<Bytes>, Error: Into<axum::BoxError>> + Send + 'static,
{
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}
