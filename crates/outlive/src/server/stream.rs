//! The byte stream of a connection, between hyper (or TLS) and the socket.
//!
//! [`TrackedStream`] tells the connection's slot when the server waits for the client, limits how fast an
//! unauthenticated client is read, and reports flushes to [`FlushTracker`].

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use outlive_core::lock;
use outlive_core::log::Log;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::{ConnectionSlot, ReadMode};

/// Bytes per poll that are read from an unauthenticated connection.
const LIMITED_READ_BYTES: usize = 512;

pub(super) struct TrackedStream<T> {
    stream: T,
    slot: Arc<ConnectionSlot>,
    has_waited: bool,
    /// The poll in which a limited read was done.
    last_limited_poll: Option<u32>,
    flushes: Arc<FlushTracker>,
}

impl<T> TrackedStream<T> {
    pub(super) fn new(stream: T, slot: Arc<ConnectionSlot>, flushes: Arc<FlushTracker>) -> Self {
        Self { stream, slot, has_waited: false, last_limited_poll: None, flushes }
    }

    fn note_wait<R>(&mut self, result: Poll<R>) -> Poll<R> {
        if result.is_pending() && !self.has_waited {
            self.has_waited = true;
            self.slot.mark_awaiting_client();
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TrackedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match self.slot.read_mode(context) {
            ReadMode::Full => Pin::new(&mut self.stream).poll_read(context, buffer),
            // The requests in these bytes must be counted and authenticated before more is read.
            ReadMode::Limited if self.last_limited_poll == Some(self.slot.poll_count()) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ReadMode::Limited => {
                let mut limited = [0; LIMITED_READ_BYTES];
                let length = buffer.remaining().min(LIMITED_READ_BYTES);
                let mut limited = ReadBuf::new(&mut limited[..length]);
                let read = Pin::new(&mut self.stream).poll_read(context, &mut limited);
                buffer.put_slice(limited.filled());
                if read.is_ready() {
                    self.last_limited_poll = Some(self.slot.poll_count());
                }
                read
            }
            ReadMode::Paused => Poll::Pending,
        };
        self.note_wait(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TrackedStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_wait(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_wait(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.flushes.on_flush();
        }
        self.note_wait(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Raises the resume offsets of logs when the output before them has reached the kernel.
///
/// Bytes that a handler has put into a response may still be in the connection's buffer, and are lost if the server
/// dies. Once they are in the kernel they are sent even then. hyper flushes a connection when its buffer is empty, so
/// after a flush everything from before is in the kernel. (Of an HTTP/2 response, only as much as the client's window
/// allows.)
#[derive(Default)]
pub(crate) struct FlushTracker(Mutex<Vec<(Arc<Log>, u64)>>);

impl FlushTracker {
    /// Everything before `offset` was put into the response: the next flush raises the log's resume offset to it.
    pub(crate) fn raise_on_flush(&self, log: &Arc<Log>, offset: u64) {
        let mut pending = lock(&self.0);
        match pending.iter_mut().find(|(other, _)| Arc::ptr_eq(other, log)) {
            Some((_, pending_offset)) => *pending_offset = offset.max(*pending_offset),
            None => pending.push((Arc::clone(log), offset)),
        }
    }

    fn on_flush(&self) {
        let mut pending = lock(&self.0);
        for (log, offset) in pending.drain(..) {
            log.raise_resume_offset(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::super::connections::ConnectionTable;
    use super::*;
    use crate::settings::ServerLimits;

    // Regression: a client that sent requests and did not read the responses was never evicted.
    #[test]
    fn a_client_that_does_not_read_is_evicted() {
        use tokio::io::AsyncWriteExt as _;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limits = ServerLimits { max_connections: 10, max_unauthenticated: 1, ..ServerLimits::default() };
            let table = ConnectionTable::new(&limits);
            let slot = table.acquire().unwrap();
            let (stream, _unread) = tokio::io::duplex(1);
            let mut stream = TrackedStream::new(stream, Arc::clone(&slot), Arc::default());
            let blocked = tokio::time::timeout(Duration::ZERO, stream.write_all(b"a response"));
            assert!(blocked.await.is_err());
            table.acquire().unwrap();
            assert!(slot.wait_evicted().now_or_never().is_some());
        });
    }
}
