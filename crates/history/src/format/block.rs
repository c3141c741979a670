//! Blocks: up to [`MAX_BLOCK_BYTES`] of one process in a sealed segment, compressed.

use std::io;

use bytes::Bytes;

use super::marks::{self, MarkSummary};
use super::wire::{WireReader, put_varint};
use super::{MAX_BLOCK_BYTES, StreamSet, invalid_data};
use crate::{Block, Piece};

/// Chosen by measurement: see the table in `docs/reference/history-format.md`.
pub const COMPRESSION_LEVEL: i32 = 1;

/// First byte of a stored block: how the rest is encoded.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Index entry of a block: what it contains and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    pub process: String,
    /// Offset of the first byte in the log of the process.
    pub offset: u64,
    /// Number of bytes of output.
    pub len: u32,
    /// Number of the first mark, which is its sequence - 1.
    pub first_mark: u64,
    pub mark_count: u32,
    /// Earliest and latest time of a mark.
    pub first_at_ms: u64,
    pub last_at_ms: u64,
    pub streams: StreamSet,
    /// Position of the stored block in its segment.
    pub at: u64,
    pub stored_len: u32,
    /// Checksum of the stored block.
    pub crc: u32,
}

impl BlockEntry {
    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Number after the last mark.
    pub fn end_mark(&self) -> u64 {
        self.first_mark.saturating_add(self.mark_count.into())
    }

    fn summary(&self) -> MarkSummary {
        MarkSummary {
            first_mark: self.first_mark,
            mark_count: self.mark_count,
            first_at_ms: self.first_at_ms,
            last_at_ms: self.last_at_ms,
            streams: self.streams,
        }
    }

    /// All but process and offset, for an index that has them as its key.
    pub fn encode_value(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        put_varint(&mut out, self.len.into());
        self.summary().encode(&mut out);
        put_varint(&mut out, self.at);
        put_varint(&mut out, self.stored_len.into());
        out.extend_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// The inverse of [`encode_value`](Self::encode_value).
    pub fn decode_value(process: &str, offset: u64, value: &[u8]) -> io::Result<Self> {
        let mut reader = WireReader::new(value);
        let len = marks::decode_len(&mut reader, offset)?;
        let summary = MarkSummary::decode(&mut reader, len)?;
        let (at, stored_len, crc) = (reader.varint()?, reader.varint_u32()?, reader.u32()?);
        if reader.remaining() > 0 {
            return Err(invalid_data("an index entry is followed by other bytes"));
        }
        Ok(Self::from_parts(process.to_owned(), offset, len, summary, (at, stored_len, crc)))
    }

    pub(super) fn from_parts(
        process: String,
        offset: u64,
        len: u32,
        summary: MarkSummary,
        (at, stored_len, crc): (u64, u32, u32),
    ) -> Self {
        let MarkSummary { first_mark, mark_count, first_at_ms, last_at_ms, streams } = summary;
        Self { process, offset, len, first_mark, mark_count, first_at_ms, last_at_ms, streams, at, stored_len, crc }
    }
}

/// A block as it is stored. Its entry has the position 0 until a segment contains it.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    pub bytes: Vec<u8>,
    pub entry: BlockEntry,
}

/// Compresses blocks, one after the other, with the same memory.
pub struct BlockEncoder {
    compressor: zstd::bulk::Compressor<'static>,
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

impl BlockEncoder {
    pub fn new() -> io::Result<Self> {
        Self::with_level(COMPRESSION_LEVEL)
    }

    /// Readers need not know the level.
    pub fn with_level(level: i32) -> io::Result<Self> {
        let compressor = zstd::bulk::Compressor::new(level)?;
        Ok(Self { compressor, plain: Vec::new(), compressed: Vec::new() })
    }

    /// Fails with `InvalidInput` if the block is empty or longer than [`MAX_BLOCK_BYTES`], or its marks are not those
    /// of its bytes.
    pub fn encode(&mut self, process: &str, block: &Block) -> io::Result<EncodedBlock> {
        let summary = marks::check(process, block.offset, &block.bytes, &block.marks)?;
        self.plain.clear();
        self.plain.push(PLAIN);
        marks::encode(&block.marks, block.offset, summary.first_at_ms, &mut self.plain);
        self.plain.extend_from_slice(&block.bytes);

        let content = &self.plain[1..];
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(content.len()));
        self.compressor.compress_to_buffer(content, &mut self.compressed)?;
        // Short output seldom becomes shorter.
        let bytes = if self.compressed.len() < content.len() {
            [&[ZSTD], self.compressed.as_slice()].concat()
        } else {
            self.plain.clone()
        };
        let place = (0, bytes.len() as u32, crc32fast::hash(&bytes));
        let len = block.bytes.len() as u32;
        let entry = BlockEntry::from_parts(process.to_owned(), block.offset, len, summary, place);
        Ok(EncodedBlock { bytes, entry })
    }
}

/// Compresses one block. [`BlockEncoder`] is faster for many.
pub fn encode_block(process: &str, block: &Block) -> io::Result<EncodedBlock> {
    BlockEncoder::new()?.encode(process, block)
}

