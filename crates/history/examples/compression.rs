//! Measures how small the format makes output, and how fast, for several levels of compression.
//!
//! ```text
//! cargo run --release -p outlive-history --example compression -- FILE...
//! ```
//!
//! Each file is the output of one program. It is encoded as the store does it: frames as they would be in a raw segment,
//! merged into blocks, with one chunk mark per 4 KiB or per line. The sizes contain the index entries in the footer.
//! `docs/reference/history-format.md` names the corpus and shows the results.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use outlive_history::format::{BlockEncoder, EncodedBlock, decode_block, merge_blocks, split_piece};
use outlive_history::{Block, ChunkMark, Piece, Stream};
use rustix::time::{ClockId, clock_gettime};

const LEVELS: [i32; 3] = [1, 3, 6];
const CHUNK_BYTES: usize = 4096;
/// Each measurement is repeated until it has used this much processor time, and the fastest repetition counts.
const MIN_DURATION: Duration = Duration::from_millis(700);

fn main() -> Result<(), Box<dyn Error>> {
    println!("| output | chunks | MB | level | stored | compress MB/s | decompress MB/s |");
    println!("|---|---|---|---|---|---|---|");
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let name = Path::new(&path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (kind, marks) in [("4 KiB", chunks(&bytes, false)), ("lines", chunks(&bytes, true))] {
            let blocks = blocks(&bytes, &marks);
            for level in LEVELS {
                let (stored, compress, decompress) = measure(&blocks, level)?;
                let megabytes = bytes.len() as f64 / 1e6;
                println!(
                    "| {name} | {kind} | {megabytes:.1} | {level} | {:.1} % | {:.0} | {:.0} |",
                    stored as f64 * 100.0 / bytes.len() as f64,
                    megabytes / compress.as_secs_f64(),
                    megabytes / decompress.as_secs_f64(),
                );
            }
        }
    }
    Ok(())
}

/// Marks of a program that writes in blocks of the C library, or line by line as on a terminal.
fn chunks(bytes: &[u8], lines: bool) -> Vec<ChunkMark> {
    let mut offset = 0;
    let mut marks = Vec::new();
    while offset < bytes.len() {
        let sequence = marks.len() as u64 + 1;
        // 20 MB/s, roughly the rate of a verbose build.
        let at_ms = 1_790_000_000_000 + offset as u64 / 20_000;
        marks.push(ChunkMark { sequence, offset: offset as u64, stream: Stream::Stdout, at_ms });
        let rest = &bytes[offset..];
        let line = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        offset += if lines { line.unwrap_or(rest.len()) } else { CHUNK_BYTES.min(rest.len()) };
    }
    marks
}

fn blocks(bytes: &[u8], marks: &[ChunkMark]) -> Vec<Block> {
    let whole = Piece { process: "p_0", offset: 0, marks, bytes };
    let pieces: Vec<_> = split_piece(&whole)
        .map(|piece| Block {
            offset: piece.offset,
            marks: piece.marks.to_vec(),
            bytes: Bytes::copy_from_slice(piece.bytes),
        })
        .collect();
    merge_blocks(&pieces)
}

/// The stored size of the blocks with their entries, and the time to encode and to decode all of them.
fn measure(blocks: &[Block], level: i32) -> Result<(usize, Duration, Duration), Box<dyn Error>> {
    let mut encoder = BlockEncoder::with_level(level)?;
    let mut encode = || blocks.iter().map(|block| encoder.encode("p_0", block)).collect::<Result<Vec<_>, _>>();
    let (encoded, compress) = fastest(&mut encode)?;
    let decode = |block: &EncodedBlock| decode_block(&block.entry, &block.bytes).map(|block| block.bytes.len());
    let mut decode_all = || encoded.iter().map(decode).sum::<Result<usize, _>>();
    let (_, decompress) = fastest(&mut decode_all)?;
    let stored = encoded.iter().map(|block| block.bytes.len() + block.entry.encode_value().len()).sum();
    Ok((stored, compress, decompress))
}

fn fastest<T>(run: &mut impl FnMut() -> std::io::Result<T>) -> std::io::Result<(T, Duration)> {
    let start = processor_time();
    let mut best = Duration::MAX;
    loop {
        let before = processor_time();
        let result = run()?;
        let after = processor_time();
        best = best.min(after.saturating_sub(before));
        if after.saturating_sub(start) >= MIN_DURATION {
            return Ok((result, best));
        }
    }
}

/// Processor time of this thread: it hardly depends on what else the machine does.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
