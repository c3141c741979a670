//! Sealed segments: blocks, and a footer that finds them.

use std::io;

use super::block::{BlockEncoder, BlockEntry, check_stored, decode_block};
use super::header::{FileHeader, FileKind};
use super::marks::{self, MarkSummary};
use super::wire::{WireReader, put_difference, put_short_string, put_varint};
use super::{MAX_BLOCK_BYTES, StreamSet, invalid_data, invalid_input};
use crate::Block;
use crate::disk::DiskFile;

const END_MAGIC: [u8; 8] = *b"OLVH-END";
/// Length, checksum and magic after the entries.
const TRAILER_BYTES: usize = 4 + 4 + END_MAGIC.len();
/// Bytes that are written at once.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;

/// Writes a sealed segment into an empty file. The file is complete, and not yet synced, after `finish`.
pub struct SegmentWriter<'a> {
    file: &'a dyn DiskFile,
    encoder: BlockEncoder,
    buffer: Vec<u8>,
    written: u64,
    entries: Vec<BlockEntry>,
}

impl<'a> SegmentWriter<'a> {
    pub fn new(file: &'a dyn DiskFile, segment: u64, boot: &str) -> io::Result<Self> {
        let buffer = FileHeader { kind: FileKind::Sealed, segment, boot: boot.to_owned() }.encode()?;
        Ok(Self { file, encoder: BlockEncoder::new()?, buffer, written: 0, entries: Vec::new() })
    }

    /// Length of the file if it was finished now, without its footer.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// True while it contains no block.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Compresses and appends a block.
    pub fn append(&mut self, process: &str, block: &Block) -> io::Result<()> {
        let encoded = self.encoder.encode(process, block)?;
        self.write(encoded.entry, &encoded.bytes)
    }

    /// Appends a block of another segment as it is.
    pub fn append_stored(&mut self, entry: &BlockEntry, stored: &[u8]) -> io::Result<()> {
        check_stored(entry, stored)?;
        self.write(entry.clone(), stored)
    }

    /// Writes the footer. Returns the entries by process and offset, and the length of the file.
    pub fn finish(mut self) -> io::Result<(Vec<BlockEntry>, u64)> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| (&a.process, a.offset, a.at).cmp(&(&b.process, b.offset, b.at)));
        let mut footer = encode_footer(&entries);
        let length = u32::try_from(footer.len()).map_err(|_| invalid_input("the segment has too many blocks"))?;
        footer.extend_from_slice(&length.to_le_bytes());
        let crc = crc32fast::hash(&footer);
        footer.extend_from_slice(&crc.to_le_bytes());
        footer.extend_from_slice(&END_MAGIC);
        self.buffer.extend_from_slice(&footer);
        self.flush()?;
        Ok((entries, self.written))
    }

    fn write(&mut self, mut entry: BlockEntry, stored: &[u8]) -> io::Result<()> {
        entry.at = self.len();
        self.buffer.extend_from_slice(stored);
        self.entries.push(entry);
        if self.buffer.len() >= WRITE_BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads and verifies the header of a segment file.
pub fn read_header(file: &dyn DiskFile, kind: FileKind) -> io::Result<FileHeader> {
    Ok(read_header_and_len(file, kind)?.0)
}

fn read_header_and_len(file: &dyn DiskFile, kind: FileKind) -> io::Result<(FileHeader, usize)> {
    let mut bytes = vec![0; file.len()?.min(FileHeader::MAX_BYTES as u64) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    FileHeader::decode(kind, &bytes)
}

/// Reads and verifies the footer of a sealed segment: its entries by process and offset.
pub fn read_footer(file: &dyn DiskFile) -> io::Result<Vec<BlockEntry>> {
    let (_, blocks_start) = read_header_and_len(file, FileKind::Sealed)?;
    let torn = || invalid_data("the segment has no footer: it was not written to its end");
    let trailer_at = file.len()?.checked_sub(TRAILER_BYTES as u64).ok_or_else(torn)?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at)?;
    let mut reader = WireReader::new(&trailer);
    let (length, crc) = (reader.u32()?, reader.u32()?);
    if reader.array()? != END_MAGIC {
        return Err(torn());
    }
    let blocks_end = trailer_at
        .checked_sub(length.into())
        .filter(|end| *end >= blocks_start as u64)
        .ok_or_else(|| invalid_data("the footer of the segment is longer than the file"))?;
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, blocks_end)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&footer);
    hasher.update(&length.to_le_bytes());
    if hasher.finalize() != crc {
        return Err(invalid_data("the checksum of the segment's footer is wrong"));
    }
    decode_footer(&footer, blocks_start as u64, blocks_end)
}

