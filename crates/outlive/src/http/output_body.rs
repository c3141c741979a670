//! The recorded bytes of a process as the body of a response.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::{Stream, stream};
use outlive_core::log::{Cursor, Item};
use outlive_core::process::Process;

use super::AppState;

/// Bytes per piece of the body.
const PIECE_BYTES: usize = 256 * 1024;

/// The output from the cursor's position to the offset `until`. With `u64::MAX` the body follows the output to the exit
/// of the process.
pub(crate) fn output_body(app: AppState, process: Arc<Process>, cursor: Cursor, until: u64) -> Body {
    Body::from_stream(pieces(OutputReader { app, process, cursor, until }))
}

struct OutputReader {
    app: AppState,
    process: Arc<Process>,
    cursor: Cursor,
    until: u64,
}

fn pieces(reader: OutputReader) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(reader))),
            Ok(None) => {
                reader.cursor.close();
                None
            }
            // An aborted body cannot be mistaken for a complete one.
            Err(reason) => Some((Err(io::Error::other(reason)), None)),
        }
    })
}

impl OutputReader {
    /// The next piece, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, &'static str> {
        loop {
            let left = self.until.saturating_sub(self.cursor.offset());
            if left == 0 {
                return Ok(None);
            }
            if self.until == u64::MAX && *self.app.shutdown.borrow() {
                return Err("the server is being replaced");
            }
            let max = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
            let item = match self.cursor.try_next(max) {
                Some(item) => item,
                // The cursor skipped bytes of other streams up to the end.
                None if self.cursor.offset() >= self.until => continue,
                None => tokio::select! {
                    item = self.cursor.next(max) => item,
                    () = self.app.until_shutdown() => return Err("the server is being replaced"),
                },
            };
            match item {
                Item::Bytes { offset, mut bytes, .. } => {
                    // Skipped bytes may have moved the cursor beyond the end.
                    bytes.truncate(usize::try_from(self.until.saturating_sub(offset)).unwrap_or(usize::MAX));
                    if !bytes.is_empty() {
                        return Ok(Some(bytes));
                    }
                }
                Item::Gap { .. } => return Err("output in between is missing"),
                Item::BecameLive => {}
                Item::End => return Ok(None),
                Item::Exit(_) => {
                    self.process.sync_exit_from_log();
                    // Output of children after the exit that is already in the log belongs to the body.
                    self.until = self.until.min(self.cursor.log().head());
                }
            }
        }
    }
}
