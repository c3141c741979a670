//! The readers that want a wake-up when the head of a ring reaches an offset.
//!
//! A ring has one word for such a request, and two readers use it: the screen model and the history. The smaller offset
//! is requested. When it is reached, the other one is requested again.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use outlive_holder::log::LogReader;

use super::Log;
use crate::history::reader::StoredLog;
use crate::lock;

/// A reader that requests a wake-up at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffsetReader {
    Model = 0,
    History = 1,
}

#[derive(Default)]
pub(super) struct WakeOffsets {
    /// By reader; 0: none.
    wanted: Mutex<[u64; 2]>,
    /// The one that the ring has; 0: none.
    requested: AtomicU64,
}

impl WakeOffsets {
    pub(super) fn request(&self, ring: &LogReader, reader: OffsetReader, offset: u64) {
        let mut wanted = lock(&self.wanted);
        wanted[reader as usize] = offset;
        self.request_first(ring, *wanted);
    }

    /// Called after each wake-up: requests the next offset if the first one was reached.
    pub(super) fn renew(&self, ring: &LogReader) {
        let requested = self.requested.load(Relaxed);
        if requested == 0 {
            return;
        }
        let head = ring.head();
        if head < requested {
            return;
        }
        let mut wanted = lock(&self.wanted);
        for offset in wanted.iter_mut().filter(|offset| **offset <= head) {
            *offset = 0;
        }
        self.request_first(ring, *wanted);
    }

    /// Called with the lock, so that the ring always has the newest request.
    fn request_first(&self, ring: &LogReader, wanted: [u64; 2]) {
        let first = wanted.into_iter().filter(|offset| *offset != 0).min().unwrap_or(0);
        self.requested.store(first, Relaxed);
        ring.request_wakeup_at(first);
    }
}

impl Log {
    /// Adds the older part of the log, which is no longer in memory. The first call counts.
    pub(crate) fn attach_history(&self, stored: StoredLog) {
        let _ = self.stored.set(Arc::new(stored));
    }

    /// Requests a wake-up for the history when the head has reached `offset`; 0: none.
    pub(crate) fn wake_history_at(&self, offset: u64) {
        if let Some(ring) = self.ring() {
            self.wake_offsets.request(ring, OffsetReader::History, offset);
        }
    }

    /// Called after each wake-up by the holder: an offset may have been reached, and then the next one is requested.
    pub(crate) fn renew_offset_wakeups(&self) {
        if let Some(ring) = self.ring() {
            self.wake_offsets.renew(ring);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use outlive_holder::log::{LogStart, LogWriter, Stream};

    use super::*;

    #[test]
    fn both_readers_are_woken_at_their_offsets() {
        let writer = LogWriter::create(1 << 20, 0, LogStart::default()).unwrap();
        let ring = LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap();
        let (output, program) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let print = |count: usize| {
            rustix::io::write(&program, &vec![b'x'; count]).unwrap();
            writer.record(output.as_fd(), Stream::Stdout);
            writer.take_offset_request()
        };
        let offsets = WakeOffsets::default();
        offsets.request(&ring, OffsetReader::History, 300);
        offsets.request(&ring, OffsetReader::Model, 100);
        assert!(!print(50));
        offsets.renew(&ring);
        assert!(print(60), "the model");
        offsets.renew(&ring);
        assert!(!print(100));
        offsets.request(&ring, OffsetReader::Model, 1_000);
        assert!(print(100), "the history");
        offsets.renew(&ring);
        assert!(print(800), "the model again");
        offsets.renew(&ring);
        assert!(!print(1_000));
    }
}
