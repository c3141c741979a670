//! Integers and byte strings. A varint has seven bits per byte, lowest first; all but its last byte have the top bit set.

use std::io;

use super::invalid_data;

/// Longest varint of a `u64`.
pub(super) const MAX_VARINT_BYTES: usize = 10;

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `to - from` so that small differences of either sign are short.
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put_varint(out, (difference << 1 ^ difference >> 63) as u64);
}

pub(super) fn put_short_string(out: &mut Vec<u8>, text: &str) {
    debug_assert!(u8::try_from(text.len()).is_ok());
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front of a slice. Every read fails with `InvalidData` at the end of it.
#[derive(Clone, Debug)]
pub(super) struct WireReader<'a> {
    bytes: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(end_of_data)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(end_of_data)?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..MAX_VARINT_BYTES as u32).map(|index| index * 7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // One encoding per value: the last byte of a longer one is not zero.
                return if byte == 0 && shift > 0 { break } else { Ok(value) };
            }
        }
        Err(invalid_data("a number is not encoded as the format requires"))
    }

    pub(super) fn varint_u32(&mut self) -> io::Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| invalid_data("a number is too large"))
    }

    /// The inverse of [`put_difference`].
    pub(super) fn difference(&mut self, from: u64) -> io::Result<u64> {
        let encoded = self.varint()?;
        let difference = (encoded >> 1) as i64 ^ -((encoded & 1) as i64);
        Ok(from.wrapping_add(difference as u64))
    }

    pub(super) fn short_string(&mut self) -> io::Result<String> {
        let length = self.u8()?;
        let bytes = self.take(length.into())?;
        String::from_utf8(bytes.to_vec()).map_err(|_| invalid_data("an id is not UTF-8"))
    }
}

fn end_of_data() -> io::Error {
    invalid_data("the data ends inside a value")
}