/// Reads a block as it is stored, to copy it into another segment.
pub fn read_stored_block(file: &dyn DiskFile, entry: &BlockEntry) -> io::Result<Vec<u8>> {
    let max_stored_bytes = 1 + MAX_BLOCK_BYTES * (1 + marks::MAX_MARK_BYTES);
    if entry.stored_len as usize > max_stored_bytes {
        return Err(invalid_data("the stored length of a block is outside of its bounds"));
    }
    let mut stored = vec![0; entry.stored_len as usize];
    file.read_exact_at(&mut stored, entry.at)?;
    check_stored(entry, &stored)?;
    Ok(stored)
}

/// Reads, verifies and decodes a block.
pub fn read_block(file: &dyn DiskFile, entry: &BlockEntry) -> io::Result<Block> {
    decode_block(entry, &read_stored_block(file, entry)?)
}

/// Writes entries that are sorted by process and offset.
fn encode_footer(entries: &[BlockEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    // Times are close to each other, and most blocks follow each other in the file.
    let (mut at_ms, mut at) = (0, 0);
    for group in entries.chunk_by(|a, b| a.process == b.process) {
        put_short_string(&mut out, &group[0].process);
        put_varint(&mut out, group.len() as u64);
        let mut offset = 0;
        for entry in group {
            put_varint(&mut out, entry.offset - offset);
            put_varint(&mut out, entry.len.into());
            put_varint(&mut out, entry.first_mark);
            put_varint(&mut out, entry.mark_count.into());
            put_difference(&mut out, at_ms, entry.first_at_ms);
            put_varint(&mut out, entry.last_at_ms - entry.first_at_ms);
            out.push(entry.streams.bits());
            put_difference(&mut out, at, entry.at);
            put_varint(&mut out, entry.stored_len.into());
            out.extend_from_slice(&entry.crc.to_le_bytes());
            (offset, at_ms, at) = (entry.offset, entry.first_at_ms, entry.at + u64::from(entry.stored_len));
        }
    }
    out
}

fn decode_footer(footer: &[u8], blocks_start: u64, blocks_end: u64) -> io::Result<Vec<BlockEntry>> {
    let mut reader = WireReader::new(footer);
    let mut entries: Vec<BlockEntry> = Vec::new();
    let (mut at_ms, mut at) = (0, 0);
    while reader.remaining() > 0 {
        let process = reader.short_string()?;
        if process.is_empty() || entries.last().is_some_and(|last| last.process >= process) {
            return Err(invalid_data("the processes in the footer are not in order"));
        }
        let count = reader.varint()?;
        if count == 0 {
            return Err(invalid_data("a process in the footer has no blocks"));
        }
        let mut offset = 0;
        for _ in 0..count {
            let entry = decode_entry(&mut reader, &process, (offset, at_ms, at))?;
            let end = entry.at.checked_add(entry.stored_len.into());
            if entry.at < blocks_start || end.is_none_or(|end| end > blocks_end) {
                return Err(invalid_data("an entry in the footer is outside of the blocks"));
            }
            (offset, at_ms, at) = (entry.offset, entry.first_at_ms, end.unwrap_or(0));
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn decode_entry(
    reader: &mut WireReader<'_>,
    process: &str,
    (offset, at_ms, at): (u64, u64, u64),
) -> io::Result<BlockEntry> {
    let too_large = || invalid_data("a number in the footer is too large");
    let offset = offset.checked_add(reader.varint()?).ok_or_else(too_large)?;
    let len = marks::decode_len(reader, offset)?;
    let (first_mark, mark_count) = (reader.varint()?, marks::decode_count(reader, len)?);
    let first_at_ms = reader.difference(at_ms)?;
    let last_at_ms = first_at_ms.checked_add(reader.varint()?).ok_or_else(too_large)?;
    let streams = StreamSet::from_bits(reader.u8()?).ok_or_else(|| invalid_data("a block has an unknown stream"))?;
    let place = (reader.difference(at)?, reader.varint_u32()?, reader.u32()?);
    let summary = MarkSummary { first_mark, mark_count, first_at_ms, last_at_ms, streams };
    Ok(BlockEntry::from_parts(process.to_owned(), offset, len, summary, place))
}
