//! Frames: pieces of output in a raw segment.
//!
//! A frame is written by one append, so that a crash can only tear the last ones. A reader stops at the first frame
//! whose checksum is wrong: everything before it is exactly what was written.

use std::io;
use std::iter::FusedIterator;

use bytes::Bytes;

use super::header::{FileHeader, FileKind};
use super::marks::{self, MarkSummary};
use super::wire::{MAX_VARINT_BYTES, WireReader, put_short_string, put_varint};
use super::{MAX_BLOCK_BYTES, MAX_PROCESS_ID_BYTES, StreamSet, invalid_data};
use crate::disk::DiskFile;
use crate::{Block, Piece};

/// Upper bound of an encoded frame.
pub const MAX_FRAME_BYTES: usize =
    MAX_BLOCK_BYTES * (1 + marks::MAX_MARK_BYTES) + MAX_PROCESS_ID_BYTES + 8 * MAX_VARINT_BYTES;

/// Longest raw segment that is read. A segment is closed long before it is this long.
const MAX_RAW_BYTES: u64 = 256 * 1024 * 1024;

const CRC_BYTES: usize = 4;

/// What a frame contains, without its bytes and marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
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
}

impl FrameHeader {
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
}

/// A valid frame of a raw segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedFrame {
    /// Position of the frame in the file.
    pub at: u64,
    /// Length of the encoded frame in the file.
    pub stored_len: u32,
    pub header: FrameHeader,
}

/// All valid frames of a raw segment.
#[derive(Debug)]
pub struct RawScan {
    pub header: FileHeader,
    pub frames: Vec<ScannedFrame>,
    /// Where the valid data ends. Later bytes are torn or corrupt.
    pub valid_len: u64,
    /// Why the scan ended before the end of the file.
    pub damage: Option<io::Error>,
}

