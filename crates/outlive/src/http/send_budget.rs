//! The send budget: one limit (`maxUnsentBytes`) on the bytes of all responses that are complete in memory and not sent
//! yet. Each stays in memory for as long as its client takes to read it, which may be forever. A response that gets no
//! share of the budget is replaced by an error. Streamed responses need no share: they produce the next piece when the
//! connection has taken the last one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures_util::FutureExt as _;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Smaller responses are not counted: there are at most as many as connections, and the kernel buffers them at once.
const MIN_COUNTED_BYTES: usize = 64 * 1024;
/// A counted body is passed to the connection in pieces of this size, so that the share covers the rest.
const PIECE_BYTES: usize = 64 * 1024;
/// The semaphore counts in units of this size.
const UNIT_BYTES: usize = 4096;
/// Large responses that are rendered at the same time: while one is rendered, its memory has no share.
const MAX_CONCURRENT_RENDERINGS: usize = 2;

pub(crate) struct SendBudget {
    free_units: Arc<Semaphore>,
    total_units: usize,
    rendering_slots: Semaphore,
}

/// A part of the budget, returned when it is dropped.
pub(crate) struct BudgetShare(#[expect(dead_code, reason = "held, not used")] Option<OwnedSemaphorePermit>);

impl SendBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(UNIT_BYTES).min(u32::MAX as usize);
        let rendering_slots = Semaphore::new(MAX_CONCURRENT_RENDERINGS);
        Self { free_units: Arc::new(Semaphore::new(units)), total_units: units, rendering_slots }
    }

    /// `None` if the rest of the budget is too small. A response larger than the whole budget can still be sent alone.
    pub(crate) fn share(&self, bytes: usize) -> Option<BudgetShare> {
        if bytes <= MIN_COUNTED_BYTES {
            return Some(BudgetShare(None));
        }
        let units = bytes.div_ceil(UNIT_BYTES).min(self.total_units) as u32;
        Arc::clone(&self.free_units).try_acquire_many_owned(units).ok().map(|permit| BudgetShare(Some(permit)))
    }

    /// Waits for a slot to render a large response; hold it until the response is complete.
    pub(crate) async fn rendering_slot(&self) -> Option<SemaphorePermit<'_>> {
        self.rendering_slots.acquire().await.ok()
    }

    /// The response with its share of the budget, if it needs one; `None` if there is not enough left.
    pub(super) fn limit(&self, response: Response) -> Option<Response> {
        let is_counted = |size: &u64| *size > MIN_COUNTED_BYTES as u64;
        let Some(size) = response.body().size_hint().exact().filter(is_counted) else { return Some(response) };
        let (head, mut body) = response.into_parts();
        // A body whose first frame has the whole size is complete in memory. Any other body of known size is a stream
        // that produces its frames on demand.
        let first = match body.frame().now_or_never() {
            Some(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            _ => Bytes::new(),
        };
        let share = if first.len() as u64 == size { self.share(first.len())? } else { BudgetShare(None) };
        Some(Response::from_parts(head, Body::new(BodyInPieces { first, rest: body, _share: share })))
    }
}

/// A body that is passed to the connection piece by piece.
struct BodyInPieces {
    first: Bytes,
    rest: Body,
    _share: BudgetShare,
}

impl HttpBody for BodyInPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(context);
        }
        let len = self.first.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.first.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.size_hint();
        let mut all = SizeHint::new();
        all.set_lower(rest.lower() + self.first.len() as u64);
        if let Some(upper) = rest.upper() {
            all.set_upper(upper + self.first.len() as u64);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 1 << 20;

    fn large_response() -> Response {
        Response::new(Body::from(vec![7; LARGE]))
    }

    #[tokio::test]
    async fn unread_responses_are_bounded_by_a_budget() {
        let budget = SendBudget::new(2 * LARGE as u64);
        let (first, second) = (budget.limit(large_response()).unwrap(), budget.limit(large_response()).unwrap());
        assert!(budget.limit(large_response()).is_none());
        assert!(budget.limit(Response::new(Body::from("small"))).is_some());
        let mut body = first.into_body();
        assert_eq!(body.size_hint().exact(), Some(LARGE as u64));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE_BYTES);
        assert!(budget.limit(large_response()).is_none(), "the rest of the first one is not sent yet");
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), LARGE - PIECE_BYTES);
        assert!(budget.limit(large_response()).is_some());
        drop(second);
        assert!(budget.share(100 * LARGE).is_some(), "a response larger than the budget can be sent alone");
    }

    #[tokio::test]
    async fn a_stream_of_known_size_needs_no_share() {
        struct SizedStream(Body);
        impl HttpBody for SizedStream {
            type Data = Bytes;
            type Error = axum::Error;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
                Pin::new(&mut self.0).poll_frame(context)
            }
            fn size_hint(&self) -> SizeHint {
                SizeHint::with_exact(2 * LARGE as u64)
            }
        }
        let pieces = futures_util::stream::iter([Ok::<_, std::io::Error>(vec![1; LARGE]), Ok(vec![2; LARGE])]);
        let budget = SendBudget::new(0);
        let limited = budget.limit(Response::new(Body::new(SizedStream(Body::from_stream(pieces))))).unwrap();
        assert_eq!(limited.into_body().collect().await.unwrap().to_bytes().len(), 2 * LARGE);
    }
}
