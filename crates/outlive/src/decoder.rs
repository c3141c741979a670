//! Text out of bytes that come in pieces.

/// Decodes UTF-8 as browsers do: a character that was cut waits for its rest, and each thing that cannot become one is U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character; three bytes at most.
    rest: Vec<u8>,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut String) {
        if self.rest.is_empty() {
            self.rest = decode(bytes, out).to_vec();
        } else {
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(bytes);
            self.rest = decode(&whole, out).to_vec();
        }
    }

    /// Nothing comes any more.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.rest).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends all characters that are whole; returns the beginning of one that is not.
fn decode<'a>(mut bytes: &'a [u8], out: &mut String) -> &'a [u8] {
    loop {
        match str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return &[];
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                out.push_str(str::from_utf8(valid).unwrap_or_default());
                let Some(wrong) = error.error_len() else { return rest };
                out.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[wrong..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut decoder, mut out) = (Decoder::default(), String::new());
        for piece in pieces {
            decoder.feed(piece, &mut out);
        }
        decoder.finish(&mut out);
        out
    }

    #[test]
    fn what_is_wrong_is_replaced_as_browsers_do() {
        for (bytes, text) in [
            (&b"\xe2\x82A"[..], "\u{fffd}A"),
            (b"\xf0\x9f\x98B", "\u{fffd}B"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"end\xe2\x82", "end\u{fffd}"),
        ] {
            assert_eq!(decoded([bytes]), text);
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_bytes_are_cut(bytes: Vec<u8>, text: String, size in 1..5_usize) {
            let bytes = [bytes, text.into_bytes()].concat();
            prop_assert_eq!(decoded(bytes.chunks(size)), String::from_utf8_lossy(&bytes));
        }
    }
}