/// Appends the frame of a piece of at most [`MAX_BLOCK_BYTES`] to `out`; see [`split_piece`]. If it fails, `out` is
/// unchanged: the piece is empty or too long, or its marks are not those of its bytes.
pub fn encode_frame(piece: &Piece<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let summary = marks::check(piece.process, piece.offset, piece.bytes, piece.marks)?;
    let mut front = Vec::with_capacity(piece.process.len() + 32 + piece.marks.len() * 4);
    put_short_string(&mut front, piece.process);
    put_varint(&mut front, piece.offset);
    put_varint(&mut front, piece.bytes.len() as u64);
    summary.encode(&mut front);
    marks::encode(piece.marks, piece.offset, summary.first_at_ms, &mut front);

    let start = out.len();
    out.reserve(CRC_BYTES + MAX_VARINT_BYTES + front.len() + piece.bytes.len());
    out.extend_from_slice(&[0; CRC_BYTES]);
    put_varint(out, (front.len() + piece.bytes.len()) as u64);
    out.extend_from_slice(&front);
    out.extend_from_slice(piece.bytes);
    let crc = crc32fast::hash(&out[start + CRC_BYTES..]);
    out[start..start + CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// Cuts a piece into pieces of at most [`MAX_BLOCK_BYTES`]. A chunk that is cut has its mark on both sides.
pub fn split_piece<'a>(piece: &Piece<'a>) -> impl Iterator<Item = Piece<'a>> + use<'a> {
    let Piece { process, offset, marks, bytes } = *piece;
    bytes.chunks(MAX_BLOCK_BYTES).scan((offset, marks), move |(offset, marks), bytes| {
        let end = offset.saturating_add(bytes.len() as u64);
        let count = marks.partition_point(|mark| mark.offset < end);
        let part = Piece { process, offset: *offset, marks: &marks[..count], bytes };
        // The next part starts in the last chunk of this one, unless a chunk starts at its first byte.
        let starts_at_end = marks.get(count).is_some_and(|mark| mark.offset == end);
        *marks = &marks[if starts_at_end { count } else { count.saturating_sub(1) }..];
        *offset = end;
        Some(part)
    })
}

/// Reads the header of the frame at the start of `bytes`. The marks and the bytes of the frame need not be there, and
/// nothing is verified.
pub fn decode_frame_header(bytes: &[u8]) -> io::Result<FrameHeader> {
    let mut reader = WireReader::new(bytes);
    reader.u32()?;
    reader.varint()?;
    read_header(&mut reader)
}

/// Verifies and decodes one whole frame, and the id of its process.
pub fn decode_frame(bytes: &[u8]) -> io::Result<(String, Block)> {
    let (frame, stored_len) = verify(bytes)?;
    if stored_len != bytes.len() {
        return Err(invalid_data("a frame is followed by other bytes"));
    }
    let mut reader = WireReader::new(frame);
    let header = read_header(&mut reader)?;
    let mut marks = Vec::with_capacity(header.mark_count as usize);
    let bytes = read_content(&mut reader, &header, |mark| marks.push(mark))?;
    Ok((header.process, Block { offset: header.offset, marks, bytes: Bytes::copy_from_slice(bytes) }))
}

/// Reads and verifies all frames of a raw segment. Fails with `InvalidData` if the file header is torn or corrupt.
pub fn scan_raw(file: &dyn DiskFile) -> io::Result<RawScan> {
    let len = file.len()?;
    if len > MAX_RAW_BYTES {
        return Err(invalid_data("the raw segment is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let mut reader = FrameReader::new(&bytes)?;
    let frames = reader.by_ref().collect();
    Ok(RawScan { valid_len: reader.position(), damage: reader.damage, header: reader.header, frames })
}

/// Iterates over the frames of a raw segment, up to the first one that is torn or corrupt.
#[derive(Debug)]
pub struct FrameReader<'a> {
    header: FileHeader,
    bytes: &'a [u8],
    position: usize,
    damage: Option<io::Error>,
}

impl<'a> FrameReader<'a> {
    /// `bytes` is the whole file. Fails if its header is torn or corrupt.
    pub fn new(bytes: &'a [u8]) -> io::Result<Self> {
        let (header, position) = FileHeader::decode(FileKind::Raw, bytes)?;
        Ok(Self { header, bytes, position, damage: None })
    }

    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Where the valid data ends, once the iteration has ended.
    pub fn position(&self) -> u64 {
        self.position as u64
    }

    /// Why the iteration ended before the end of the file.
    pub fn damage(&self) -> Option<&io::Error> {
        self.damage.as_ref()
    }
}

impl Iterator for FrameReader<'_> {
    type Item = ScannedFrame;

    fn next(&mut self) -> Option<ScannedFrame> {
        if self.position == self.bytes.len() || self.damage.is_some() {
            return None;
        }
        match scan_frame(&self.bytes[self.position..]) {
            Ok((header, stored_len)) => {
                let at = self.position as u64;
                self.position += stored_len;
                Some(ScannedFrame { at, stored_len: stored_len as u32, header })
            }
            Err(error) => {
                self.damage = Some(error);
                None
            }
        }
    }
}

impl FusedIterator for FrameReader<'_> {}

/// Verifies the frame at the start of `bytes` as [`decode_frame`] does, without copying it.
fn scan_frame(bytes: &[u8]) -> io::Result<(FrameHeader, usize)> {
    let (frame, stored_len) = verify(bytes)?;
    let mut reader = WireReader::new(frame);
    let header = read_header(&mut reader)?;
    read_content(&mut reader, &header, |_| {})?;
    Ok((header, stored_len))
}

/// Checks length and checksum of the frame at the start of `bytes`. Returns what follows its length, and the length of
/// the whole frame.
fn verify(bytes: &[u8]) -> io::Result<(&[u8], usize)> {
    let mut reader = WireReader::new(bytes);
    let crc = reader.u32()?;
    let length = reader.varint()?;
    if length > MAX_FRAME_BYTES as u64 {
        return Err(invalid_data("a frame is too long"));
    }
    let frame = reader.take(length as usize).map_err(|_| invalid_data("a frame is not complete"))?;
    let stored_len = bytes.len() - reader.remaining();
    if crc32fast::hash(&bytes[CRC_BYTES..stored_len]) != crc {
        return Err(invalid_data("the checksum of a frame is wrong"));
    }
    Ok((frame, stored_len))
}

fn read_header(reader: &mut WireReader<'_>) -> io::Result<FrameHeader> {
    let process = reader.short_string()?;
    if process.is_empty() {
        return Err(invalid_data("a frame has no process"));
    }
    let offset = reader.varint()?;
    let len = marks::decode_len(reader, offset)?;
    let MarkSummary { first_mark, mark_count, first_at_ms, last_at_ms, streams } = MarkSummary::decode(reader, len)?;
    Ok(FrameHeader { process, offset, len, first_mark, mark_count, first_at_ms, last_at_ms, streams })
}

/// Reads marks and bytes, which must be all that remains.
fn read_content<'a>(
    reader: &mut WireReader<'a>,
    header: &FrameHeader,
    push: impl FnMut(crate::ChunkMark),
) -> io::Result<&'a [u8]> {
    marks::decode(reader, header.offset, header.end(), &header.summary(), push)?;
    if reader.remaining() != header.len as usize {
        return Err(invalid_data("a frame does not have the number of bytes that its header names"));
    }
    reader.take(header.len as usize)
}
