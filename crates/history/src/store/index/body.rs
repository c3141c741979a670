//! How the index stores the bodies of records: short JSON texts that are much alike, so they are compressed with a
//! dictionary of what they have in common.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, MAGICNUMBER, get_frame_content_size};

use crate::format::COMPRESSION_LEVEL;

/// First byte of a stored body: how the rest is encoded.
const PLAIN: u8 = 0;
/// A zstd frame without its magic number, which is the same in all.
const ZSTD_WITH_DICTIONARY: u8 = 1;

const MAGIC: [u8; 4] = MAGICNUMBER.to_le_bytes();

/// What bodies have in common, the most frequent last. A change of it needs a new first byte.
const DICTIONARY: &[u8] = include_bytes!("body_dictionary.txt");

/// Texts in a body repeat few bytes.
const MIN_MATCH: u32 = 4;

/// Longest body that is decoded. A request is far shorter.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// Encodes bodies, one after the other, with the same memory. The first one allocates it.
#[derive(Default)]
pub(super) struct BodyEncoder(Option<Compressor<'static>>);

impl BodyEncoder {
    pub(super) fn encode(&mut self, body: &[u8]) -> io::Result<Vec<u8>> {
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            empty => {
                let mut new = Compressor::with_dictionary(COMPRESSION_LEVEL, DICTIONARY)?;
                new.set_parameter(CParameter::MinMatch(MIN_MATCH))?;
                empty.insert(new)
            }
        };
        let frame = compressor.compress(body)?;
        let (encoding, content) = match frame.strip_prefix(&MAGIC) {
            Some(compressed) if compressed.len() < body.len() => (ZSTD_WITH_DICTIONARY, compressed),
            _ => (PLAIN, body),
        };
        Ok([&[encoding], content].concat())
    }
}

/// Decodes bodies, one after the other, with the same memory. The first compressed one allocates it.
#[derive(Default)]
pub(super) struct BodyDecoder(Option<Decompressor<'static>>);

impl BodyDecoder {
    pub(super) fn decode(&mut self, stored: &[u8]) -> io::Result<Vec<u8>> {
        match stored.split_first() {
            Some((&PLAIN, body)) => Ok(body.to_vec()),
            Some((&ZSTD_WITH_DICTIONARY, compressed)) => self.decompress(compressed),
            _ => Err(damaged("its encoding is unknown")),
        }
    }

    fn decompress(&mut self, compressed: &[u8]) -> io::Result<Vec<u8>> {
        let frame = [&MAGIC, compressed].concat();
        let len = get_frame_content_size(&frame).ok().flatten().filter(|len| *len <= MAX_BODY_BYTES);
        let len = len.ok_or_else(|| damaged("its length is missing or too large"))?;
        let decompressor = match &mut self.0 {
            Some(decompressor) => decompressor,
            empty => empty.insert(Decompressor::with_dictionary(DICTIONARY)?),
        };
        decompressor.decompress(&frame, len as usize).map_err(|error| damaged(&error.to_string()))
    }
}

fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a stored record is damaged: {reason}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(body: &[u8]) -> Vec<u8> {
        BodyDecoder::default().decode(&BodyEncoder::default().encode(body).unwrap()).unwrap()
    }

    #[test]
    fn the_body_of_a_short_process_is_small() {
        let body = br#"{"exit":{"cause":1,"code":0,"generation":1,"offset":18},"generation":1,"pid":13494,"spec":{"args":["short process","697"],"command":"/bin/echo"},"started_at_ms":1794997798192}"#;
        let stored = BodyEncoder::default().encode(body).unwrap();
        assert!(stored.len() <= 76, "{} bytes", stored.len());
        assert_eq!(BodyDecoder::default().decode(&stored).unwrap(), body);
    }

    #[test]
    fn an_incompressible_body_is_stored_as_it_is() {
        assert_eq!(BodyEncoder::default().encode(b"\x07").unwrap(), [PLAIN, 7]);
        assert_eq!(round_trip(b""), b"");
    }

    #[test]
    fn a_long_body_round_trips() {
        let body: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(round_trip(&body), body);
    }

    proptest! {
        #[test]
        fn bodies_round_trip(body in proptest::collection::vec(any::<u8>(), 0..500)) {
            prop_assert_eq!(round_trip(&body), body);
        }

        #[test]
        fn garbage_is_refused_or_decoded_but_never_panics(stored in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = BodyDecoder::default().decode(&stored);
        }

        #[test]
        fn damaged_bodies_never_panic(body in "[a-z\":{}]{0,200}", at in any::<prop::sample::Index>(), value: u8) {
            let mut stored = BodyEncoder::default().encode(body.as_bytes()).unwrap();
            let at = at.index(stored.len());
            stored[at] = value;
            let _ = BodyDecoder::default().decode(&stored);
        }
    }
}
