//! Splits the bytes of a stream into the texts of events.
//!
//! As *lines*: LF, CR and CRLF each end a line, an empty line is `"\n"`, and an incomplete line is held back. The SDKs
//! put a line break between events, so a line has to be one event, however long it is; the limits below keep its memory
//! bounded. Or *verbatim*, for terminals: line ends are kept, and only an incomplete character is held back.

use std::borrow::Cow;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::utf8_decoder::incomplete_suffix_len;

const MIB: usize = 1 << 20;
/// Every line up to this length is one event. Small, because each unread stream may hold this much outside of the
/// shared limit.
const MIN_LINE_BYTES: usize = 64 * 1024;
/// No line is held back beyond this length. It is the limit of an execd session.
const MAX_LINE_BYTES: usize = 16 * MIB;
/// Memory in MiB for what all held lines have beyond `MIN_LINE_BYTES`. Without a share of it, a line that becomes
/// longer is sent in parts.
static LONG_LINE_MIB: Semaphore = Semaphore::const_new(64);
/// A longer text is encoded in pieces of this size while it is sent. JSON escapes make it up to six times as long.
const PIECE_BYTES: usize = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Lines,
    Verbatim,
}

pub(crate) struct TextSplitter {
    format: OutputFormat,
    held: HeldLine,
    long_line_mib: &'static Semaphore,
    /// The last byte was a CR, so a LF that follows belongs to the same line end.
    after_cr: bool,
}

/// The bytes that are held back.
#[derive(Default)]
struct HeldLine {
    bytes: Vec<u8>,
    /// The offset after them.
    end: u64,
    memory: Option<SemaphorePermit<'static>>,
}

/// The text of one event.
pub(crate) struct TextPart<'a> {
    pub(crate) text: Text<'a>,
    /// The offset after it.
    pub(crate) end: u64,
    /// The line continues in the next part.
    pub(crate) partial: bool,
}

pub(crate) enum Text<'a> {
    Short(Cow<'a, str>),
    Long(LongText),
}

/// A text that is too long to be encoded at once.
pub(crate) struct LongText {
    line: HeldLine,
    /// Bytes that were returned by [`LongText::next_piece`].
    done: usize,
}

impl TextSplitter {
    pub(crate) fn new(format: OutputFormat) -> Self {
        Self { format, held: HeldLine::default(), long_line_mib: &LONG_LINE_MIB, after_cr: false }
    }

