//! Text out of bytes that come in pieces: a character may be cut anywhere.

/// Decodes UTF-8 as browsers do: what may still become a character waits for its rest, and each longest beginning of one that never became
/// one is U+FFFD.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character; at most three bytes.
    rest: Vec<u8>,
}

impl Decoder {
    /// As much as is whole.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> String {
        if self.rest.is_empty() {
            let (whole, rest) = bytes.split_at(bytes.len() - begun(bytes));
            self.rest.extend_from_slice(rest);
            return String::from_utf8_lossy(whole).into_owned();
        }
        String::from_utf8_lossy(&self.whole(bytes)).into_owned()
    }

    /// The same as bytes, none changed.
    pub(crate) fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let at = all.len() - begun(&all);
        self.rest = all.split_off(at);
        all
    }

    /// What is left when nothing more comes.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// The same as text.
    pub(crate) fn finish(&mut self) -> Option<char> {
        (!self.end().is_empty()).then_some(char::REPLACEMENT_CHARACTER)
    }
}

/// How many bytes at the end may become a character with what comes next.
pub(crate) fn begun(bytes: &[u8]) -> usize {
    // The last byte that begins a character, if it is near enough.
    let back = (1..=bytes.len().min(3)).find(|back| bytes[bytes.len() - back] & 0xc0 != 0x80);
    let Some(back) = back else { return 0 };
    match std::str::from_utf8(&bytes[bytes.len() - back..]) {
        Err(error) if error.error_len().is_none() => back,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Characters of every length, surrogates, overlong forms, cut-off ones, and plain nonsense.
    const NASTY: &[u8] =
        b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\xe2\x82\xc0\x80\x80\xf5\xf0\x90z\xe2\x82";

    fn check<'a>(pieces: impl IntoIterator<Item = &'a [u8]> + Clone, whole: &[u8]) {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.clone().into_iter().map(|piece| decoder.decode(piece)).collect();
        text.extend(decoder.finish());
        assert_eq!(text, String::from_utf8_lossy(whole));
        let mut bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| decoder.whole(piece)).collect();
        bytes.extend(decoder.end());
        assert_eq!(bytes, whole);
    }

    #[test]
    fn the_text_does_not_depend_on_where_it_was_cut() {
        for first in 0..=NASTY.len() {
            for second in first..=NASTY.len() {
                check([&NASTY[..first], &NASTY[first..second], &NASTY[second..]], NASTY);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_replaced_as_browsers_do() {
        for (bytes, text) in [
            (&b"\xe2\x82A"[..], "\u{fffd}A"),
            (b"\xf0\x9f\x98B", "\u{fffd}B"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(Decoder::default().decode(bytes), text);
        }
    }

    #[test]
    fn only_the_beginning_of_a_character_waits() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(b"x\xe2\x82"), "x");
        assert_eq!(decoder.decode(b"\xac"), "\u{20ac}");
        assert_eq!(decoder.decode(b"\xff"), "\u{fffd}", "this will never be one");
        assert_eq!(decoder.finish(), None);
        assert_eq!((decoder.decode(b"\xe2\x82"), decoder.finish()), (String::new(), Some('\u{fffd}')));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_bytes_are_cut(bytes: Vec<u8>, text: String, size in 1..5_usize) {
            let bytes = [bytes, text.into_bytes()].concat();
            check(bytes.chunks(size), &bytes);
        }
    }
}
