//! Splits a program's output into text and escape sequences, independent of how it is cut into chunks.

/// A longer sequence is an image or clipboard contents; it is passed on in fragments.
const MAX_SEQUENCE_BYTES: usize = 4096;
const ESC: u8 = 0x1b;
/// First UTF-8 byte of the 32 C1 control characters, some of which stand for ESC and a letter.
const C1_LEAD: u8 = 0xc2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a [u8]),
    Sequence(&'a [u8]),
    /// Part of a sequence that is too long or was aborted: nothing to display.
    Fragment(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// ESC and intermediate bytes such as `(`, before the final byte.
    EscapeIntermediate,
    Csi,
    /// OSC, DCS, APC, PM, SOS: up to ESC `\`, and an OSC also up to BEL.
    String,
    /// An ESC inside of a string.
    StringEscape,
    /// A non-ASCII character inside of a sequence. It aborts the sequence, unless its bytes are no valid UTF-8.
    NonAscii,
}

/// The states in which a non-ASCII character can occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InterruptedState {
    #[default]
    Escape,
    EscapeIntermediate,
    Csi,
}

#[derive(Clone, Debug, Default)]
pub struct Parser {
    state: State,
    sequence: Vec<u8>,
    /// Start of a non-ASCII character in `sequence`, and the state that it interrupted.
    non_ascii: (usize, InterruptedState),
    /// The string is an OSC.
    is_osc: bool,
    /// The last byte was `C1_LEAD`.
    after_c1_lead: bool,
    /// Bytes of the current sequence that were already passed on as fragments.
    passed_on: u64,
}

