//! What the shell says about itself: frames in the stdout of its log.
//!
//! ```text
//! R nonce                               the shell is ready
//! D nonce status                        line 1 ran to its end: the command's status
//! I nonce status options folder nonce   line 2 ran: the shell is idle again
//! Q nonce                               answer to a probe: everything sent before it has been dealt with
//! ```
//!
//! `D` and `I`: the command finished. Only `I`: it was aborted. Neither, and the shell's exit: it ended the shell.
//! A nonce cannot be guessed, so nothing that a command prints can pass for a frame, wherever it prints it.

use std::sync::Arc;

use outlive_holder::log::{Exit, Stream};

use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

/// Nobody else writes here, so more than this is somebody's mischief; the newest counts.
const MAX_BUFFER_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// Reads frames from an offset on.
pub(super) struct Frames {
    cursor: Cursor,
    bytes: Vec<u8>,
}

/// The shell is idle again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) status: u8,
    /// `$-`
    pub(super) options: String,
    /// `$PWD`, as bytes.
    pub(super) folder: Vec<u8>,
}

impl Frames {
    pub(super) fn from(log: Arc<Log>, offset: u64) -> Self {
        let cursor = Cursor::new(log, Start::At(offset), Flow::Live, StreamFilter::Only(Stream::Stdout));
        Self { cursor, bytes: Vec::new() }
    }

    /// Waits for more of them; an error is the end of the shell, after its last frame.
    pub(super) async fn more(&mut self) -> Result<(), Exit> {
        match self.cursor.next(READ_BYTES).await {
            Item::Bytes { bytes, .. } => {
                self.bytes.extend_from_slice(&bytes);
                let surplus = self.bytes.len().saturating_sub(MAX_BUFFER_BYTES);
                self.bytes.drain(..surplus);
                Ok(())
            }
            Item::Gap { .. } | Item::BecameLive => Ok(()),
            Item::Exit(exit) => Err(exit),
        }
    }

    pub(super) fn is_ready(&self, nonce: &str) -> bool {
        find(&self.bytes, &format!("R {nonce}\n")).is_some()
    }

    pub(super) fn is_probed(&self, nonce: &str) -> bool {
        find(&self.bytes, &format!("Q {nonce}\n")).is_some()
    }

    pub(super) fn done(&self, nonce: &str) -> Option<u8> {
        done(&self.bytes, nonce)
    }

    pub(super) fn idle(&self, nonce: &str) -> Option<Idle> {
        idle(&self.bytes, nonce)
    }
}

fn done(bytes: &[u8], nonce: &str) -> Option<u8> {
    let rest = find(bytes, &format!("D {nonce} "))?;
    number(until(rest, b"\n")?)
}

fn idle(bytes: &[u8], nonce: &str) -> Option<Idle> {
    let rest = find(bytes, &format!("I {nonce} "))?;
    let whole = until(rest, format!(" {nonce}\n").as_bytes())?;
    let mut parts = whole.splitn(3, |byte| *byte == b' ');
    let status = number(parts.next()?)?;
    let options = String::from_utf8_lossy(parts.next()?).into_owned();
    Some(Idle { status, options, folder: parts.next()?.to_vec() })
}

/// What follows the last `mark`.
fn find<'a>(bytes: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let at = bytes.windows(mark.len()).rposition(|window| window == mark.as_bytes())?;
    bytes.get(at + mark.len()..)
}

fn until<'a>(bytes: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    bytes.windows(end.len()).position(|window| window == end).and_then(|at| bytes.get(..at))
}

fn number(text: &[u8]) -> Option<u8> {
    let value: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    // zsh counts signals and `return 300` without a limit; a process could not.
    Some((value & 0xff) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: &str = "0123456789abcdef";

    #[test]
    fn frames_are_found_among_anything() {
        let text = format!("$ \nR {NONCE}\njunk D {NONCE} 3\nI {NONCE} 0 himB /a b\nc {NONCE}\n");
        let bytes = text.as_bytes();
        assert_eq!(done(bytes, NONCE), Some(3));
        let expected = Idle { status: 0, options: "himB".into(), folder: b"/a b\nc".to_vec() };
        assert_eq!(idle(bytes, NONCE), Some(expected));
        assert_eq!(done(bytes, "another"), None);
        for cut in 0..bytes.len() {
            // Cut off anywhere, it is at most not there yet.
            let found = idle(&bytes[..cut], NONCE);
            assert_eq!(found, None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_frames(bytes in proptest::collection::vec(any::<u8>(), 0..400), split in 0usize..400) {
            prop_assert_eq!(done(&bytes, NONCE), None);
            prop_assert_eq!(idle(&bytes, NONCE), None);
            // Nor do they hide one.
            let mut mixed = bytes.clone();
            let at = split.min(mixed.len());
            mixed.splice(at..at, format!("D {NONCE} 7\nI {NONCE} 7 hi / {NONCE}\n").into_bytes());
            prop_assert_eq!(done(&mixed, NONCE), Some(7));
            prop_assert_eq!(idle(&mixed, NONCE).map(|idle| idle.status), Some(7));
        }
    }
}
