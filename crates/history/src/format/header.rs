//! The header at the start of every segment file.

use std::io;

use super::wire::{WireReader, put_short_string};
use super::{invalid_data, invalid_input};

const VERSION: u16 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Raw,
    Sealed,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Raw => *b"OLVH-RAW",
            Self::Sealed => *b"OLVH-SEG",
        }
    }
}

/// What a segment file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub kind: FileKind,
    /// Number of the segment.
    pub segment: u64,
    /// The run of outlive that created the file. Its blocks may come from earlier runs.
    pub boot: String,
}

impl FileHeader {
    /// Upper bound of the length of any header: enough to read from the start of a file.
    pub const MAX_BYTES: usize = 8 + 2 + 8 + 1 + u8::MAX as usize + 4;

    /// Fails if the boot id is longer than 255 bytes.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        if self.boot.len() > u8::MAX.into() {
            return Err(invalid_input("the boot id is longer than 255 bytes"));
        }
        let mut out = Vec::with_capacity(Self::MAX_BYTES);
        out.extend_from_slice(&self.kind.magic());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.segment.to_le_bytes());
        put_short_string(&mut out, &self.boot);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    /// Reads the header at the start of `bytes`, and its length.
    pub fn decode(kind: FileKind, bytes: &[u8]) -> io::Result<(Self, usize)> {
        let mut reader = WireReader::new(bytes);
        if reader.array()? != kind.magic() {
            return Err(invalid_data("the file is not a segment of this kind: its first bytes are wrong"));
        }
        let version = reader.u16()?;
        let segment = reader.u64()?;
        let boot = reader.short_string()?;
        let covered = bytes.len() - reader.remaining();
        if reader.u32()? != crc32fast::hash(&bytes[..covered]) {
            return Err(invalid_data("the header of the segment is corrupt"));
        }
        if version != VERSION {
            return Err(invalid_data(format!(
                "the segment has format version {version}; this version of outlive reads {VERSION}"
            )));
        }
        Ok((Self { kind, segment, boot }, covered + 4))
    }
}
