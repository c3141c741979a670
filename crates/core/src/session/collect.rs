//! What a command printed, as one answer: the head and the tail of each stream.

use std::sync::Arc;

use outlive_holder::log::Stream;

use super::exec::Exec;
use crate::log::{Cursor, Ends, Flow, Item, Log, Start, StreamFilter};

/// Bytes per read.
const READ_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Collected {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Something in the middle (or, if its log is gone, at the beginning) is missing.
    pub truncated: bool,
}

impl Collected {
    fn of(stdout: Ends, stderr: Ends, gone: bool) -> Self {
        let truncated = gone || stdout.left_out() + stderr.left_out() > 0;
        Self { stdout: stdout.whole(), stderr: stderr.whole(), truncated }
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
        Collected::of(stdout, stderr, gone)
    }

    /// What there is now, late output included.
    pub fn so_far(&self, most: usize) -> Collected {
        let Some(log) = self.sink().and_then(|sink| sink.log().ok()) else {
            return Collected { truncated: self.sink().is_some(), ..Collected::default() };
        };
        let (mut stdout, mut stderr, mut gone) = (Ends::new(most), Ends::new(most), false);
        let mut cursor = Cursor::new(log, Start::At(0), Flow::Live, StreamFilter::All);
        while take(&mut cursor, &mut stdout, &mut stderr, &mut gone) {}
        Collected::of(stdout, stderr, gone)
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
