//! What a command printed, as one answer: the head and the tail of each stream.

use std::collections::VecDeque;
use std::sync::Arc;

use outlive_holder::log::Stream;

use super::exec::Exec;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

/// Bytes per read.
const READ_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Collected {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Something in the middle (or, if its log is gone, at the beginning) is missing.
    pub truncated: bool,
}

/// The first and the last bytes of a stream.
struct Ends {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most: usize,
    cut: bool,
}

impl Ends {
    fn new(most: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), most, cut: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        let room = (self.most - self.most / 2).saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.most / 2);
        self.tail.drain(..surplus);
        self.cut |= surplus > 0;
    }

    fn whole(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head
    }
}

impl Exec {
    /// Collects until the command is over; `most` bytes per stream. Nothing if it never ran.
    pub async fn collect(&self, most: usize) -> Collected {
        let Some(log) = self.started().await.and_then(|sink| sink.log().ok()) else {
            self.finished().await;
            return Collected::default();
        };
        let mut cursor = Cursor::new(Arc::clone(&log), Start::At(0), Flow::Lossless, StreamFilter::All);
        cursor.expect_acknowledgements();
        let (mut stdout, mut stderr) = (Ends::new(most), Ends::new(most));
        let mut gone = false;
        while !take(&mut cursor, &mut stdout, &mut stderr, &mut gone) {
            cursor.acknowledge(cursor.offset());
            log.until_exit_or_full(cursor.offset()).await;
        }
        cursor.close();
        self.finished().await;
        let truncated = gone || stdout.cut || stderr.cut;
        Collected { stdout: stdout.whole(), stderr: stderr.whole(), truncated }
    }

    /// What there is now, late output included.
    pub fn so_far(&self, most: usize) -> Collected {
        let Some(log) = self.sink().and_then(|sink| sink.log().ok()) else {
            return Collected { truncated: self.sink().is_some(), ..Collected::default() };
        };
        let (mut stdout, mut stderr, mut gone) = (Ends::new(most), Ends::new(most), false);
        let mut cursor = Cursor::new(log, Start::At(0), Flow::Live, StreamFilter::All);
        while take(&mut cursor, &mut stdout, &mut stderr, &mut gone) {}
        let truncated = gone || stdout.cut || stderr.cut;
        Collected { stdout: stdout.whole(), stderr: stderr.whole(), truncated }
    }
}

/// Takes what is there; true at the exit.
fn take(cursor: &mut Cursor, stdout: &mut Ends, stderr: &mut Ends, gone: &mut bool) -> bool {
    while let Some(item) = cursor.try_next(READ_BYTES) {
        match item {
            Item::Bytes { stream: Stream::Stderr, bytes, .. } => stderr.take(&bytes),
            Item::Bytes { bytes, .. } => stdout.take(&bytes),
            Item::Gap { .. } => *gone = true,
            Item::BecameLive => {}
            Item::Exit(_) => return true,
        }
    }
    false
}

/// How many bytes of stdout and stderr a log has had, as far as it still knows.
pub(super) fn count(log: &Log) -> (u64, u64) {
    let (mut stdout, mut stderr) = (log.tail(), 0);
    for (stream, bytes) in log.chunks() {
        match stream {
            Stream::Stderr => stderr += bytes,
            _ => stdout += bytes,
        }
    }
    (stdout, stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept() {
        let mut ends = Ends::new(6);
        for piece in ["ab", "cd", "efg", "hij"] {
            ends.take(piece.as_bytes());
        }
        assert!(ends.cut);
        assert_eq!(ends.whole(), b"abchij");
        let mut small = Ends::new(6);
        small.take(b"abcdef");
        assert!(!small.cut);
        assert_eq!(small.whole(), b"abcdef");
    }
}