/// Verifies and decodes a stored block.
pub fn decode_block(entry: &BlockEntry, stored: &[u8]) -> io::Result<Block> {
    check_stored(entry, stored)?;
    if entry.len as usize > MAX_BLOCK_BYTES || entry.mark_count > entry.len {
        return Err(invalid_data("the length of a block is outside of its bounds"));
    }
    let end = entry.offset.checked_add(entry.len.into()).ok_or_else(|| invalid_data("an offset is too large"))?;
    let (encoding, content) = stored.split_first().ok_or_else(|| invalid_data("a block is empty"))?;
    let max_bytes = entry.len as usize + entry.mark_count as usize * marks::MAX_MARK_BYTES;
    let content = match *encoding {
        PLAIN if content.len() <= max_bytes => Bytes::copy_from_slice(content),
        ZSTD => decompress(content, max_bytes)?,
        _ => return Err(invalid_data("a block has an unknown encoding")),
    };
    let mut reader = WireReader::new(&content);
    let mut marks = Vec::with_capacity(entry.mark_count as usize);
    marks::decode(&mut reader, entry.offset, end, &entry.summary(), |mark| marks.push(mark))?;
    if reader.remaining() != entry.len as usize {
        return Err(invalid_data("a block does not have the number of bytes that the index names"));
    }
    let bytes = content.slice(content.len() - entry.len as usize..);
    Ok(Block { offset: entry.offset, marks, bytes })
}

/// Verifies that stored bytes are those of the entry.
pub(super) fn check_stored(entry: &BlockEntry, stored: &[u8]) -> io::Result<()> {
    if stored.len() != entry.stored_len as usize || crc32fast::hash(stored) != entry.crc {
        return Err(invalid_data(format!(
            "cannot read the output at offset {}: the checksum of its block is wrong",
            entry.offset
        )));
    }
    Ok(())
}

fn decompress(content: &[u8], max_bytes: usize) -> io::Result<Bytes> {
    let bytes = zstd::bulk::decompress(content, max_bytes)
        .map_err(|error| invalid_data(format!("cannot decompress a block: {error}")))?;
    Ok(bytes.into())
}

/// Joins consecutive pieces of one process into blocks of [`MAX_BLOCK_BYTES`].
#[derive(Debug, Default)]
pub struct BlockMerger {
    offset: u64,
    marks: Vec<crate::ChunkMark>,
    bytes: Vec<u8>,
}

impl BlockMerger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next piece of the process. Returns the blocks that are complete: full ones, and the one before a gap.
    pub fn push(&mut self, piece: &Block) -> Vec<Block> {
        let mut complete = Vec::new();
        if piece.bytes.is_empty() {
            return complete;
        }
        if !self.continues_with(piece) {
            complete.extend(self.take());
        }
        if self.bytes.is_empty() {
            self.offset = piece.offset;
        }
        let known = self.marks.last().map_or(0, |last| last.sequence);
        self.marks.extend(piece.marks.iter().filter(|mark| mark.sequence > known));
        self.bytes.extend_from_slice(&piece.bytes);
        if self.bytes.len() >= MAX_BLOCK_BYTES {
            complete.extend(self.cut());
        }
        complete
    }

    /// The last block.
    pub fn finish(mut self) -> Option<Block> {
        self.take()
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn continues_with(&self, piece: &Block) -> bool {
        let (Some(last), Some(first)) = (self.marks.last(), piece.marks.first()) else { return false };
        let same_chunk = first == last;
        let next_chunk = first.sequence.checked_sub(1) == Some(last.sequence) && first.offset == piece.offset;
        piece.offset == self.end() && (same_chunk || next_chunk)
    }

    /// Takes all full blocks and leaves the rest.
    fn cut(&mut self) -> Vec<Block> {
        let (offset, marks, bytes) = (self.offset, std::mem::take(&mut self.marks), std::mem::take(&mut self.bytes));
        let piece = Piece { process: "", offset, marks: &marks, bytes: &bytes };
        let mut blocks = Vec::new();
        for part in super::split_piece(&piece) {
            if part.bytes.len() == MAX_BLOCK_BYTES {
                let bytes = Bytes::copy_from_slice(part.bytes);
                blocks.push(Block { offset: part.offset, marks: part.marks.to_vec(), bytes });
            } else {
                self.offset = part.offset;
                self.marks = part.marks.to_vec();
                self.bytes = part.bytes.to_vec();
            }
        }
        blocks
    }

    fn take(&mut self) -> Option<Block> {
        let (marks, bytes) = (std::mem::take(&mut self.marks), std::mem::take(&mut self.bytes));
        (!bytes.is_empty()).then(|| Block { offset: self.offset, marks, bytes: bytes.into() })
    }
}

/// Joins consecutive pieces of one process into as few blocks as possible.
pub fn merge_blocks<'a>(pieces: impl IntoIterator<Item = &'a Block>) -> Vec<Block> {
    let mut merger = BlockMerger::new();
    let mut blocks: Vec<Block> = pieces.into_iter().flat_map(|piece| merger.push(piece)).collect();
    blocks.extend(merger.finish());
    blocks
}
