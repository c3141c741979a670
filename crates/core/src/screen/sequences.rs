//! Finds escape sequences in a program's output, however it is cut into chunks.

/// A sequence longer than this is a picture or a clipboard; it is passed on in parts.
const LONGEST: usize = 4096;
const ESC: u8 = 0x1b;
/// With it begin the 32 control characters beyond ASCII, some of which stand for ESC and a letter.
const HIGH: u8 = 0xc2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a [u8]),
    Sequence(&'a [u8]),
    /// Of a sequence that is too long, or was broken off: nothing to be shown.
    Part(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// ESC and characters like `(`, waiting for the last one.
    Short,
    Control,
    /// OSC, DCS, APC, PM, SOS: up to ESC `\`, and an OSC also up to BEL.
    Text,
    TextEscape,
    /// A character that has no place in a sequence, and that ends it; unless it turns out to be none.
    Foreign,
}

/// The states that a foreign character can come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Escape,
    Short,
    Control,
}

#[derive(Clone, Debug, Default)]
pub struct Parser {
    state: State,
    sequence: Vec<u8>,
    /// Of a foreign character: where it begins, and what was before it.
    foreign: (usize, Before),
    /// Of a text: it is an OSC.
    is_command: bool,
    /// The last byte was `HIGH`.
    is_high: bool,
    /// So much of a sequence that is too long has been passed on.
    passed_on: u64,
}

impl Parser {
    /// Gives `bytes` out again as pieces; the beginning of an unfinished sequence is kept back.
    pub fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(Piece<'_>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.state == State::Ground && !self.is_high {
                let run = rest.iter().position(|byte| matches!(*byte, ESC | HIGH)).unwrap_or(rest.len());
                if run > 0 {
                    out(Piece::Text(&rest[..run]));
                    rest = &rest[run..];
                    continue;
                }
            }
            if self.state == State::Foreign && self.end_foreign(first, &mut out) {
                continue;
            }
            if std::mem::take(&mut self.is_high) {
                if (0x80..0xa0).contains(&first) {
                    rest = &rest[1..];
                    self.high(first, &mut out);
                } else {
                    // The first byte of another character.
                    self.ordinary(HIGH, &mut out);
                }
                continue;
            }
            rest = &rest[1..];
            if first == HIGH && self.state != State::Foreign {
                self.is_high = true;
            } else {
                self.ordinary(first, &mut out);
            }
        }
    }

    fn ordinary(&mut self, byte: u8, out: &mut impl FnMut(Piece<'_>)) {
        if self.state == State::Ground && byte != ESC {
            out(Piece::Text(&[byte]));
        } else {
            self.step(byte, out);
        }
    }

    /// A control character of two bytes, the second of which this is. It ends whatever was begun.
    fn high(&mut self, second: u8, out: &mut impl FnMut(Piece<'_>)) {
        match (self.state, second) {
            (State::Text, 0x9c) => return self.end(out),
            (State::TextEscape, _) => self.end(out),
            _ => self.give_up(out),
        }
        match second {
            0x90 | 0x98 | 0x9b | 0x9d..=0x9f => {
                let letter = second - 0x40;
                self.sequence = vec![ESC, letter];
                self.state = after_escape(letter).unwrap_or_default();
                self.is_command = letter == b']';
            }
            _ => out(Piece::Text(&[HIGH, second])),
        }
    }

    /// No sequence has been begun.
    pub fn is_at_rest(&self) -> bool {
        self.state == State::Ground && !self.is_high
    }

    /// The bytes since the beginning of a sequence that has not ended.
    pub fn len(&self) -> u64 {
        self.passed_on + self.sequence.len() as u64 + u64::from(self.is_high)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was kept back.
    pub fn flush(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        self.passed_on = 0;
        if std::mem::take(&mut self.is_high) {
            self.sequence.push(HIGH);
        }
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
                // The ESC was the beginning of the next sequence, whose second byte this is; it ends this one all the same.
                self.sequence.pop();
                self.end(out);
                self.sequence.push(ESC);
                after_escape(byte)
            }
            (_, 0x18 | 0x1a) => {
                self.sequence.push(byte);
                self.give_up(out);
                return;
            }
            (State::Escape | State::Short | State::Control, 0x80..) => {
                let before = match self.state {
                    State::Escape => Before::Escape,
                    State::Short => Before::Short,
                    _ => Before::Control,
                };
                self.foreign = (self.sequence.len(), before);
                Some(State::Foreign)
            }
            // Obeyed as if it came before the sequence.
            (State::Escape | State::Short, 0x00..0x20 | 0x7f) => Some(self.state),
            (State::Escape, _) => after_escape(byte),
            (State::Short, 0x20..=0x2f) => Some(State::Short),
            (State::Short, _) | (State::Control, 0x40..=0x7e) => None,
            (State::Text, 0x07) if self.is_command => None,
            (state, _) => Some(state),
        };
        self.sequence.push(byte);
        match next {
            None => self.end(out),
            Some(state) => {
                if self.state == State::Escape {
                    self.is_command = byte == b']';
                }
                self.state = state;
                // In TextEscape the last byte may have to be taken back.
                if self.sequence.len() > LONGEST && state != State::TextEscape {
                    self.passed_on += self.sequence.len() as u64;
                    out(Piece::Part(&std::mem::take(&mut self.sequence)));
                }
            }
        }
    }

    /// What a foreign character was, once it is known; true: `next` is to be looked at again.
    fn end_foreign(&mut self, next: u8, out: &mut impl FnMut(Piece<'_>)) -> bool {
        let (begin, before) = self.foreign;
        let character = &self.sequence[begin..];
        match std::str::from_utf8(character) {
            Ok(_) => self.give_up(out),
            // It may still become one.
            Err(error) if error.error_len().is_none() && next & 0xc0 == 0x80 => return false,
            Err(_) => {
                // Kept among the bytes of the sequence, where nobody takes it for anything.
                self.state = match before {
                    Before::Escape => State::Escape,
                    Before::Short => State::Short,
                    Before::Control => State::Control,
                };
            }
        }
        true
    }

    fn end(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        let is_whole = self.passed_on == 0;
        let bytes = self.flush();
        if !is_whole {
            return out(Piece::Part(&bytes));
        }
        let (controls, sequence) = apart(bytes);
        if !controls.is_empty() {
            out(Piece::Text(&controls));
        }
        out(Piece::Sequence(&sequence));
    }

    fn give_up(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        let begun = self.flush();
        if !begun.is_empty() {
            out(Piece::Part(&begun));
        }
    }
}

/// Terminals obey a control character in the midst of a sequence at once, and go on with the sequence: it counts as if it had come
/// before. In a text it belongs to the text.
fn apart(sequence: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != ESC) || *byte == 0x7f;
    let begin = sequence.iter().skip(1).position(|byte| !is_control(byte)).map_or(sequence.len(), |at| at + 1);
    let is_text = sequence.get(begin).is_some_and(|letter| after_escape(*letter) == Some(State::Text));
    let end = if is_text { begin } else { sequence.len() };
    if !sequence[..end].iter().any(is_control) {
        return (Vec::new(), sequence);
    }
    let (controls, mut clean): (Vec<u8>, Vec<u8>) = sequence[..end].iter().partition(|byte| is_control(byte));
    clean.extend_from_slice(&sequence[end..]);
    // A DEL is nothing at all.
    (controls.into_iter().filter(|byte| *byte != 0x7f).collect(), clean)
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
pub struct Control<'a> {
    /// One of `<=>?`, or 0.
    pub private: u8,
    pub parameters: &'a [u8],
    pub intermediates: &'a [u8],
    pub last: u8,
}

