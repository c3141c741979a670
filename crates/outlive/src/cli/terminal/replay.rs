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
    /// Parts of the sequence that they belong to are shown.
    is_passing: bool,
}

impl Replay {
    /// `remaining` bytes are old; `is_cut`: there was output before them.
    pub(crate) fn new(remaining: u64, is_cut: bool) -> Self {
        let skippable = if is_cut { MOST_SKIPPED } else { 0 };
        Self { remaining, parser: Parser::default(), skippable, is_passing: true }
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
            Piece::Sequence(sequence) if !is_shown_again(sequence) => {}
            Piece::Sequence(sequence) => out.extend_from_slice(sequence),
            Piece::Part(part) => {
                // The rest of a long sequence goes the way of its beginning.
                if part.starts_with(b"\x1b") && part != b"\x1b\\" {
                    self.is_passing = is_shown_again(part);
                }
                if self.is_passing {
                    out.extend_from_slice(part);
                }
            }
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

/// What of the past may be printed again: what draws, and what says how things are to be drawn and keys to be told. Nothing that a
/// terminal would answer, and nothing that reaches beyond its window. Of a long sequence, the beginning is looked at.
fn is_shown_again(sequence: &[u8]) -> bool {
    if let Some(control) = Control::of(sequence) {
        return is_drawing(&control);
    }
    match sequence {
        b"\x1bZ" | [0x1b, b'_' | b'^' | b'X', ..] => false,
        [0x1b, b']', text @ ..] => is_command_shown_again(text),
        // Pictures.
        [0x1b, b'P', text @ ..] => {
            text.iter().find(|byte| !matches!(byte, b'0'..=b'9' | b';')).is_some_and(|kind| *kind == b'q')
        }
        _ => true,
    }
}

fn is_drawing(control: &Control<'_>) -> bool {
    /// Each makes a terminal tell something by itself whenever it changes: its size, its colours.
    const TELLING: [u16; 2] = [2031, 2048];
    match (control.private, control.intermediates, control.last) {
        // The title is put aside and taken back.
        (0, b"", b't') => matches!(control.first(), 22 | 23),
        (b'?', b"", b'h' | b'l' | b'r' | b's') => !control.numbers().any(|mode| TELLING.contains(&mode)),
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

/// OSC: titles, folders, links, marks of prompts, and colours unless they are asked for. A clipboard or a notification would come a
/// second time.
fn is_command_shown_again(text: &[u8]) -> bool {
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
    fn what_was_hidden_or_long_was_asked_and_done_again() {
        let long = [b"\x1b]52;c;".to_vec(), vec![b'A'; 9000], b"\x07".to_vec()].concat();
        let refused: [&[u8]; 14] = [
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
        for question in refused {
            let shown = replayed(&[b"a", question, b"b"], question.len() + 2, false);
            let shown: Vec<u8> = shown.into_iter().filter(|byte| *byte != b'\r').collect();
            assert_eq!(shown, b"ab", "{}", question.escape_ascii());
        }
        let picture = [b"\x1bP0;1q".to_vec(), vec![b'?'; 9000], b"\x1b\\".to_vec()].concat();
        let kept: [&[u8]; 6] =
            [b"\x1b[38;5;1m", b"\x1b[?1049h", b"\x1b]8;;http://a\x1b\\", b"\x1b]4;1;red\x07", b"\x1b(0", &picture];
        for sequence in kept {
            assert_eq!(replayed(&[sequence], sequence.len(), false), sequence, "{}", sequence.escape_ascii());
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
