//! How many units a stream of bytes is, decoded as every browser does it (`decoder.rs`).

/// How many units of UTF-16 a text has, which is what JavaScript calls its length.
pub(in super::super) fn units(text: &str) -> u64 {
    let characters = text.chars().count();
    if characters == text.len() {
        return characters as u64;
    }
    // What takes four bytes here takes two units there.
    let beyond = text.as_bytes().iter().filter(|byte| **byte >= 0xf0).count();
    (characters + beyond) as u64
}

/// Whether these bytes, which are no text, may become some when more come.
fn has_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Part of some bytes: how many of them, and how many units they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) bytes: usize,
    pub(super) units: u64,
}

/// As many whole characters as make `wanted` units (or one more, for a pair that would be cut), but nothing that may go on behind the end.
pub(super) fn measure(bytes: &[u8], wanted: u64) -> Measured {
    let mut done = Measured::default();
    for chunk in bytes.utf8_chunks() {
        let count = units(chunk.valid());
        if done.units + count >= wanted {
            return within(chunk.valid(), wanted, done);
        }
        done = Measured { bytes: done.bytes + chunk.valid().len(), units: done.units + count };
        let invalid = chunk.invalid();
        let is_last = done.bytes + invalid.len() == bytes.len();
        if invalid.is_empty() || is_last && has_begun(invalid) {
            break;
        }
        done = Measured { bytes: done.bytes + invalid.len(), units: done.units + 1 };
    }
    done
}

fn within(text: &str, wanted: u64, mut done: Measured) -> Measured {
    for character in text.chars() {
        if done.units >= wanted {
            break;
        }
        done.bytes += character.len_utf8();
        done.units += character.len_utf16() as u64;
    }
    done
}

/// How many bytes at the beginning may belong to a character that began before them.
pub(in super::super) fn continued(bytes: &[u8]) -> usize {
    const MOST: usize = 3;
    bytes.iter().take(MOST).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::decoder::Decoder;

    fn all_at_once(bytes: &[u8]) -> String {
        let mut decoder = Decoder::default();
        let mut text = decoder.decode(bytes);
        text.extend(decoder.finish());
        text
    }

    #[test]
    fn units_are_what_javascript_counts() {
        assert_eq!(units("ABé€😀Z"), 7);
    }

    /// Text with everything in it, and much that is none.
    pub(in super::super) fn mixed(seed: u64, length: usize) -> Vec<u8> {
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
    fn measuring_and_decoding_agree_wherever_they_begin_and_end() {
        for seed in 1..60 {
            let bytes = mixed(seed, 90);
            let whole = Decoder::default().decode(&bytes);
            let measured = measure(&bytes, u64::MAX);
            assert_eq!(measured.units, units(&whole), "{bytes:x?}");
            assert!(bytes.len() - measured.bytes <= 3);
            for wanted in 0..measured.units {
                let part = measure(&bytes, wanted);
                assert!(part.units == wanted || part.units == wanted + 1, "{wanted}: {part:?}");
                let text = all_at_once(&bytes[..part.bytes]);
                assert_eq!(units(&text), part.units, "{bytes:x?} {wanted}");
                assert_eq!(text + &Decoder::default().decode(&bytes[part.bytes..]), whole);
            }
            // Backwards: from any byte on, behind what may belong to a character before it.
            for from in 0..bytes.len() {
                let from = from + continued(&bytes[from..]);
                let rest = measure(&bytes[from..], u64::MAX);
                let before = measure(&bytes[..from], u64::MAX);
                if before.bytes == from {
                    assert_eq!(before.units + rest.units, measured.units, "{bytes:x?} from {from}");
                }
            }
        }
    }
}
