//! Chunk marks, as differences. Sequences are consecutive, so that only the first one is stored.

use std::io;

use super::wire::{WireReader, put_difference, put_varint};
use super::{MAX_BLOCK_BYTES, MAX_PROCESS_ID_BYTES, StreamSet, invalid_data, invalid_input};
use crate::{ChunkMark, Stream};

/// Upper bound of one encoded mark: a distance with its stream, and a time.
pub(super) const MAX_MARK_BYTES: usize = 2 * super::wire::MAX_VARINT_BYTES;

const STREAM_BITS: u32 = 3;

/// Stored beside encoded marks: enough to decode them, and to select blocks without decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkSummary {
    /// Sequence of the first mark - 1.
    pub(super) first_mark: u64,
    pub(super) mark_count: u32,
    /// Earliest time of a mark. The clock may have been set back between them.
    pub(super) first_at_ms: u64,
    /// Latest time of a mark.
    pub(super) last_at_ms: u64,
    pub(super) streams: StreamSet,
}

impl MarkSummary {
    fn from_marks(marks: &[ChunkMark]) -> Option<Self> {
        let first_mark = marks.first()?.sequence.checked_sub(1)?;
        let times = || marks.iter().map(|mark| mark.at_ms);
        Some(Self {
            first_mark,
            mark_count: u32::try_from(marks.len()).ok()?,
            first_at_ms: times().min()?,
            last_at_ms: times().max()?,
            streams: StreamSet::of_marks(marks),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.first_mark);
        put_varint(out, self.mark_count.into());
        put_varint(out, self.first_at_ms);
        put_varint(out, self.last_at_ms - self.first_at_ms);
        out.push(self.streams.bits());
    }

    /// Reads the summary of the marks of `len` bytes.
    pub(super) fn decode(reader: &mut WireReader<'_>, len: u32) -> io::Result<Self> {
        let first_mark = reader.varint()?;
        let mark_count = decode_count(reader, len)?;
        let first_at_ms = reader.varint()?;
        let last_at_ms =
            first_at_ms.checked_add(reader.varint()?).ok_or_else(|| invalid_data("a time is too large"))?;
        let streams =
            StreamSet::from_bits(reader.u8()?).ok_or_else(|| invalid_data("a block has an unknown stream"))?;
        Ok(Self { first_mark, mark_count, first_at_ms, last_at_ms, streams })
    }
}

/// Checks that output can be stored, and summarizes its marks.
pub(super) fn check(process: &str, offset: u64, bytes: &[u8], marks: &[ChunkMark]) -> io::Result<MarkSummary> {
    if process.is_empty() || process.len() > MAX_PROCESS_ID_BYTES {
        return Err(invalid_input(format!("a process id has 1 to {MAX_PROCESS_ID_BYTES} bytes")));
    }
    if bytes.is_empty() || bytes.len() > MAX_BLOCK_BYTES {
        return Err(invalid_input(format!("a piece of output has 1 to {MAX_BLOCK_BYTES} bytes")));
    }
    let Some(end) = offset.checked_add(bytes.len() as u64) else {
        return Err(invalid_input("the output ends beyond the largest offset"));
    };
    let Some(summary) = MarkSummary::from_marks(marks) else {
        return Err(invalid_input("output needs the mark of its first chunk"));
    };
    let first_is_fine = marks[0].offset <= offset && (offset - marks[0].offset) >> (u64::BITS - STREAM_BITS) == 0;
    let rest_is_fine = marks.windows(2).all(|pair| {
        pair[1].sequence.checked_sub(1) == Some(pair[0].sequence)
            && pair[1].offset > pair[0].offset.max(offset)
            && pair[1].offset < end
    });
    if !first_is_fine || !rest_is_fine {
        return Err(invalid_input("the marks are not those of the chunks that overlap the output"));
    }
    Ok(summary)
}

/// Writes marks that [`check`] accepted.
pub(super) fn encode(marks: &[ChunkMark], offset: u64, first_at_ms: u64, out: &mut Vec<u8>) {
    let mut position = offset;
    let mut at_ms = first_at_ms;
    for (index, mark) in marks.iter().enumerate() {
        // Only the first chunk may start before the bytes: its distance goes backwards.
        let distance = if index == 0 { offset - mark.offset } else { mark.offset - position };
        put_varint(out, distance << STREAM_BITS | mark.stream as u64);
        put_difference(out, at_ms, mark.at_ms);
        position = position.max(mark.offset);
        at_ms = mark.at_ms;
    }
}

/// Reads the marks of the bytes from `offset` to `end`, and calls `push` for each of them.
pub(super) fn decode(
    reader: &mut WireReader<'_>,
    offset: u64,
    end: u64,
    expected: &MarkSummary,
    mut push: impl FnMut(ChunkMark),
) -> io::Result<()> {
    let (mut position, mut at_ms) = (offset, expected.first_at_ms);
    let (mut earliest, mut latest, mut streams) = (u64::MAX, 0, 0);
    for index in 0..u64::from(expected.mark_count) {
        let word = reader.varint()?;
        let stream = Stream::from_u8((word & ((1 << STREAM_BITS) - 1)) as u8)
            .ok_or_else(|| invalid_data("a chunk has an unknown stream"))?;
        let distance = word >> STREAM_BITS;
        let start = if index == 0 {
            offset.checked_sub(distance)
        } else {
            position.checked_add(distance).filter(|start| *start > position && *start < end)
        };
        let start = start.ok_or_else(|| invalid_data("a chunk does not overlap the bytes of its block"))?;
        at_ms = reader.difference(at_ms)?;
        position = position.max(start);
        (earliest, latest) = (earliest.min(at_ms), latest.max(at_ms));
        streams |= 1 << (stream as u8 - 1);
        let sequence = expected
            .first_mark
            .checked_add(index + 1)
            .ok_or_else(|| invalid_data("the sequence of a chunk is too large"))?;
        push(ChunkMark { sequence, offset: start, stream, at_ms });
    }
    let found = (earliest, latest, streams);
    if found != (expected.first_at_ms, expected.last_at_ms, expected.streams.bits()) {
        return Err(invalid_data("the times or streams of the chunks differ from the index"));
    }
    Ok(())
}

/// Reads the length of some output at `offset`.
pub(super) fn decode_len(reader: &mut WireReader<'_>, offset: u64) -> io::Result<u32> {
    let len = reader.varint_u32()?;
    if len == 0 || len as usize > MAX_BLOCK_BYTES || offset.checked_add(len.into()).is_none() {
        return Err(invalid_data("the length of a block is outside of its bounds"));
    }
    Ok(len)
}

/// Reads the number of the marks of `len` bytes: each chunk has at least one of them.
pub(super) fn decode_count(reader: &mut WireReader<'_>, len: u32) -> io::Result<u32> {
    let count = reader.varint_u32()?;
    if count == 0 || count > len {
        return Err(invalid_data("the number of chunks does not fit the number of bytes"));
    }
    Ok(count)
}
