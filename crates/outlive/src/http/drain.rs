//! Makes rejections arrive. A client that is rejected while it sends a body would see a reset connection instead of the
//! response, because closing a socket with unread bytes resets it. So the rest of a body of reasonable size is read and
//! discarded first.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use outlive_core::lock;

/// A client that sends more than this after a rejection gets a reset.
const MAX_DISCARDED_BYTES: usize = 16 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn drain_after_rejection(request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    // A client that sent `Expect: 100-continue` has not sent its body yet, and reading would invite it.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next(request).await;
    }
    let (parts, body) = request.into_parts();
    let shared = SharedBody(Arc::new(Mutex::new(body)));
    let response = next(Request::from_parts(parts, Body::new(shared.clone()))).await;
    if response.status().is_client_error() {
        discard(shared).await;
    }
    response
}

/// Reads and discards the rest of a body. Returns false if the rest is too long, arrives too slowly or breaks off.
pub(crate) async fn discard(mut body: impl HttpBody<Data = Bytes, Error = axum::Error> + Unpin) -> bool {
    let read_to_end = async {
        let mut left = MAX_DISCARDED_BYTES;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    tokio::time::timeout(DISCARD_TIMEOUT, read_to_end).await.unwrap_or(false)
}

/// A body that can still be read after the handler has dropped its copy.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Body>>);

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = lock(&self.0);
        Pin::new(&mut *body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).size_hint()
    }
}