    /// Splits the next bytes, which start at `offset`.
    pub(crate) fn feed(&mut self, bytes: &[u8], offset: u64, mut emit: impl FnMut(TextPart<'_>)) {
        match self.format {
            OutputFormat::Lines => self.feed_lines(bytes, offset, &mut emit),
            OutputFormat::Verbatim => {
                self.hold(bytes, offset + bytes.len() as u64, &mut emit);
                self.emit_whole_characters(&mut emit);
            }
        }
    }

    /// Forgets the held-back bytes, because the client has received them.
    pub(crate) fn discard_held(&mut self) {
        self.held = HeldLine::default();
    }

    /// Emits the held-back bytes at the end of the stream.
    pub(crate) fn finish(&mut self, end: u64, mut emit: impl FnMut(TextPart<'_>)) {
        let held = std::mem::take(&mut self.held);
        if !held.bytes.is_empty() {
            emit(TextPart { text: held.into_text(), end, partial: false });
        }
    }

    fn feed_lines(&mut self, bytes: &[u8], offset: u64, emit: &mut impl FnMut(TextPart<'_>)) {
        let mut start = 0;
        while let Some(length) = bytes[start..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let at = start + length;
            let line = &bytes[start..at];
            let is_rest_of_crlf = self.after_cr && line.is_empty() && bytes[at] == b'\n';
            self.after_cr = bytes[at] == b'\r';
            start = at + 1;
            if !is_rest_of_crlf {
                self.emit_line(line, offset + start as u64, emit);
            }
        }
        let rest = &bytes[start..];
        if !rest.is_empty() {
            self.after_cr = false;
            self.hold(rest, offset + bytes.len() as u64, emit);
        }
    }

    fn emit_line(&mut self, line: &[u8], end: u64, emit: &mut impl FnMut(TextPart<'_>)) {
        let text = if self.held.bytes.is_empty() {
            // An event with an empty text would be written without the field.
            Text::Short(String::from_utf8_lossy(if line.is_empty() { b"\n" } else { line }))
        } else {
            self.hold(line, end, emit);
            std::mem::take(&mut self.held).into_text()
        };
        emit(TextPart { text, end, partial: false });
    }

    /// Holds back more bytes. If the line becomes too long, what was held before is emitted as a part of it.
    fn hold(&mut self, bytes: &[u8], end: u64, emit: &mut impl FnMut(TextPart<'_>)) {
        if !self.held.reserve(bytes.len(), self.long_line_mib) {
            self.emit_whole_characters(emit);
        }
        self.held.bytes.extend_from_slice(bytes);
        self.held.end = end;
    }

    fn emit_whole_characters(&mut self, emit: &mut impl FnMut(TextPart<'_>)) {
        let mut whole = std::mem::take(&mut self.held);
        self.held.bytes = whole.bytes.split_off(whole.bytes.len() - incomplete_suffix_len(&whole.bytes));
        self.held.end = whole.end;
        if !whole.bytes.is_empty() {
            let end = whole.end - self.held.bytes.len() as u64;
            emit(TextPart { text: whole.into_text(), end, partial: true });
        }
    }
}

impl HeldLine {
    /// Makes room for more bytes. Returns false if the line would be too long, or if there is no memory for it.
    fn reserve(&mut self, more: usize, long_line_mib: &'static Semaphore) -> bool {
        let len = self.bytes.len() + more;
        if len <= MIN_LINE_BYTES {
            return true;
        }
        if len > MAX_LINE_BYTES {
            return false;
        }
        let granted = self.memory.as_ref().map_or(0, SemaphorePermit::num_permits);
        let needed = (len - MIN_LINE_BYTES).div_ceil(MIB);
        if needed > granted {
            let Ok(share) = long_line_mib.try_acquire_many((needed - granted) as u32) else { return false };
            match &mut self.memory {
                Some(memory) => memory.merge(share),
                None => self.memory = Some(share),
            }
            self.bytes.reserve_exact(MIN_LINE_BYTES + needed * MIB - self.bytes.len());
        }
        true
    }

    fn into_text(self) -> Text<'static> {
        if self.bytes.len() > PIECE_BYTES {
            return Text::Long(LongText { line: self, done: 0 });
        }
        Text::Short(Cow::Owned(String::from_utf8_lossy(&self.bytes).into_owned()))
    }
}

impl LongText {
    /// The next piece, which ends with a whole character; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Cow<'_, str>> {
        let rest = &self.line.bytes[self.done..];
        if rest.is_empty() {
            return None;
        }
        let piece = match rest.get(..PIECE_BYTES) {
            Some(piece) => &piece[..PIECE_BYTES - incomplete_suffix_len(piece)],
            None => rest,
        };
        self.done += piece.len();
        Some(String::from_utf8_lossy(piece))
    }
}

#[cfg(any(fuzzing, test))]
impl Text<'_> {
    pub(crate) fn into_string(self) -> String {
        match self {
            Self::Short(text) => text.into_owned(),
            Self::Long(mut text) => {
                let mut whole = String::new();
                while let Some(piece) = text.next_piece() {
                    whole.push_str(&piece);
                }
                whole
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts (text, end, partial) of `bytes`, fed in chunks that end at `cuts`.
    fn parts(format: OutputFormat, bytes: &[u8], cuts: &[usize]) -> Vec<(String, u64, bool)> {
        let mut splitter = TextSplitter::new(format);
        let mut all = Vec::new();
        let mut emit = |part: TextPart<'_>| all.push((part.text.into_string(), part.end, part.partial));
        let mut start = 0;
        for end in cuts.iter().copied().chain([bytes.len()]) {
            splitter.feed(&bytes[start..end], start as u64, &mut emit);
            start = end;
        }
        splitter.finish(bytes.len() as u64, &mut emit);
        all
    }

    fn lines(bytes: &[u8]) -> Vec<String> {
        parts(OutputFormat::Lines, bytes, &[]).into_iter().map(|(text, ..)| text).collect()
    }

    #[test]
    fn lf_cr_and_crlf_end_a_line() {
        assert_eq!(lines(b"one\ntwo\n"), ["one", "two"]);
        assert_eq!(lines(b"a\r\nb\rc\n\nd"), ["a", "b", "c", "\n", "d"]);
        assert_eq!(lines(b"10%\r20%\r\n"), ["10%", "20%"]);
        assert_eq!(lines(b"\r\r\n\n"), ["\n", "\n", "\n"]);
        assert_eq!(lines(b"a\xffb\n"), ["a\u{fffd}b"]);
        assert_eq!(lines(b""), Vec::<String>::new());
    }

    #[test]
    fn parts_do_not_depend_on_chunk_boundaries() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let alphabet: [&[u8]; 8] = [b"a", b"\n", b"\r", b"\r\n", "é".as_bytes(), "😀".as_bytes(), b"\xff", b"bc"];
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random(12)).flat_map(|_| alphabet[random(alphabet.len())].to_vec()).collect();
            let mut cuts: Vec<usize> = (0..random(5)).map(|_| random(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            assert_eq!(
                parts(OutputFormat::Lines, &bytes, &cuts),
                parts(OutputFormat::Lines, &bytes, &[]),
                "{bytes:?} {cuts:?}"
            );
            let joined = |cuts: &[usize]| -> String {
                parts(OutputFormat::Verbatim, &bytes, cuts).into_iter().map(|(text, ..)| text).collect()
            };
            assert_eq!(joined(&cuts), joined(&[]), "{bytes:?} {cuts:?}");
            if let Ok(text) = std::str::from_utf8(&bytes) {
                assert_eq!(joined(&cuts), text);
            }
            let ends: Vec<u64> = parts(OutputFormat::Lines, &bytes, &cuts).into_iter().map(|(_, end, _)| end).collect();
            assert!(ends.windows(2).all(|two| two[0] <= two[1]), "{ends:?}");
        }
    }

    /// The parts of a line of `len` bytes, fed as the stream does it, with this much memory for long lines.
    fn parts_of_long_line(len: usize, mib: usize) -> Vec<(String, bool)> {
        let mut splitter = TextSplitter::new(OutputFormat::Lines);
        splitter.long_line_mib = Box::leak(Box::new(Semaphore::new(mib)));
        let mut line = "é".repeat(len / 2).into_bytes();
        line.push(b'\n');
        let mut all = Vec::new();
        let mut emit = |part: TextPart<'_>| all.push((part.text.into_string(), part.partial));
        for (at, chunk) in line.chunks(PIECE_BYTES - 1).enumerate() {
            splitter.feed(chunk, (at * (PIECE_BYTES - 1)) as u64, &mut emit);
        }
        assert_eq!(splitter.long_line_mib.available_permits(), mib);
        assert_eq!(all.iter().map(|(text, _)| text.as_str()).collect::<String>(), "é".repeat(len / 2));
        all
    }

    // Regression: a line of 5 MB was five events, which the SDK joined with line breaks.
    #[test]
    fn a_long_line_is_one_event() {
        for len in [5 * MIB, MAX_LINE_BYTES] {
            assert_eq!(parts_of_long_line(len, 16).len(), 1);
        }
    }

    #[test]
    fn a_line_over_the_limit_comes_in_parts_of_whole_characters() {
        let parts = parts_of_long_line(MAX_LINE_BYTES + MIB, 64);
        assert_eq!(parts.len(), 2);
        assert!(parts[0].1 && !parts[1].1);
    }

    #[test]
    fn without_memory_a_long_line_comes_in_parts() {
        let parts = parts_of_long_line(5 * MIB, 0);
        assert!(parts[..parts.len() - 1].iter().all(|(text, partial)| *partial && text.len() <= MIN_LINE_BYTES));
        assert!(parts.len() >= 5 * MIB / MIN_LINE_BYTES && !parts[parts.len() - 1].1);
    }

    #[test]
    fn a_line_that_ends_after_a_part_has_no_empty_line_after_it() {
        let mut splitter = TextSplitter::new(OutputFormat::Lines);
        splitter.long_line_mib = Box::leak(Box::new(Semaphore::new(0)));
        let mut lengths = Vec::new();
        let mut emit = |part: TextPart<'_>| lengths.push((part.text.into_string().len(), part.partial));
        splitter.feed(&vec![b'x'; MIN_LINE_BYTES], 0, &mut emit);
        splitter.feed(b"\n", MIN_LINE_BYTES as u64, &mut emit);
        splitter.feed(b"\n", MIN_LINE_BYTES as u64 + 1, &mut emit);
        assert_eq!(lengths, [(MIN_LINE_BYTES, false), (1, false)]);
    }
}
