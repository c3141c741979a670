//! Decodes UTF-8 that arrives in pieces, which may end in the middle of a character.

/// Decodes as browsers do: an incomplete character waits for its rest, and each maximal invalid sequence becomes one
/// U+FFFD.
#[derive(Clone, Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// Start of an incomplete character; at most three bytes.
    incomplete: Vec<u8>,
}

impl Utf8Decoder {
    /// The text of all complete characters.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> String {
        if self.incomplete.is_empty() {
            let (complete, rest) = bytes.split_at(bytes.len() - incomplete_suffix_len(bytes));
            self.incomplete.extend_from_slice(rest);
            return String::from_utf8_lossy(complete).into_owned();
        }
        String::from_utf8_lossy(&self.complete_bytes(bytes)).into_owned()
    }

    /// The bytes of all complete characters, unchanged.
    pub(crate) fn complete_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.incomplete);
        all.extend_from_slice(bytes);
        let length = all.len() - incomplete_suffix_len(&all);
        self.incomplete = all.split_off(length);
        all
    }

    /// The bytes of an incomplete character at the end of the input.
    pub(crate) fn take_incomplete(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.incomplete)
    }

    /// The same as text: U+FFFD, or nothing.
    pub(crate) fn finish(&mut self) -> Option<char> {
        (!self.take_incomplete().is_empty()).then_some(char::REPLACEMENT_CHARACTER)
    }
}

/// Length of an incomplete character at the end of `bytes`.
pub(crate) fn incomplete_suffix_len(bytes: &[u8]) -> usize {
    // From the last byte that is not a continuation byte; a character has at most three bytes before its last one.
    let length = (1..=bytes.len().min(3)).find(|length| bytes[bytes.len() - length] & 0xc0 != 0x80);
    let Some(length) = length else { return 0 };
    match std::str::from_utf8(&bytes[bytes.len() - length..]) {
        Err(error) if error.error_len().is_none() => length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Characters of every length, surrogates, overlong forms, incomplete characters and invalid bytes.
    const MIXED: &[u8] =
        b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\xe2\x82\xc0\x80\x80\xf5\xf0\x90z\xe2\x82";

    fn check<'a>(pieces: impl IntoIterator<Item = &'a [u8]> + Clone, whole: &[u8]) {
        let mut decoder = Utf8Decoder::default();
        let mut text: String = pieces.clone().into_iter().map(|piece| decoder.decode(piece)).collect();
        text.extend(decoder.finish());
        assert_eq!(text, String::from_utf8_lossy(whole));
        let mut bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| decoder.complete_bytes(piece)).collect();
        bytes.extend(decoder.take_incomplete());
        assert_eq!(bytes, whole);
    }

    #[test]
    fn the_text_does_not_depend_on_how_the_input_is_split() {
        for first in 0..=MIXED.len() {
            for second in first..=MIXED.len() {
                check([&MIXED[..first], &MIXED[first..second], &MIXED[second..]], MIXED);
            }
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_as_browsers_do() {
        for (bytes, text) in [
            (&b"\xe2\x82A"[..], "\u{fffd}A"),
            (b"\xf0\x9f\x98B", "\u{fffd}B"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(Utf8Decoder::default().decode(bytes), text);
        }
    }

    #[test]
    fn only_incomplete_characters_wait() {
        let mut decoder = Utf8Decoder::default();
        assert_eq!(decoder.decode(b"x\xe2\x82"), "x");
        assert_eq!(decoder.decode(b"\xac"), "\u{20ac}");
        assert_eq!(decoder.decode(b"\xff"), "\u{fffd}", "never part of a character");
        assert_eq!(decoder.finish(), None);
        assert_eq!((decoder.decode(b"\xe2\x82"), decoder.finish()), (String::new(), Some('\u{fffd}')));
    }

    proptest! {
        #[test]
        fn random_input_does_not_depend_on_how_it_is_split(bytes: Vec<u8>, text: String, size in 1..5_usize) {
            let bytes = [bytes, text.into_bytes()].concat();
            check(bytes.chunks(size), &bytes);
        }
    }
}
