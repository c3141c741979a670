//! The bytes of raw and sealed segments. `docs/reference/history-format.md` is the specification.
//!
//! ```text
//! N.raw:  file header | frame | frame | frame …                          appended to; only its end can be torn
//! N.seg:  file header | block | block | … | footer: entries by process, crc, length, magic
//! ```
//!
//! * [`frame`]: one piece of output in a raw segment, uncompressed, with its own checksum.
//! * [`block`]: up to [`MAX_BLOCK_BYTES`] of one process, compressed, described by a [`BlockEntry`].
//! * [`segment`]: writes and reads sealed segments. Blocks can be copied between segments without decoding them.
//!
//! No input can make these functions panic or allocate more than a small multiple of the bounds below. Bytes that do not
//! follow the specification give `InvalidData`; values that it cannot express give `InvalidInput`.

pub mod block;
pub mod frame;
pub mod header;
mod marks;
pub mod segment;
#[cfg(test)]
mod tests;
mod wire;

use std::io;

use outlive_holder::log::Stream;

pub use block::{
    BlockEncoder, BlockEntry, BlockMerger, COMPRESSION_LEVEL, EncodedBlock, decode_block, encode_block, merge_blocks,
};
pub use frame::{
    FrameHeader, FrameReader, RawScan, ScannedFrame, decode_frame, decode_frame_header, encode_frame, scan_raw,
    split_piece,
};
pub use header::{FileHeader, FileKind};
pub use segment::{SegmentWriter, read_block, read_footer, read_header, read_stored_block};

use crate::ChunkMark;

/// Most bytes of output in one frame or block. A read of any byte decodes at most this much.
pub const MAX_BLOCK_BYTES: usize = 256 * 1024;

/// Longest id of a process.
pub const MAX_PROCESS_ID_BYTES: usize = 255;

/// The streams of some chunks, as a set of bits: bit `stream - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamSet(u8);

impl StreamSet {
    const ALL: u8 = 0b1111;

    pub fn of_marks(marks: &[ChunkMark]) -> Self {
        Self(marks.iter().fold(0, |bits, mark| bits | Self::bit(mark.stream)))
    }

    /// `None`: a bit is set that belongs to no stream.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits & !Self::ALL == 0).then_some(Self(bits))
    }

    pub fn bits(self) -> u8 {
        self.0
    }

    pub fn contains(self, stream: Stream) -> bool {
        self.0 & Self::bit(stream) != 0
    }

    fn bit(stream: Stream) -> u8 {
        1 << (stream as u8 - 1)
    }
}

fn invalid_data(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

fn invalid_input(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message.into())
}
