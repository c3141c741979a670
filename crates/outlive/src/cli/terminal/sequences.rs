//! Finds escape sequences in a program's output, however it is cut into chunks.

/// A sequence longer than this is a picture or a clipboard; it is passed on in parts, as text.
const LONGEST: usize = 4096;
const ESC: u8 = 0x1b;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Everything that is not a whole sequence, broken-off ones included.
    Text(&'a [u8]),
    Sequence(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// ESC and characters like `(`, waiting for the last one.
    Short,
    Control,
    /// OSC, DCS, APC, PM, SOS: up to BEL or ESC `\`.
    Text,
    TextEscape,
}

#[derive(Default)]
pub(crate) struct Parser {
    state: State,
    sequence: Vec<u8>,
    too_long: bool,
}

impl Parser {
    /// Gives `bytes` out again as pieces; the beginning of an unfinished sequence is kept back.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(Piece<'_>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.state == State::Ground {
                let run = rest.iter().position(|byte| *byte == ESC).unwrap_or(rest.len());
                if run > 0 {
                    out(Piece::Text(&rest[..run]));
                    rest = &rest[run..];
                    continue;
                }
            }
            self.step(first, &mut out);
            rest = &rest[1..];
        }
    }

    /// No sequence has been begun.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.state == State::Ground
    }

    /// What was kept back.
    pub(crate) fn flush(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        self.too_long = false;
        std::mem::take(&mut self.sequence)
    }

    fn step(&mut self, byte: u8, out: &mut impl FnMut(Piece<'_>)) {
        let next = match (self.state, byte) {
            (State::Ground, _) => Some(State::Escape),
            (State::TextEscape, b'\\') => None,
            // A new sequence before this one has ended.
            (State::Escape | State::Short | State::Control | State::TextEscape, ESC) => {
                self.give_up(out);
                Some(State::Escape)
            }
            (State::Text, ESC) => Some(State::TextEscape),
            (State::TextEscape, _) => {
                // The ESC was the beginning of the next sequence, whose second byte this is.
                self.sequence.pop();
                self.give_up(out);
                self.sequence.push(ESC);
                after_escape(byte)
            }
            (_, 0x18 | 0x1a) => {
                self.sequence.push(byte);
                self.give_up(out);
                return;
            }
            (State::Escape, _) => after_escape(byte),
            (State::Short, 0x20..=0x2f) => Some(State::Short),
            (State::Short, _) | (State::Control, 0x40..=0x7e) | (State::Text, 0x07) => None,
            (state, _) => Some(state),
        };
        self.sequence.push(byte);
        match next {
            None => {
                let whole = std::mem::take(&mut self.sequence);
                let cut = std::mem::take(&mut self.too_long);
                out(if cut { Piece::Text(&whole) } else { Piece::Sequence(&whole) });
                self.state = State::Ground;
            }
            Some(state) => {
                self.state = state;
                // In TextEscape the last byte may have to be taken back.
                if self.sequence.len() > LONGEST && state != State::TextEscape {
                    self.too_long = true;
                    out(Piece::Text(&std::mem::take(&mut self.sequence)));
                }
            }
        }
    }

    fn give_up(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        let begun = self.flush();
        if !begun.is_empty() {
            out(Piece::Text(&begun));
        }
    }
}

fn after_escape(byte: u8) -> Option<State> {
    match byte {
        b'[' => Some(State::Control),
        b']' | b'P' | b'_' | b'^' | b'X' => Some(State::Text),
        0x20..=0x2f => Some(State::Short),
        _ => None,
    }
}

/// The parts of a control sequence: `ESC [ private parameters intermediates final`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control<'a> {
    /// One of `<=>?`, or 0.
    pub(crate) private: u8,
    pub(crate) parameters: &'a [u8],
    pub(crate) intermediates: &'a [u8],
    pub(crate) last: u8,
}

