//! Just enough ELF to tell whether a binary is static.
//!
//! A binary that needs a dynamic loader names it in a program header of type PT_INTERP; a static
//! one, also a position-independent one, has none.

use crate::Result;

const PT_INTERP: u64 = 3;

/// The dynamic loader that the file names, if any.
pub(crate) fn interpreter(file: &[u8]) -> Result<Option<String>> {
    let header = File::new(file)?;
    let table = header.number(0x20, 8)?;
    let entry_size = header.number(0x36, 2)?;
    let entries = header.number(0x38, 2)?;
    for index in 0..entries {
        let entry = table.checked_add(index * entry_size).ok_or("program header out of range")?;
        if header.number(entry, 4)? == PT_INTERP {
            let offset = header.number(entry + 8, 8)?;
            let size = header.number(entry + 32, 8)?;
            let name = header.bytes(offset, size)?;
            let name = String::from_utf8_lossy(name);
            return Ok(Some(name.trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

struct File<'a> {
    bytes: &'a [u8],
    little_endian: bool,
}

impl<'a> File<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes {
            [0x7f, b'E', b'L', b'F', 2, order @ (1 | 2), ..] => Ok(Self { bytes, little_endian: *order == 1 }),
            [0x7f, b'E', b'L', b'F', ..] => Err("not a 64-bit ELF file".into()),
            _ => Err("not an ELF file".into()),
        }
    }

    fn bytes(&self, offset: u64, size: u64) -> Result<&'a [u8]> {
        let start = usize::try_from(offset)?;
        let end = start.checked_add(usize::try_from(size)?);
        let range = end.and_then(|end| self.bytes.get(start..end));
        range.ok_or_else(|| "truncated ELF file".into())
    }

    fn number(&self, offset: u64, width: u64) -> Result<u64> {
        let digits = self.bytes(offset, width)?.iter();
        let join = |value: u64, digit: &u8| value << 8 | u64::from(*digit);
        Ok(if self.little_endian { digits.rev().fold(0, join) } else { digits.fold(0, join) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: &[u8] = b"/lib/ld.so\0";

    /// A header, two program headers of 56 bytes, and the name of the loader.
    fn sample(second_type: u32) -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x20..0x28].copy_from_slice(&64u64.to_le_bytes());
        file[0x36..0x38].copy_from_slice(&56u16.to_le_bytes());
        file[0x38..0x3a].copy_from_slice(&2u16.to_le_bytes());
        file[64..68].copy_from_slice(&1u32.to_le_bytes());
        let second = 64 + 56;
        let name_at = file.len() as u64;
        file[second..second + 4].copy_from_slice(&second_type.to_le_bytes());
        file[second + 8..second + 16].copy_from_slice(&name_at.to_le_bytes());
        file[second + 32..second + 40].copy_from_slice(&(LOADER.len() as u64).to_le_bytes());
        file.extend_from_slice(LOADER);
        file
    }

    #[test]
    fn the_loader_is_found_wherever_it_stands() {
        assert_eq!(interpreter(&sample(3)).unwrap().as_deref(), Some("/lib/ld.so"));
    }

    #[test]
    fn a_static_file_has_none() {
        assert_eq!(interpreter(&sample(1)).unwrap(), None);
    }

    #[test]
    fn every_truncation_is_an_error_and_never_a_static_file() {
        let file = sample(3);
        for length in 0..file.len() {
            assert!(interpreter(&file[..length]).is_err(), "{length} bytes were accepted");
        }
    }

    #[test]
    fn hostile_numbers_do_not_overflow() {
        let mut file = sample(3);
        file[0x20..0x28].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(interpreter(&file).is_err());
        file[0x20..0x28].copy_from_slice(&(u64::MAX - 10).to_le_bytes());
        assert!(interpreter(&file).is_err());
    }

    #[test]
    fn other_files_are_refused() {
        assert!(interpreter(b"#!/bin/sh\n").is_err());
        assert!(interpreter(b"\x7fELF\x01\x01").is_err());
    }
}
