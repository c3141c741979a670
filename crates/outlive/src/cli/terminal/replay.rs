//! Filters recorded terminal output before it is printed to another terminal.
//!
//! Queries (device attributes, cursor position) are dropped: the terminal's replies would go to the program as input.
//! Bells, notifications and clipboard changes are dropped too. The printed part starts at the beginning of a line.

use bytes::Bytes;

use outlive_core::screen::sequences::{CsiSequence, Parser, Piece};

/// If there is no newline in this many bytes, the output starts in the middle of a line.
const MAX_SKIPPED_BYTES: usize = 4096;

pub(crate) struct ReplayFilter {
    /// Bytes that are still to be filtered.
    remaining: u64,
    parser: Parser,
    /// Bytes that may still be skipped in search of the start of a line.
    skippable: usize,
    /// The current long sequence is printed.
    prints_sequence: bool,
}

impl ReplayFilter {
    /// Filters the next `remaining` bytes. `is_cut`: there is earlier output that is not printed.
    pub(crate) fn new(remaining: u64, is_cut: bool) -> Self {
        let skippable = if is_cut { MAX_SKIPPED_BYTES } else { 0 };
        Self { remaining, parser: Parser::default(), skippable, prints_sequence: true }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.remaining > 0
    }

    /// Returns the part of `bytes` to print.
    pub(crate) fn filter(&mut self, bytes: Bytes) -> Bytes {
        if self.remaining == 0 {
            return bytes;
        }
        let recorded = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len());
        self.remaining -= recorded as u64;
        let start = self.skip_to_line(&bytes[..recorded]);
        let mut out = Vec::with_capacity(bytes.len());
        self.parser.feed(&bytes[start..recorded], |piece| match piece {
            Piece::Text(text) => {
                out.extend(text.iter().filter(|byte| !matches!(byte, 0x05 | 0x07)));
            }
            Piece::Sequence(sequence) if !is_replayable(sequence) => {}
            Piece::Sequence(sequence) => out.extend_from_slice(sequence),
            Piece::Fragment(part) => {
                // A long sequence arrives in parts; the first part decides.
                if part.starts_with(b"\x1b") && part != b"\x1b\\" {
                    self.prints_sequence = is_replayable(part);
                }
                if self.prints_sequence {
                    out.extend_from_slice(part);
                }
            }
        });
        if self.remaining == 0 {
            out.extend(self.parser.flush());
            out.extend_from_slice(&bytes[recorded..]);
        }
        out.into()
    }

    fn skip_to_line(&mut self, bytes: &[u8]) -> usize {
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

/// Allows sequences that draw, or that set drawing or keyboard modes. Rejects those that a terminal replies to, or that
/// have effects outside its window. The first part of a long sequence is enough.
fn is_replayable(sequence: &[u8]) -> bool {
    if let Some(control) = CsiSequence::parse(sequence) {
        return is_drawing(&control);
    }
    match sequence {
        b"\x1bZ" | [0x1b, b'_' | b'^' | b'X', ..] => false,
        [0x1b, b']', text @ ..] => is_replayable_osc(text),
        // Sixel images.
        [0x1b, b'P', text @ ..] => {
            text.iter().find(|byte| !matches!(byte, b'0'..=b'9' | b';')).is_some_and(|kind| *kind == b'q')
        }
        _ => true,
    }
}

fn is_drawing(control: &CsiSequence<'_>) -> bool {
    /// Modes in which a terminal reports changes of its size or colours.
    const REPORTING_MODES: [u16; 2] = [2031, 2048];
    match (control.private, control.intermediates, control.final_byte) {
        // Saves and restores the title.
        (0, b"", b't') => matches!(control.first_param(), 22 | 23),
        (b'?', b"", b'h' | b'l' | b'r' | b's') => !control.params().any(|mode| REPORTING_MODES.contains(&mode)),
        (
            0,
            b"",
            b'@'..=b'M'
            | b'P'
            | b'S'
            | b'T'
            | b'X'
            | b'Z'
            | b'`'..=b'b'
            | b'd'..=b'h'
            | b'l'..=b'm'
            | b'r'..=b's'
            | b'u',
        )
        | (0, b" ", b'@' | b'A' | b'q')
        | (0, b"!", b'p')
        | (0, b"\"", b'q')
        | (0, b"'", b'}' | b'~')
        | (0, b"$", b'r' | b't' | b'v' | b'x' | b'z' | b'{')
        | (0, b"*", b'x')
        | (b'?', b"", b'J' | b'K')
        | (b'>', b"", b'm' | b'u')
        | (b'<' | b'=', b"", b'u') => true,
        _ => false,
    }
}

/// Allows OSC sequences for titles, directories, links, prompt marks and colours. Rejects queries, and also clipboard
/// changes and notifications, which would happen a second time.
fn is_replayable_osc(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\x07").or_else(|| text.strip_suffix(b"\x1b\\")).unwrap_or(text);
    let mut fields = text.split(|byte| *byte == b';');
    let number = fields.next().and_then(|number| std::str::from_utf8(number).ok()?.parse::<u16>().ok());
    let is_harmless = matches!(number, Some(0..=2 | 4 | 5 | 7 | 8 | 10..=19 | 104 | 105 | 110..=119 | 133));
    is_harmless && fields.all(|field| field != b"?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(chunks: &[&[u8]], remaining: usize, is_cut: bool) -> Vec<u8> {
        let mut replay = ReplayFilter::new(remaining as u64, is_cut);
        chunks.iter().flat_map(|chunk| replay.filter(Bytes::copy_from_slice(chunk))).collect()
    }

    const OLD: &[u8] =
        b"a\x1b[6n\x1b[cb\x1b[1mc\x07\x1b]11;?\x07\x1b]0;t\x07\x1bP+q1\x1b\\\x1b]52;c;eA==\x1b\\\x1b[?1049$pd\x1b[18t";

    #[test]
    fn queries_are_dropped_and_the_rest_is_kept() {
        let expected = b"ab\x1b[1mc\x1b]0;t\x07d";
        for split in 0..=OLD.len() {
            let shown = replayed(&[&OLD[..split], &OLD[split..]], OLD.len(), false);
            assert_eq!(shown, expected, "{split}");
        }
    }

    // Regression: obfuscated and long sequences passed the filter.
    #[test]
    fn obfuscated_and_long_sequences_are_filtered() {
        let long = [b"\x1b]52;c;".to_vec(), vec![b'A'; 9000], b"\x07".to_vec()].concat();
        let dropped: [&[u8]; 14] = [
            b"\x1b\x07[6n",
            b"\x1b[\r6n",
            b"\x1b]052;c;eA==\x07",
            &long,
            b"\x1b]21;foreground=?\x07",
            b"\x1b]1337;CopyToClipboard=x\x07",
            b"\x1b]60\x07",
            b"\x1b]4;1;?\x1b\\",
            b"\x1b[?1;1;1S",
            b"\x1b[5i",
            b"\x1b[1\"v",
            b"\x1b[?2048h",
            b"\x1b[8;1;1t",
            b"\x1b_Ga=t,f=24;AAAA\x1b\\",
        ];
        for sequence in dropped {
            let shown = replayed(&[b"a", sequence, b"b"], sequence.len() + 2, false);
            let shown: Vec<u8> = shown.into_iter().filter(|byte| *byte != b'\r').collect();
            assert_eq!(shown, b"ab", "{}", sequence.escape_ascii());
        }
        let image = [b"\x1bP0;1q".to_vec(), vec![b'?'; 9000], b"\x1b\\".to_vec()].concat();
        let kept: [&[u8]; 6] =
            [b"\x1b[38;5;1m", b"\x1b[?1049h", b"\x1b]8;;http://a\x1b\\", b"\x1b]4;1;red\x07", b"\x1b(0", &image];
        for sequence in kept {
            assert_eq!(replayed(&[sequence], sequence.len(), false), sequence, "{}", sequence.escape_ascii());
        }
    }

    #[test]
    fn live_output_is_not_changed() {
        let both = [OLD, b"\x07\x1b[6nlive"].concat();
        for split in 0..=both.len() {
            let shown = replayed(&[&both[..split], &both[split..]], OLD.len(), false);
            assert!(shown.ends_with(b"d\x07\x1b[6nlive"), "{split}");
        }
        // A sequence across the boundary is printed whole.
        assert_eq!(replayed(&[b"x\x1b[", b"6n"], 3, false), b"x\x1b[6n");
    }

    #[test]
    fn a_cut_replay_starts_at_a_line_or_a_sequence() {
        let text = b"rest of a line\nwhole\n";
        for split in 0..=text.len() {
            assert_eq!(replayed(&[&text[..split], &text[split..]], text.len(), true), b"whole\n");
        }
        assert_eq!(replayed(&[b"5;3Hx\x1b[mred"], 11, true), b"\x1b[mred");
        let long = vec![b'x'; MAX_SKIPPED_BYTES + 10];
        assert_eq!(replayed(&[&long], long.len(), true).len(), long.len());
        assert_eq!(replayed(&[b"live"], 0, true), b"live");
    }
}