impl<'a> Control<'a> {
    pub(crate) fn of(sequence: &'a [u8]) -> Option<Self> {
        let (last, body) = sequence.strip_prefix(b"\x1b[")?.split_last()?;
        let (private, body) = match body.split_first() {
            Some((private @ b'<'..=b'?', body)) => (*private, body),
            _ => (0, body),
        };
        let split = body.iter().position(|byte| (0x20..=0x2f).contains(byte)).unwrap_or(body.len());
        let (parameters, intermediates) = body.split_at(split);
        Some(Self { private, parameters, intermediates, last: *last })
    }

    /// The numbers; 0 for those left out.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u16> {
        self.parameters.split(|byte| *byte == b';').map(|number| {
            let text = std::str::from_utf8(number).unwrap_or_default();
            text.parse().unwrap_or(0)
        })
    }

    pub(crate) fn first(&self) -> u16 {
        self.numbers().next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text joined between sequences, so that the result does not depend on chunks.
    fn pieces(chunks: &[&[u8]]) -> (Vec<(bool, Vec<u8>)>, Vec<u8>) {
        let mut parser = Parser::default();
        let mut found: Vec<(bool, Vec<u8>)> = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, |piece| match piece {
                Piece::Sequence(bytes) => found.push((true, bytes.to_vec())),
                Piece::Text(bytes) => match found.last_mut() {
                    Some((false, text)) => text.extend_from_slice(bytes),
                    _ => found.push((false, bytes.to_vec())),
                },
            });
        }
        let held = parser.flush();
        (found, held)
    }

    const SAMPLE: &[u8] = b"ab\x1b[?1049hcd\x1b]0;title\x07e\x1b]11;?\x1b\\f\x1b(B\x1bcg\x1bP+q544e\x1b\\\
        \x1b[1;2\x18h\x1b[3\x1b[mi\x1b]x\x1b[0mj\x1b[5";

    #[test]
    fn sequences_are_found_whole() {
        let (found, held) = pieces(&[SAMPLE]);
        let sequences: Vec<&[u8]> = found.iter().filter(|(is, _)| *is).map(|(_, bytes)| bytes.as_slice()).collect();
        let wanted: [&[u8]; 8] = [
            b"\x1b[?1049h",
            b"\x1b]0;title\x07",
            b"\x1b]11;?\x1b\\",
            b"\x1b(B",
            b"\x1bc",
            b"\x1bP+q544e\x1b\\",
            b"\x1b[m",
            b"\x1b[0m",
        ];
        assert_eq!(sequences, wanted);
        assert_eq!(held, b"\x1b[5");
    }

    #[test]
    fn any_split_gives_the_same_and_loses_nothing() {
        let whole = pieces(&[SAMPLE]);
        for first in 0..=SAMPLE.len() {
            for second in first..=SAMPLE.len() {
                let parts = [&SAMPLE[..first], &SAMPLE[first..second], &SAMPLE[second..]];
                let (found, held) = pieces(&parts);
                assert_eq!((&found, &held), (&whole.0, &whole.1), "{first} {second}");
            }
        }
        let mut all: Vec<u8> = whole.0.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        all.extend_from_slice(&whole.1);
        assert_eq!(all, SAMPLE);
    }

    #[test]
    fn endless_sequences_are_not_kept() {
        let mut parser = Parser::default();
        let mut count = 0;
        parser.feed(b"\x1bP", |_| count += 1);
        for _ in 0..1000 {
            parser.feed(&[b'x'; 100], |piece| {
                assert!(matches!(piece, Piece::Text(_)));
                count += 1;
            });
            assert!(parser.sequence.len() <= LONGEST);
        }
        parser.feed(b"\x1b\\\x1b[m", |piece| {
            assert!(!matches!(piece, Piece::Sequence(s) if s != b"\x1b[m"));
        });
        assert!(count > 20);
    }

    #[test]
    fn control_parts() {
        let control = Control::of(b"\x1b[?12;;2004$p").unwrap();
        assert_eq!((control.private, control.intermediates, control.last), (b'?', b"$".as_slice(), b'p'));
        assert_eq!(control.numbers().collect::<Vec<_>>(), [12, 0, 2004]);
        assert_eq!(Control::of(b"\x1b[m").unwrap().first(), 0);
        assert_eq!(Control::of(b"\x1b]0;x\x07"), None);
    }
}
