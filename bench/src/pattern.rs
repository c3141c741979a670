//! The output of the measured programs, and the check that every byte of it arrives in order.
//!
//! The output repeats one text. No common buffer size is a multiple of its period, so a lost chunk is detected.

use std::io::{self, Write};

const RAW_PERIOD: usize = 65_521;
const LINES: usize = 1_009;
const COLUMNS: usize = 80;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// One endless line.
    Raw,
    /// Lines of 80 characters including the newline.
    Lines,
}

impl OutputKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lines => "lines",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Raw, Self::Lines].into_iter().find(|kind| kind.name() == name)
    }
}

pub struct Pattern {
    /// As many periods as a chunk needs that starts anywhere in the first.
    bytes: Vec<u8>,
    period: usize,
}

impl Pattern {
    /// The pattern as the program writes it.
    pub fn as_written(kind: OutputKind) -> Self {
        Self::repeat(match kind {
            OutputKind::Raw => text(RAW_PERIOD),
            OutputKind::Lines => lines(b"\n"),
        })
    }

    /// The pattern as it leaves a terminal: lines in cooked mode, the rest in raw mode.
    pub fn on_terminal(kind: OutputKind) -> Self {
        Self::repeat(match kind {
            OutputKind::Raw => text(RAW_PERIOD),
            OutputKind::Lines => lines(b"\r\n"),
        })
    }

    fn repeat(once: Vec<u8>) -> Self {
        let period = once.len();
        Self { bytes: once.repeat(2 + CHUNK_BYTES.div_ceil(period)), period }
    }

    pub fn write(&self, total: u64, chunk: usize, out: &mut impl Write) -> io::Result<()> {
        let mut position = 0;
        while position < total {
            let start = (position % self.period as u64) as usize;
            let count = ((total - position).min(chunk.min(CHUNK_BYTES) as u64)) as usize;
            out.write_all(&self.bytes[start..start + count])?;
            position += count as u64;
        }
        Ok(())
    }
}

/// How many bytes leave a terminal when a program writes `written` bytes.
pub fn terminal_bytes(kind: OutputKind, written: u64) -> u64 {
    match kind {
        OutputKind::Raw => written,
        OutputKind::Lines => written + written / COLUMNS as u64,
    }
}

/// Compares received bytes with the pattern.
pub struct PatternCheck<'a> {
    pattern: &'a Pattern,
    pub received: u64,
    /// Offset of the first chunk that differs from the pattern.
    pub first_mismatch: Option<u64>,
}

impl<'a> PatternCheck<'a> {
    pub fn new(pattern: &'a Pattern) -> Self {
        Self { pattern, received: 0, first_mismatch: None }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let start = (self.received % self.pattern.period as u64) as usize;
            if self.first_mismatch.is_none() && self.pattern.bytes[start..start + chunk.len()] != *chunk {
                self.first_mismatch = Some(self.received);
            }
            self.received += chunk.len() as u64;
        }
    }
}

fn text(length: usize) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ALPHABET[(state >> 32) as usize % ALPHABET.len()]
    };
    (0..length).map(|_| next()).collect()
}

fn lines(end: &[u8]) -> Vec<u8> {
    let all = text(LINES * (COLUMNS - 1));
    all.chunks(COLUMNS - 1).flat_map(|line| [line, end].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_output_passes_and_lost_output_is_detected() {
        let pattern = Pattern::as_written(OutputKind::Raw);
        let mut out = Vec::new();
        pattern.write(300_000, 64 * 1024, &mut out).unwrap();
        let mut check = PatternCheck::new(&pattern);
        out.chunks(4_096).for_each(|chunk| check.feed(chunk));
        assert_eq!((check.received, check.first_mismatch), (300_000, None));

        let mut check = PatternCheck::new(&pattern);
        check.feed(&out[..8_192]);
        check.feed(&out[12_288..]);
        assert_eq!(check.first_mismatch, Some(8_192));
    }

    #[test]
    fn a_terminal_turns_each_newline_into_two_bytes() {
        let mut out = Vec::new();
        Pattern::as_written(OutputKind::Lines).write(160_000, 64 * 1024, &mut out).unwrap();
        let cooked: Vec<u8> =
            out.iter().flat_map(|&byte| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] }).collect();
        assert_eq!(cooked.len() as u64, terminal_bytes(OutputKind::Lines, 160_000));
        let pattern = Pattern::on_terminal(OutputKind::Lines);
        let mut check = PatternCheck::new(&pattern);
        check.feed(&cooked);
        assert_eq!(check.first_mismatch, None);
    }
}
