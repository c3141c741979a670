//! Refusals that arrive.
//!
//! Who is refused in the middle of sending a body would mostly see a broken pipe instead of the reason: closing a
//! connection with unread bytes resets it. So what remains of a body of sensible size is read and thrown away first.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

/// Who sends more than this after a refusal does not listen.
const MOST_BYTES: usize = 16 << 20;
const WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn linger(request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    // Who asks first has not sent anything yet, and to read would invite it.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next(request).await;
    }
    let (parts, body) = request.into_parts();
    let lent = Lent(Arc::new(Mutex::new(body)));
    let response = next(Request::from_parts(parts, Body::new(lent.clone()))).await;
    if response.status().is_client_error() {
        let _ = tokio::time::timeout(WITHIN, discard(lent)).await;
    }
    response
}

async fn discard(mut body: Lent) {
    let mut left = MOST_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        match frame.data_ref().map_or(Some(left), |bytes| left.checked_sub(bytes.len())) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// A body that comes back from the handler.
#[derive(Clone)]
struct Lent(Arc<Mutex<Body>>);

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}
