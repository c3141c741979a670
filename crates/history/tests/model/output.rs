//! What a process wrote, whether it was stored or not.

use outlive_history::{ChunkMark, Stream};

const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Terminal];

/// Bytes depend only on the process and the offset, and do not compress.
pub struct Output {
    pub process: String,
    seed: u64,
    pub marks: Vec<ChunkMark>,
    pub head: u64,
}

impl Output {
    pub fn new(process: String, seed: u64) -> Self {
        Self { process, seed: seed.wrapping_mul(0xd134_2543_de82_ef95), marks: Vec::new(), head: 0 }
    }

    pub fn add_chunk(&mut self, len: u64, at_ms: u64) {
        let sequence = self.marks.len() as u64 + 1;
        let stream = STREAMS[(sequence % 3) as usize];
        self.marks.push(ChunkMark { sequence, offset: self.head, stream, at_ms });
        self.head += len;
    }

    pub fn bytes(&self, start: u64, end: u64) -> Vec<u8> {
        // Eight at a time: most of the time of a test is spent here.
        let word = |index: u64| {
            let mixed = (index ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()
        };
        let bytes: Vec<u8> = (start / 8..end.div_ceil(8)).flat_map(word).collect();
        let skipped = (start % 8) as usize;
        bytes[skipped..skipped + (end - start) as usize].to_vec()
    }

    /// The marks of the chunks that overlap a range.
    pub fn marks_in(&self, start: u64, end: u64) -> Vec<ChunkMark> {
        let ends = self.marks.iter().skip(1).map(|mark| mark.offset).chain([self.head]);
        let overlaps = |(mark, chunk_end): &(&ChunkMark, u64)| mark.offset < end && *chunk_end > start;
        self.marks.iter().zip(ends).filter(overlaps).map(|(mark, _)| *mark).collect()
    }
}
