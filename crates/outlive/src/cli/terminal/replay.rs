//! Old output on its way to a terminal that was not there when it was written.
//!
//! Questions in it (who are you, where is the cursor) must not be asked again: the answers would go to the
//! program as input. Bells, notifications and clipboard changes have happened. What is shown begins at a line.

use bytes::Bytes;

use outlive_core::screen::sequences::{Control, Parser, Piece};

/// Without a line end in this many bytes the replay begins in the middle of a line.
const MOST_SKIPPED: usize = 4096;

pub(crate) struct Replay {
    /// Bytes of the log that are still old.
    remaining: u64,
    parser: Parser,
    /// Bytes that may still be skipped in search of a line's beginning.
    skippable: usize,
}

impl Replay {
    /// `remaining` bytes are old; `is_cut`: there was output before them.
    pub(crate) fn new(remaining: u64, is_cut: bool) -> Self {
        let skippable = if is_cut { MOST_SKIPPED } else { 0 };
        Self { remaining, parser: Parser::default(), skippable }
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.remaining > 0
    }

    /// What to show of `bytes`.
    pub(crate) fn pass(&mut self, bytes: Bytes) -> Bytes {
        if self.remaining == 0 {
            return bytes;
        }
        let old = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len());
        self.remaining -= old as u64;
        let begin = self.skip(&bytes[..old]);
        let mut out = Vec::with_capacity(bytes.len());
        self.parser.feed(&bytes[begin..old], |piece| match piece {
            Piece::Text(text) => {
                out.extend(text.iter().filter(|byte| !matches!(byte, 0x05 | 0x07)));
            }
            Piece::Sequence(sequence) if is_to_be_dropped(sequence) => {}
            Piece::Sequence(sequence) | Piece::Part(sequence) => out.extend_from_slice(sequence),
        });
        if self.remaining == 0 {
            out.extend(self.parser.flush());
            out.extend_from_slice(&bytes[old..]);
        }
        out.into()
    }

    fn skip(&mut self, bytes: &[u8]) -> usize {
        if self.skippable == 0 {
            return 0;
        }
        let window = &bytes[..bytes.len().min(self.skippable)];
        match window.iter().position(|byte| matches!(byte, b'\n' | 0x1b)) {
            Some(found) => {
                self.skippable = 0;
                found + usize::from(window[found] == b'\n')
            }
            None if window.len() == self.skippable => {
                self.skippable = 0;
                0
            }
            None => {
                self.skippable -= window.len();
                window.len()
            }
        }
    }
}

fn is_to_be_dropped(sequence: &[u8]) -> bool {
    if let Some(control) = Control::of(sequence) {
        return match (control.private, control.intermediates, control.last) {
            // Device attributes and status, mode and setting requests, checksums.
            (_, b"", b'c' | b'n' | b'x')
            | (_, b"$", b'p' | b'w')
            | (_, b"*", b'y')
            | (b'?', b"", b'u' | b'm')
            | (b'>', b"", b'q') => true,
            (0, b"", b't') => matches!(control.first(), 11..=21),
            _ => false,
        };
    }
    match sequence {
        b"\x1bZ" => true,
        [0x1b, b']', text @ ..] => is_asking_or_done(text),
        [0x1b, b'P', text @ ..] => text.starts_with(b"$q") || text.starts_with(b"+q"),
        [0x1b, b'_', b'G', text @ ..] => text.windows(3).any(|part| part == b"a=q"),
        _ => false,
    }
}

/// OSC: a colour that is asked for; a clipboard or notification that would come a second time.
fn is_asking_or_done(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\x07").or_else(|| text.strip_suffix(b"\x1b\\")).unwrap_or(text);
    let number = text.split(|byte| *byte == b';').next().unwrap_or_default();
    text.ends_with(b";?") || matches!(number, b"52" | b"9" | b"99" | b"777")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(chunks: &[&[u8]], remaining: usize, is_cut: bool) -> Vec<u8> {
        let mut replay = Replay::new(remaining as u64, is_cut);
        chunks.iter().flat_map(|chunk| replay.pass(Bytes::copy_from_slice(chunk))).collect()
    }

    const OLD: &[u8] =
        b"a\x1b[6n\x1b[cb\x1b[1mc\x07\x1b]11;?\x07\x1b]0;t\x07\x1bP+q1\x1b\\\x1b]52;c;eA==\x1b\\\x1b[?1049$pd\x1b[18t";

    #[test]
    fn questions_are_dropped_and_the_rest_is_kept() {
        let wanted = b"ab\x1b[1mc\x1b]0;t\x07d";
        for split in 0..=OLD.len() {
            let shown = replayed(&[&OLD[..split], &OLD[split..]], OLD.len(), false);
            assert_eq!(shown, wanted, "{split}");
        }
    }

    #[test]
    fn live_output_is_passed_as_it_is() {
        let both = [OLD, b"\x07\x1b[6nlive"].concat();
        for split in 0..=both.len() {
            let shown = replayed(&[&both[..split], &both[split..]], OLD.len(), false);
            assert!(shown.ends_with(b"d\x07\x1b[6nlive"), "{split}");
        }
        // A sequence that begins in the old part and ends in the new one is passed on whole.
        assert_eq!(replayed(&[b"x\x1b[", b"6n"], 3, false), b"x\x1b[6n");
    }

    #[test]
    fn a_cut_replay_begins_at_a_line_or_a_sequence() {
        let text = b"rest of a line\nwhole\n";
        for split in 0..=text.len() {
            assert_eq!(replayed(&[&text[..split], &text[split..]], text.len(), true), b"whole\n");
        }
        assert_eq!(replayed(&[b"5;3Hx\x1b[mred"], 11, true), b"\x1b[mred");
        let long = vec![b'x'; MOST_SKIPPED + 10];
        assert_eq!(replayed(&[&long], long.len(), true).len(), long.len());
        assert_eq!(replayed(&[b"live"], 0, true), b"live");
    }
}
