//! Counts the UTF-16 units of bytes that are decoded as a browser decodes them (`utf8_decoder.rs`).

/// The number of UTF-16 units of a text: its `length` in JavaScript.
pub(crate) fn units(text: &str) -> u64 {
    let characters = text.chars().count();
    if characters == text.len() {
        return characters as u64;
    }
    // A character of four bytes in UTF-8 has two units in UTF-16.
    let pairs = text.as_bytes().iter().filter(|byte| **byte >= 0xf0).count();
    (characters + pairs) as u64
}

/// Whether more bytes may complete these invalid ones to a character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// The length of a prefix, in bytes and in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrefixLength {
    pub(super) bytes: usize,
    pub(super) units: u64,
}

/// The shortest prefix of whole characters with at least `limit` units, or all whole characters if there are fewer. An
/// incomplete character at the end is not included, because the next bytes may complete it.
pub(super) fn measure_prefix(bytes: &[u8], limit: u64) -> PrefixLength {
    let mut done = PrefixLength::default();
    for chunk in bytes.utf8_chunks() {
        let count = units(chunk.valid());
        if done.units + count >= limit {
            return extend_to(limit, chunk.valid(), done);
        }
        done = PrefixLength { bytes: done.bytes + chunk.valid().len(), units: done.units + count };
        let invalid = chunk.invalid();
        let is_last = done.bytes + invalid.len() == bytes.len();
        if invalid.is_empty() || is_last && is_incomplete(invalid) {
            break;
        }
        done = PrefixLength { bytes: done.bytes + invalid.len(), units: done.units + 1 };
    }
    done
}

fn extend_to(limit: u64, text: &str, mut done: PrefixLength) -> PrefixLength {
    for character in text.chars() {
        if done.units >= limit {
            break;
        }
        done.bytes += character.len_utf8();
        done.units += character.len_utf16() as u64;
    }
    done
}

/// The number of leading bytes that may continue a character from before them.
pub(crate) fn continuation_prefix(bytes: &[u8]) -> usize {
    const MAX_CONTINUATION_BYTES: usize = 3;
    bytes.iter().take(MAX_CONTINUATION_BYTES).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::utf8_decoder::Utf8Decoder;

    fn decode_all(bytes: &[u8]) -> String {
        let mut decoder = Utf8Decoder::default();
        let mut text = decoder.decode(bytes);
        text.extend(decoder.finish());
        text
    }

    #[test]
    fn units_are_what_javascript_counts() {
        assert_eq!(units("ABé€😀Z"), 7);
    }

    /// Pseudo-random bytes: characters of every length, and invalid ones.
    pub(crate) fn mixed_bytes(seed: u64, length: usize) -> Vec<u8> {
        let pieces: [&[u8]; 9] =
            [b"a", b"\r\n", "é".as_bytes(), "€".as_bytes(), "😀".as_bytes(), b"\x80", b"\xf0\x9f", b"\xe2", b"\xff"];
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = Vec::new();
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(pieces[(state % 9) as usize]);
        }
        bytes
    }

    #[test]
    fn measuring_agrees_with_decoding_at_every_start_and_end() {
        for seed in 1..60 {
            let bytes = mixed_bytes(seed, 90);
            let whole = Utf8Decoder::default().decode(&bytes);
            let measured = measure_prefix(&bytes, u64::MAX);
            assert_eq!(measured.units, units(&whole), "{bytes:x?}");
            assert!(bytes.len() - measured.bytes <= 3);
            for limit in 0..measured.units {
                let prefix = measure_prefix(&bytes, limit);
                assert!(prefix.units == limit || prefix.units == limit + 1, "{limit}: {prefix:?}");
                let text = decode_all(&bytes[..prefix.bytes]);
                assert_eq!(units(&text), prefix.units, "{bytes:x?} {limit}");
                assert_eq!(text + &Utf8Decoder::default().decode(&bytes[prefix.bytes..]), whole);
            }
            // Backwards: counting may start at any byte, after skipping what may continue an earlier character.
            for from in 0..bytes.len() {
                let from = from + continuation_prefix(&bytes[from..]);
                let rest = measure_prefix(&bytes[from..], u64::MAX);
                let before = measure_prefix(&bytes[..from], u64::MAX);
                if before.bytes == from {
                    assert_eq!(before.units + rest.units, measured.units, "{bytes:x?} from {from}");
                }
            }
        }
    }
}
