//! Bytes of a stream as the texts of events.
//!
//! As *lines*, which is what SDKs join again: LF, CR and CRLF each end one, an empty one is `"\n"`, and one that is not finished is
//! held back until it is. Or *as printed*, for terminals: line ends stay where they are and nothing waits, except for half a character.

use crate::decoder::begun;

/// A line that grows beyond this is sent in parts: somebody who prints without line breaks must not fill our memory, least of all once for
/// each client that does not read (an event is up to six times as long). Not less, because SDKs join the parts as if they were lines.
const LONGEST_LINE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Shape {
    Lines,
    AsPrinted,
}

pub(in super::super) struct Splitter {
    shape: Shape,
    held: Vec<u8>,
    /// The last byte was a CR: a LF belongs to it.
    after_cr: bool,
}

/// One event's worth.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Part<'a> {
    pub(in super::super) text: &'a str,
    /// The offset behind it.
    pub(in super::super) end: u64,
    /// It goes on in the next one.
    pub(in super::super) partial: bool,
}

impl Splitter {
    pub(in super::super) fn new(shape: Shape) -> Self {
        Self { shape, held: Vec::new(), after_cr: false }
    }

    /// Takes bytes whose first one is at `offset`.
    pub(in super::super) fn feed(&mut self, bytes: &[u8], offset: u64, mut emit: impl FnMut(Part<'_>)) {
        match self.shape {
            Shape::Lines => self.feed_lines(bytes, offset, &mut emit),
            Shape::AsPrinted => {
                self.held.extend_from_slice(bytes);
                self.give_whole_characters(offset + bytes.len() as u64, &mut emit);
            }
        }
    }

    /// Nothing more will come: gives what was held back.
    pub(in super::super) fn finish(&mut self, end: u64, mut emit: impl FnMut(Part<'_>)) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            emit(Part { text: &String::from_utf8_lossy(&held), end, partial: false });
        }
    }

    fn feed_lines(&mut self, bytes: &[u8], offset: u64, emit: &mut impl FnMut(Part<'_>)) {
        let mut start = 0;
        while let Some(length) = bytes[start..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let at = start + length;
            let line = &bytes[start..at];
            let is_second_half = self.after_cr && line.is_empty() && bytes[at] == b'\n';
            self.after_cr = bytes[at] == b'\r';
            start = at + 1;
            if !is_second_half {
                self.give_line(line, offset + start as u64, emit);
            }
        }
        let rest = &bytes[start..];
        if rest.is_empty() {
            return;
        }
        self.after_cr = false;
        self.held.extend_from_slice(rest);
        if self.held.len() >= LONGEST_LINE {
            self.give_whole_characters(offset + bytes.len() as u64, emit);
        }
    }

    fn give_line(&mut self, line: &[u8], end: u64, emit: &mut impl FnMut(Part<'_>)) {
        let mut held = std::mem::take(&mut self.held);
        let whole = if held.is_empty() {
            line
        } else {
            held.extend_from_slice(line);
            &held
        };
        // An event without a text would have none at all.
        let whole = if whole.is_empty() { b"\n" } else { whole };
        emit(Part { text: &String::from_utf8_lossy(whole), end, partial: false });
    }

    fn give_whole_characters(&mut self, end: u64, emit: &mut impl FnMut(Part<'_>)) {
        let rest = self.held.split_off(self.held.len() - begun(&self.held));
        let given = std::mem::replace(&mut self.held, rest);
        if !given.is_empty() {
            let end = end - self.held.len() as u64;
            emit(Part { text: &String::from_utf8_lossy(&given), end, partial: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Given = (String, u64, bool);

    /// All texts of `bytes`, given in pieces that end at `cuts`.
    fn given(shape: Shape, bytes: &[u8], cuts: &[usize]) -> Vec<Given> {
        let mut splitter = Splitter::new(shape);
        let mut all = Vec::new();
        let mut emit = |text: Part<'_>| all.push((text.text.to_owned(), text.end, text.partial));
        let mut start = 0;
        for end in cuts.iter().copied().chain([bytes.len()]) {
            splitter.feed(&bytes[start..end], start as u64, &mut emit);
            start = end;
        }
        splitter.finish(bytes.len() as u64, &mut emit);
        all
    }

    fn lines(bytes: &[u8]) -> Vec<String> {
        given(Shape::Lines, bytes, &[]).into_iter().map(|(text, ..)| text).collect()
    }

    #[test]
    fn each_way_to_end_a_line() {
        assert_eq!(lines(b"one\ntwo\n"), ["one", "two"]);
        assert_eq!(lines(b"a\r\nb\rc\n\nd"), ["a", "b", "c", "\n", "d"]);
        assert_eq!(lines(b"10%\r20%\r\n"), ["10%", "20%"]);
        assert_eq!(lines(b"\r\r\n\n"), ["\n", "\n", "\n"]);
        assert_eq!(lines(b"a\xffb\n"), ["a\u{fffd}b"]);
        assert_eq!(lines(b""), Vec::<String>::new());
    }

    /// Wherever the pieces end, the same events come, with the same offsets.
    #[test]
    fn lines_do_not_depend_on_how_they_arrive() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let letters: [&[u8]; 8] = [b"a", b"\n", b"\r", b"\r\n", "é".as_bytes(), "😀".as_bytes(), b"\xff", b"bc"];
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random(12)).flat_map(|_| letters[random(letters.len())].to_vec()).collect();
            let mut cuts: Vec<usize> = (0..random(5)).map(|_| random(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            assert_eq!(given(Shape::Lines, &bytes, &cuts), given(Shape::Lines, &bytes, &[]), "{bytes:?} {cuts:?}");
            let printed = |cuts: &[usize]| -> String {
                given(Shape::AsPrinted, &bytes, cuts).into_iter().map(|(text, ..)| text).collect()
            };
            assert_eq!(printed(&cuts), printed(&[]), "{bytes:?} {cuts:?}");
            if let Ok(text) = std::str::from_utf8(&bytes) {
                assert_eq!(printed(&cuts), text);
            }
            let ends: Vec<u64> = given(Shape::Lines, &bytes, &cuts).into_iter().map(|(_, end, _)| end).collect();
            assert!(ends.windows(2).all(|two| two[0] <= two[1]), "{ends:?}");
        }
    }

    #[test]
    fn a_line_without_end_comes_in_parts_and_no_character_is_broken() {
        let long = "é".repeat(LONGEST_LINE / 2 + 1);
        let all = given(Shape::Lines, long.as_bytes(), &[LONGEST_LINE - 1, LONGEST_LINE + 1]);
        assert_eq!(all.len(), 2);
        assert!(all[0].2 && !all[1].2);
        assert_eq!(all.into_iter().map(|(text, ..)| text).collect::<String>(), long);
    }
}
