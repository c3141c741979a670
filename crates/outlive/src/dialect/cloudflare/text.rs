//! Output as text. The clients' protocols carry strings, programs print bytes, and a character may be split across two pieces: what is
//! not yet a whole character waits for the rest of it.

use outlive_core::log::Stream;

/// Of one stream.
#[derive(Default)]
pub(super) struct Decoder {
    /// The beginning of a character; at most three bytes.
    rest: Vec<u8>,
}

impl Decoder {
    /// As much as is whole. What is no text at all becomes U+FFFD, as `TextDecoder` does it.
    pub(super) fn text(&mut self, bytes: &[u8]) -> String {
        let whole = self.whole(bytes);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// The same as bytes, none changed.
    pub(super) fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let at = all.len() - beginning_of_a_character(&all);
        self.rest = all.split_off(at);
        all
    }

    /// What is left when nothing more comes.
    pub(super) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }
}

/// How many bytes at the end may become a character with what comes next.
fn beginning_of_a_character(bytes: &[u8]) -> usize {
    // The last byte that begins a character, if it is near enough.
    let back = (1..=bytes.len().min(3)).find(|back| bytes[bytes.len() - back] & 0xc0 != 0x80);
    let Some(back) = back else { return 0 };
    match std::str::from_utf8(&bytes[bytes.len() - back..]) {
        Err(error) if error.error_len().is_none() => back,
        _ => 0,
    }
}

/// Of both streams of a program; a terminal's is stdout.
#[derive(Default)]
pub(super) struct Decoders {
    stdout: Decoder,
    stderr: Decoder,
}

impl Decoders {
    pub(super) fn of(&mut self, stream: Stream) -> &mut Decoder {
        if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout }
    }

    /// What is left of each.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (&'static str, Vec<u8>)> + use<> {
        let left = [(name(Stream::Stdout), self.stdout.end()), (name(Stream::Stderr), self.stderr.end())];
        left.into_iter().filter(|(_, bytes)| !bytes.is_empty())
    }
}

pub(super) fn name(stream: Stream) -> &'static str {
    if stream == Stream::Stderr { "stderr" } else { "stdout" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters of every length, surrogates, overlong forms, cut-off ones, and plain nonsense.
    const NASTY: &[u8] =
        b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\xe2\x82\xc0\x80\x80\xf5\xf0\x90z\xe2\x82";

    fn pieces(cuts: &[usize]) -> Vec<&'static [u8]> {
        let mut all = Vec::new();
        let mut from = 0;
        for cut in cuts.iter().copied().chain([NASTY.len()]) {
            all.push(&NASTY[from..cut]);
            from = cut;
        }
        all
    }

    #[test]
    fn the_text_does_not_depend_on_where_it_was_cut() {
        let expected = String::from_utf8_lossy(NASTY);
        let check = |cuts: &[usize]| {
            let mut decoder = Decoder::default();
            let mut text: String = pieces(cuts).into_iter().map(|piece| decoder.text(piece)).collect();
            text += &String::from_utf8_lossy(&decoder.end());
            assert_eq!(text, expected, "{cuts:?}");
            let mut bytes: Vec<u8> = pieces(cuts).into_iter().flat_map(|piece| decoder.whole(piece)).collect();
            bytes.extend(decoder.end());
            assert_eq!(bytes, NASTY, "{cuts:?}");
        };
        let everywhere: Vec<usize> = (1..NASTY.len()).collect();
        check(&everywhere);
        for first in 0..=NASTY.len() {
            for second in first..=NASTY.len() {
                check(&[first, second]);
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_character_waits() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.text(b"x\xe2\x82"), "x");
        assert_eq!(decoder.text(b"\xac"), "\u{20ac}");
        assert_eq!(decoder.text(b"\xff"), "\u{fffd}", "this will never be one");
        assert!(decoder.end().is_empty());
    }
}
