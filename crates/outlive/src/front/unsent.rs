//! Answers that are whole in memory and not sent yet. Each stays there for as long as its client takes to read it, which may be for
//! ever: so all of them together have one budget, and an answer without a share of it is refused before anybody waits for it.
//! Streams need none: they make the next piece when the last one is taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures_util::FutureExt as _;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Smaller ones are not counted: there are no more of them than connections, and the kernel takes them at once.
const SMALL_BYTES: usize = 64 * 1024;
/// Given to the connection at once; what it has not taken stays ours.
const PIECE_BYTES: usize = 64 * 1024;
/// Shares are counted in these.
const UNIT_BYTES: usize = 4096;
/// Large answers that are made at the same time: while one is made it takes memory without a share.
const MOST_MADE_AT_ONCE: usize = 2;

pub(crate) struct Unsent {
    budget: Arc<Semaphore>,
    units: usize,
    making: Semaphore,
}

/// A part of the budget, until it is dropped.
pub(crate) struct Share(#[expect(dead_code, reason = "held, not used")] Option<OwnedSemaphorePermit>);

impl Unsent {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(UNIT_BYTES).min(u32::MAX as usize);
        Self { budget: Arc::new(Semaphore::new(units)), units, making: Semaphore::new(MOST_MADE_AT_ONCE) }
    }

    /// `None`: others have it all. What is larger than the whole budget can be sent alone.
    pub(crate) fn share(&self, bytes: usize) -> Option<Share> {
        if bytes <= SMALL_BYTES {
            return Some(Share(None));
        }
        let units = bytes.div_ceil(UNIT_BYTES).min(self.units) as u32;
        Arc::clone(&self.budget).try_acquire_many_owned(units).ok().map(|permit| Share(Some(permit)))
    }

    /// For those who make large answers: keep it until the answer is made.
    pub(crate) async fn turn_to_make(&self) -> Option<SemaphorePermit<'_>> {
        self.making.acquire().await.ok()
    }

    /// The response with its share, if it needs one; `None`: there is none left.
    pub(super) fn counted(&self, response: Response) -> Option<Response> {
        let large = |size: u64| size > SMALL_BYTES as u64;
        let Some(size) = response.body().size_hint().exact().filter(|size| large(*size)) else { return Some(response) };
        let (head, mut body) = response.into_parts();
        // What has one piece is there as a whole; of anything else the size is known, and the rest is made when it is wanted.
        let first = match body.frame().now_or_never() {
            Some(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            _ => Bytes::new(),
        };
        let share = if first.len() as u64 == size { self.share(first.len())? } else { Share(None) };
        Some(Response::from_parts(head, Body::new(Pieces { first, rest: body, _share: share })))
    }
}

/// A body of which the connection gets a piece at a time.
struct Pieces {
    first: Bytes,
    rest: Body,
    _share: Share,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(context);
        }
        let most = self.first.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.first.split_to(most)))))
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

    fn whole() -> Response {
        Response::new(Body::from(vec![7; LARGE]))
    }

    #[tokio::test]
    async fn answers_that_nobody_read_filled_the_memory() {
        let unsent = Unsent::new(2 * LARGE as u64);
        let (first, second) = (unsent.counted(whole()).unwrap(), unsent.counted(whole()).unwrap());
        assert!(unsent.counted(whole()).is_none());
        assert!(unsent.counted(Response::new(Body::from("small"))).is_some());
        let mut body = first.into_body();
        assert_eq!(body.size_hint().exact(), Some(LARGE as u64));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE_BYTES);
        assert!(unsent.counted(whole()).is_none(), "the rest of it is not sent yet");
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), LARGE - PIECE_BYTES);
        assert!(unsent.counted(whole()).is_some());
        drop(second);
        assert!(unsent.share(100 * LARGE).is_some(), "alone, what is larger than everything");
    }

    #[tokio::test]
    async fn a_stream_of_known_size_has_no_share() {
        struct Known(Body);
        impl HttpBody for Known {
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
        let unsent = Unsent::new(0);
        let counted = unsent.counted(Response::new(Body::new(Known(Body::from_stream(pieces))))).unwrap();
        assert_eq!(counted.into_body().collect().await.unwrap().to_bytes().len(), 2 * LARGE);
    }
}