impl<'a> Control<'a> {
    pub fn of(sequence: &'a [u8]) -> Option<Self> {
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
    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.parameters.split(|byte| *byte == b';').map(|number| {
            let text = std::str::from_utf8(number).unwrap_or_default();
            text.parse().unwrap_or(0)
        })
    }

    pub fn first(&self) -> u16 {
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
                Piece::Text(bytes) | Piece::Part(bytes) => match found.last_mut() {
                    Some((false, text)) => text.extend_from_slice(bytes),
                    _ => found.push((false, bytes.to_vec())),
                },
            });
        }
        let held = parser.flush();
        (found, held)
    }

    const SAMPLE: &[u8] = b"ab\x1b[?1049hcd\x1b]0;title\x07e\x1b]11;?\x1b\\f\x1b(B\x1bcg\x1bP+q544e\x1b\\\
        \x1b[1;2\x18h\x1b[3\x1b[mi\x1b]x\x1b[0mj\xc2\xb0\x1b[3\xc3\xa4k\x1b[3\xff1ml\x1b[5";

    #[test]
    fn sequences_are_found_whole() {
        let (found, held) = pieces(&[SAMPLE]);
        let sequences: Vec<&[u8]> = found.iter().filter(|(is, _)| *is).map(|(_, bytes)| bytes.as_slice()).collect();
        let wanted: [&[u8]; 10] = [
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
        assert_eq!(sequences, wanted);
        assert_eq!(held, b"\x1b[5");
    }

    #[test]
    fn a_control_character_within_hid_what_a_sequence_was() {
        let found = |bytes: &[u8]| pieces(&[bytes]).0;
        let as_before = |controls: &[u8], sequence: &[u8]| vec![(false, controls.to_vec()), (true, sequence.to_vec())];
        assert_eq!(found(b"\x1b\x07[2J"), as_before(b"\x07", b"\x1b[2J"));
        assert_eq!(found(b"\x1b[\r1\n;2\x7fH"), as_before(b"\r\n", b"\x1b[1;2H"));
        assert_eq!(found(b"\x1b\n(\r0"), as_before(b"\n\r", b"\x1b(0"));
        assert_eq!(found(b"\x1b\x07]2;T\x07"), as_before(b"\x07", b"\x1b]2;T\x07"));
        assert_eq!(found(b"\x1b]2;a\tb\x1b\\"), vec![(true, b"\x1b]2;a\tb\x1b\\".to_vec())]);
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
    fn control_characters_beyond_ascii_stand_for_two_within() {
        let (found, held) = pieces(&[b"a\xc2", b"\x9b1m\xc2\x9d2;t\xc2\x9cb\xc2\x85\x1b[3\xc2\x801m\xc2"]);
        let sequences: Vec<&[u8]> = found.iter().filter(|(is, _)| *is).map(|(_, bytes)| bytes.as_slice()).collect();
        assert_eq!(sequences, [b"\x1b[1m".as_slice(), b"\x1b]2;t"]);
        assert_eq!(found.last(), Some(&(false, b"b\xc2\x85\x1b[3\xc2\x801m".to_vec())));
        assert_eq!(held, b"\xc2");
    }

    #[test]
    fn endless_sequences_are_not_kept() {
        let mut parser = Parser::default();
        let mut count = 0;
        parser.feed(b"\x1bP", |_| count += 1);
        for _ in 0..1000 {
            parser.feed(&[b'x'; 100], |piece| {
                assert!(matches!(piece, Piece::Part(_)));
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
