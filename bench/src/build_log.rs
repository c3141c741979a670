//! A build log as the measured programs print it: lines of one length, each computed from its number, so that every
//! byte follows from its offset.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

pub const LINE_BYTES: usize = 100;

/// Lines are printed this many at a time: about as much as a pipe takes in one write.
const BATCH_LINES: u64 = 640;

/// The text of line `number`. A file name and a digest vary as they do in a real build.
fn write_line(number: u64, text: &mut String) {
    let digest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number >> 7);
    let start = text.len();
    let (module, file) = (digest % 97, digest / 97 % 5_003);
    let _ = write!(
        text,
        "[{number:>9}] cc -O2 -g -Wall -Iinclude -c src/module_{module:02}/file_{file:04}.c -o {:016x}.o",
        digest & 0xffff_ffff
    );
    debug_assert!(text.len() - start < LINE_BYTES, "the line is too long");
    while text.len() - start < LINE_BYTES - 1 {
        text.push(' ');
    }
    text.push('\n');
}

/// Prints `bytes` bytes, as fast as possible or at a rate. A program that was blocked catches up.
pub fn print(bytes: u64, bytes_per_second: Option<f64>, out: &mut impl Write) -> io::Result<()> {
    let started = Instant::now();
    let lines = bytes / LINE_BYTES as u64;
    let mut text = String::new();
    for first in (0..lines).step_by(BATCH_LINES as usize) {
        text.clear();
        (first..lines.min(first + BATCH_LINES)).for_each(|number| write_line(number, &mut text));
        out.write_all(text.as_bytes())?;
        if let Some(rate) = bytes_per_second {
            let due = Duration::from_secs_f64(first as f64 * LINE_BYTES as f64 / rate);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
    Ok(())
}

/// Prints `bytes` bytes as fast as the reader takes them: the lines are computed before, and repeat.
pub fn flood(bytes: u64, out: &mut impl Write) -> io::Result<()> {
    /// Far more than a compressor remembers.
    const COMPUTED_BYTES: u64 = 32_000_000;
    const WRITE_BYTES: usize = 64 * 1024;
    let mut text = Vec::new();
    print(COMPUTED_BYTES.min(bytes), None, &mut text)?;
    let mut left = bytes as usize;
    while left > 0 {
        for chunk in text.chunks(WRITE_BYTES) {
            let count = chunk.len().min(left);
            out.write_all(&chunk[..count])?;
            left -= count;
        }
    }
    Ok(())
}

/// Compares bytes with those that the program prints at `offset`. Returns whether they are equal.
pub fn is_at(offset: u64, bytes: &[u8]) -> bool {
    let (first, skip) = (offset / LINE_BYTES as u64, (offset % LINE_BYTES as u64) as usize);
    let mut line = String::new();
    let mut rest = bytes;
    let mut skip = skip;
    for number in first.. {
        if rest.is_empty() {
            break;
        }
        line.clear();
        write_line(number, &mut line);
        let count = rest.len().min(LINE_BYTES - skip);
        if rest[..count] != line.as_bytes()[skip..skip + count] {
            return false;
        }
        rest = &rest[count..];
        skip = 0;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_output_is_recognized_at_its_offset_only() {
        let mut all = Vec::new();
        print(1_000_000, None, &mut all).unwrap();
        assert_eq!(all.len(), 1_000_000);
        for (from, to) in [(0, 100), (1, 99), (64_000, 64_001), (99_950, 1_000_000)] {
            assert!(is_at(from as u64, &all[from..to]), "{from}..{to}");
            assert!(!is_at(from as u64 + 100, &all[from..to]) || to - from < 20, "{from}..{to}");
        }
        assert!(!is_at(0, &all[1..50]));
    }
}
