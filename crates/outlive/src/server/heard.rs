//! What a connection's bytes pass through: who keeps us waiting is told to its place, strangers are read in small bites,
//! and whoever wants to know learns when everything was given to the kernel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::{Bite, Place};
use super::sent::Sent;

/// Of a stranger, this much is read at a time: by HTTP/2, a few bytes ask for something.
const BITE_BYTES: usize = 512;

/// A connection that tells its place when it makes us wait, and what it carries when that is sent.
pub(super) struct Heard<T> {
    line: T,
    place: Arc<Place>,
    told: bool,
    /// The turn in which a bite of a stranger was read.
    bitten_in: Option<u32>,
    sent: Arc<Sent>,
}

impl<T> Heard<T> {
    pub(super) fn new(line: T, place: Arc<Place>, sent: Arc<Sent>) -> Self {
        Self { line, place, told: false, bitten_in: None, sent }
    }

    fn tell<R>(&mut self, result: Poll<R>) -> Poll<R> {
        if result.is_pending() && !self.told {
            self.told = true;
            self.place.make_awaited();
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heard<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = match self.place.bite(context) {
            Bite::Whole => Pin::new(&mut self.line).poll_read(context, room),
            // What it asked for has to be counted, and looked at, before the next bite.
            Bite::Small if self.bitten_in == Some(self.place.turn()) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Bite::Small => {
                let mut bite = [0; BITE_BYTES];
                let most = room.remaining().min(BITE_BYTES);
                let mut bite = ReadBuf::new(&mut bite[..most]);
                let read = Pin::new(&mut self.line).poll_read(context, &mut bite);
                room.put_slice(bite.filled());
                if read.is_ready() {
                    self.bitten_in = Some(self.place.turn());
                }
                read
            }
            Bite::None => Poll::Pending,
        };
        self.tell(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Heard<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.line).poll_write(context, bytes);
        self.tell(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.line).poll_write_vectored(context, pieces);
        self.tell(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.line).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.sent.flushed();
        }
        self.tell(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::super::connections::Connections;
    use super::*;
    use crate::settings::Limits;

    #[test]
    fn who_asks_and_does_not_read_was_never_sent_away() {
        use tokio::io::AsyncWriteExt as _;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limits = Limits { max_connections: 10, max_strangers: 1, ..Limits::default() };
            let all = Connections::new(&limits);
            let place = all.enter().unwrap();
            let (line, _unread) = tokio::io::duplex(1);
            let mut line = Heard::new(line, Arc::clone(&place), Arc::default());
            let never = tokio::time::timeout(Duration::ZERO, line.write_all(b"an answer"));
            assert!(never.await.is_err());
            all.enter().unwrap();
            assert!(place.must_leave().now_or_never().is_some());
        });
    }
}
