//! Server-sent events as plain bytes.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use utoipa::ToSchema;

/// A comment is sent when nothing else was for this long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One event of a stream, by its fields. For `text/event-stream` the document's schema is that of
/// each event: `OpenAPI` 3.1 has no other word for the items of a stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes what `push_event` writes")]
pub(super) struct StreamEvent {
    /// What it tells.
    event: String,
    /// Where to go on with `Last-Event-ID`.
    id: Option<String>,
    /// JSON on one line.
    data: String,
}

/// One event. `data` must not contain line breaks, as JSON on one line does not.
pub(super) fn event(name: &str, id: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(name.len() + id.len() + data.len() + 24);
    push_event(&mut text, name, id, data);
    text.into()
}

pub(super) fn push_event(text: &mut String, name: &str, id: &str, data: &str) {
    text.push_str("event: ");
    text.push_str(name);
    if !id.is_empty() {
        text.push_str("\nid: ");
        text.push_str(id);
    }
    text.push_str("\ndata: ");
    text.push_str(data);
    text.push_str("\n\n");
}

/// Answers with these events and a comment now and then.
pub(crate) fn answer(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = Box::pin(events);
    let with_comments = stream::unfold(events, |mut events| async move {
        match tokio::time::timeout(KEEP_ALIVE, events.next()).await {
            Ok(Some(bytes)) => Some((Ok::<_, Infallible>(bytes), events)),
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(b":\n\n")), events)),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(with_comments)).into_response()
}