impl Parser {
    /// Passes `bytes` on as pieces; the beginning of an unfinished sequence is held back.
    pub fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(Piece<'_>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.state == State::Ground && !self.after_c1_lead {
                let run = rest.iter().position(|byte| matches!(*byte, ESC | C1_LEAD)).unwrap_or(rest.len());
                if run > 0 {
                    out(Piece::Text(&rest[..run]));
                    rest = &rest[run..];
                    continue;
                }
            }
            if self.state == State::NonAscii && self.end_non_ascii(first, &mut out) {
                continue;
            }
            if std::mem::take(&mut self.after_c1_lead) {
                if (0x80..0xa0).contains(&first) {
                    rest = &rest[1..];
                    self.feed_c1(first, &mut out);
                } else {
                    // It was the first byte of another character.
                    self.feed_byte(C1_LEAD, &mut out);
                }
                continue;
            }
            rest = &rest[1..];
            if first == C1_LEAD && self.state != State::NonAscii {
                self.after_c1_lead = true;
            } else {
                self.feed_byte(first, &mut out);
            }
        }
    }

    fn feed_byte(&mut self, byte: u8, out: &mut impl FnMut(Piece<'_>)) {
        if self.state == State::Ground && byte != ESC {
            out(Piece::Text(&[byte]));
        } else {
            self.step(byte, out);
        }
    }

    /// Handles a C1 control character by its second byte. It ends the current sequence.
    fn feed_c1(&mut self, second: u8, out: &mut impl FnMut(Piece<'_>)) {
        match (self.state, second) {
            (State::String, 0x9c) => return self.finish(out),
            (State::StringEscape, _) => self.finish(out),
            _ => self.abort(out),
        }
        match second {
            0x90 | 0x98 | 0x9b | 0x9d..=0x9f => {
                let letter = second - 0x40;
                self.sequence = vec![ESC, letter];
                self.state = after_escape(letter).unwrap_or_default();
                self.is_osc = letter == b']';
            }
            _ => out(Piece::Text(&[C1_LEAD, second])),
        }
    }

    /// No sequence has been started.
    pub fn is_ground(&self) -> bool {
        self.state == State::Ground && !self.after_c1_lead
    }

    /// Length of the unfinished sequence so far.
    pub fn len(&self) -> u64 {
        self.passed_on + self.sequence.len() as u64 + u64::from(self.after_c1_lead)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that were pending back, and resets the parser.
    pub fn flush(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        self.passed_on = 0;
        if std::mem::take(&mut self.after_c1_lead) {
            self.sequence.push(C1_LEAD);
        }
        std::mem::take(&mut self.sequence)
    }

    fn step(&mut self, byte: u8, out: &mut impl FnMut(Piece<'_>)) {
        let next = match (self.state, byte) {
            (State::Ground, _) => Some(State::Escape),
            (State::StringEscape, b'\\') => None,
            // A new sequence before this one has ended.
            (State::Escape | State::EscapeIntermediate | State::Csi | State::StringEscape, ESC) => {
                self.abort(out);
                Some(State::Escape)
            }
            (State::String, ESC) => Some(State::StringEscape),
            (State::StringEscape, _) => {
                // The ESC also ended the string: it starts the next sequence, of which this is the second byte.
                self.sequence.pop();
                self.finish(out);
                self.sequence.push(ESC);
                after_escape(byte)
            }
            (_, 0x18 | 0x1a) => {
                self.sequence.push(byte);
                self.abort(out);
                return;
            }
            (State::Escape | State::EscapeIntermediate | State::Csi, 0x80..) => {
                let interrupted = match self.state {
                    State::Escape => InterruptedState::Escape,
                    State::EscapeIntermediate => InterruptedState::EscapeIntermediate,
                    _ => InterruptedState::Csi,
                };
                self.non_ascii = (self.sequence.len(), interrupted);
                Some(State::NonAscii)
            }
            // Executed as if it came before the sequence.
            (State::Escape | State::EscapeIntermediate, 0x00..0x20 | 0x7f) => Some(self.state),
            (State::Escape, _) => after_escape(byte),
            (State::EscapeIntermediate, 0x20..=0x2f) => Some(State::EscapeIntermediate),
            (State::EscapeIntermediate, _) | (State::Csi, 0x40..=0x7e) => None,
            (State::String, 0x07) if self.is_osc => None,
            (state, _) => Some(state),
        };
        self.sequence.push(byte);
        match next {
            None => self.finish(out),
            Some(state) => {
                if self.state == State::Escape {
                    self.is_osc = byte == b']';
                }
                self.state = state;
                // In StringEscape the last byte may have to be removed again.
                if self.sequence.len() > MAX_SEQUENCE_BYTES && state != State::StringEscape {
                    self.passed_on += self.sequence.len() as u64;
                    out(Piece::Fragment(&std::mem::take(&mut self.sequence)));
                }
            }
        }
    }

    /// Decides about a non-ASCII character once it is complete. True: `next` has to be handled again.
    fn end_non_ascii(&mut self, next: u8, out: &mut impl FnMut(Piece<'_>)) -> bool {
        let (start, interrupted) = self.non_ascii;
        let character = &self.sequence[start..];
        match std::str::from_utf8(character) {
            Ok(_) => self.abort(out),
            // It is not complete yet.
            Err(error) if error.error_len().is_none() && next & 0xc0 == 0x80 => return false,
            Err(_) => {
                // Invalid UTF-8 stays in the sequence, where it has no meaning.
                self.state = match interrupted {
                    InterruptedState::Escape => State::Escape,
                    InterruptedState::EscapeIntermediate => State::EscapeIntermediate,
                    InterruptedState::Csi => State::Csi,
                };
            }
        }
        true
    }

    fn finish(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        let is_whole = self.passed_on == 0;
        let bytes = self.flush();
        if !is_whole {
            return out(Piece::Fragment(&bytes));
        }
        let (controls, sequence) = extract_controls(bytes);
        if !controls.is_empty() {
            out(Piece::Text(&controls));
        }
        out(Piece::Sequence(&sequence));
    }

    fn abort(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        let unfinished = self.flush();
        if !unfinished.is_empty() {
            out(Piece::Fragment(&unfinished));
        }
    }
}

/// Separates the control characters inside a sequence from the sequence. Terminals execute them at once and continue
/// with the sequence, as if they came before it. Inside a string they belong to the string.
fn extract_controls(sequence: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != ESC) || *byte == 0x7f;
    let start = sequence.iter().skip(1).position(|byte| !is_control(byte)).map_or(sequence.len(), |at| at + 1);
    let is_string = sequence.get(start).is_some_and(|letter| after_escape(*letter) == Some(State::String));
    let end = if is_string { start } else { sequence.len() };
    if !sequence[..end].iter().any(is_control) {
        return (Vec::new(), sequence);
    }
    let (controls, mut clean): (Vec<u8>, Vec<u8>) = sequence[..end].iter().partition(|byte| is_control(byte));
    clean.extend_from_slice(&sequence[end..]);
    // A DEL is ignored.
    (controls.into_iter().filter(|byte| *byte != 0x7f).collect(), clean)
}

fn after_escape(byte: u8) -> Option<State> {
    match byte {
        b'[' => Some(State::Csi),
        b']' | b'P' | b'_' | b'^' | b'X' => Some(State::String),
        0x20..=0x2f => Some(State::EscapeIntermediate),
        _ => None,
    }
}

/// A parsed control sequence: `ESC [ private parameters intermediates final`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiSequence<'a> {
    /// One of `<=>?`, or 0.
    pub private: u8,
    pub parameters: &'a [u8],
    pub intermediates: &'a [u8],
    pub final_byte: u8,
}

impl<'a> CsiSequence<'a> {
    pub fn parse(sequence: &'a [u8]) -> Option<Self> {
        let (final_byte, body) = sequence.strip_prefix(b"\x1b[")?.split_last()?;
        let (private, body) = match body.split_first() {
            Some((private @ b'<'..=b'?', body)) => (*private, body),
            _ => (0, body),
        };
        let split = body.iter().position(|byte| (0x20..=0x2f).contains(byte)).unwrap_or(body.len());
        let (parameters, intermediates) = body.split_at(split);
        Some(Self { private, parameters, intermediates, final_byte: *final_byte })
    }

    /// The parameters; 0 for empty ones.
    pub fn params(&self) -> impl Iterator<Item = u16> {
        self.parameters.split(|byte| *byte == b';').map(|number| {
            let text = std::str::from_utf8(number).unwrap_or_default();
            text.parse().unwrap_or(0)
        })
    }

    pub fn first_param(&self) -> u16 {
        self.params().next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text between sequences is joined, so that the result does not depend on the chunks.
    fn pieces(chunks: &[&[u8]]) -> (Vec<(bool, Vec<u8>)>, Vec<u8>) {
        let mut parser = Parser::default();
        let mut found: Vec<(bool, Vec<u8>)> = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, |piece| match piece {
                Piece::Sequence(bytes) => found.push((true, bytes.to_vec())),
                Piece::Text(bytes) | Piece::Fragment(bytes) => match found.last_mut() {
                    Some((false, text)) => text.extend_from_slice(bytes),
                    _ => found.push((false, bytes.to_vec())),
                },
            });
        }
        let pending = parser.flush();
        (found, pending)
    }

    const SAMPLE: &[u8] = b"ab\x1b[?1049hcd\x1b]0;title\x07e\x1b]11;?\x1b\\f\x1b(B\x1bcg\x1bP+q544e\x1b\\\
        \x1b[1;2\x18h\x1b[3\x1b[mi\x1b]x\x1b[0mj\xc2\xb0\x1b[3\xc3\xa4k\x1b[3\xff1ml\x1b[5";

    #[test]
    fn complete_sequences_are_found() {
        let (found, pending) = pieces(&[SAMPLE]);
        let sequences: Vec<&[u8]> =
            found.iter().filter(|(is_sequence, _)| *is_sequence).map(|(_, bytes)| bytes.as_slice()).collect();
        let expected: [&[u8]; 10] = [
            b"\x1b[?1049h",
            b"\x1b]0;title\x07",
            b"\x1b]11;?\x1b\\",
            b"\x1b(B",
            b"\x1bc",
            b"\x1bP+q544e\x1b\\",
            b"\x1b[m",
            b"\x1b]x",
            b"\x1b[0m",
            b"\x1b[3\xff1m",
        ];
        assert_eq!(sequences, expected);
        assert_eq!(pending, b"\x1b[5");
    }

    // Regression: an embedded control character hid the kind of its sequence.
    #[test]
    fn an_embedded_control_character_comes_before_its_sequence() {
        let found = |bytes: &[u8]| pieces(&[bytes]).0;
        let as_before = |controls: &[u8], sequence: &[u8]| vec![(false, controls.to_vec()), (true, sequence.to_vec())];
        assert_eq!(found(b"\x1b\x07[2J"), as_before(b"\x07", b"\x1b[2J"));
        assert_eq!(found(b"\x1b[\r1\n;2\x7fH"), as_before(b"\r\n", b"\x1b[1;2H"));
        assert_eq!(found(b"\x1b\n(\r0"), as_before(b"\n\r", b"\x1b(0"));
        assert_eq!(found(b"\x1b\x07]2;T\x07"), as_before(b"\x07", b"\x1b]2;T\x07"));
        assert_eq!(found(b"\x1b]2;a\tb\x1b\\"), vec![(true, b"\x1b]2;a\tb\x1b\\".to_vec())]);
    }

    #[test]
    fn the_result_does_not_depend_on_how_the_input_is_split() {
        let whole = pieces(&[SAMPLE]);
        for first in 0..=SAMPLE.len() {
            for second in first..=SAMPLE.len() {
                let parts = [&SAMPLE[..first], &SAMPLE[first..second], &SAMPLE[second..]];
                let (found, pending) = pieces(&parts);
                assert_eq!((&found, &pending), (&whole.0, &whole.1), "{first} {second}");
            }
        }
        let mut all: Vec<u8> = whole.0.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        all.extend_from_slice(&whole.1);
        assert_eq!(all, SAMPLE);
    }

    #[test]
    fn c1_control_characters_stand_for_escape_sequences() {
        let (found, pending) = pieces(&[b"a\xc2", b"\x9b1m\xc2\x9d2;t\xc2\x9cb\xc2\x85\x1b[3\xc2\x801m\xc2"]);
        let sequences: Vec<&[u8]> =
            found.iter().filter(|(is_sequence, _)| *is_sequence).map(|(_, bytes)| bytes.as_slice()).collect();
        assert_eq!(sequences, [b"\x1b[1m".as_slice(), b"\x1b]2;t"]);
        assert_eq!(found.last(), Some(&(false, b"b\xc2\x85\x1b[3\xc2\x801m".to_vec())));
        assert_eq!(pending, b"\xc2");
    }

    #[test]
    fn an_endless_sequence_is_not_buffered() {
        let mut parser = Parser::default();
        let mut count = 0;
        parser.feed(b"\x1bP", |_| count += 1);
        for _ in 0..1000 {
            parser.feed(&[b'x'; 100], |piece| {
                assert!(matches!(piece, Piece::Fragment(_)));
                count += 1;
            });
            assert!(parser.sequence.len() <= MAX_SEQUENCE_BYTES);
        }
        parser.feed(b"\x1b\\\x1b[m", |piece| {
            assert!(!matches!(piece, Piece::Sequence(s) if s != b"\x1b[m"));
        });
        assert!(count > 20);
    }

    #[test]
    fn a_control_sequence_is_parsed_into_its_parts() {
        let csi = CsiSequence::parse(b"\x1b[?12;;2004$p").unwrap();
        assert_eq!((csi.private, csi.intermediates, csi.final_byte), (b'?', b"$".as_slice(), b'p'));
        assert_eq!(csi.params().collect::<Vec<_>>(), [12, 0, 2004]);
        assert_eq!(CsiSequence::parse(b"\x1b[m").unwrap().first_param(), 0);
        assert_eq!(CsiSequence::parse(b"\x1b]0;x\x07"), None);
    }
}
