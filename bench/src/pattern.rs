//! What the measured programs print, and the check that it arrived: every byte, in order.
//!
//! The same text again and again, with a period that no buffer size divides, so that a lost piece shows.

use std::io::{self, Write};

const RAW_PERIOD: usize = 65_521;
const LINES: usize = 1_009;
const COLUMNS: usize = 80;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One endless line.
    Raw,
    /// Lines of 80 characters, the last of them the newline.
    Lines,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lines => "lines",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Raw, Self::Lines].into_iter().find(|kind| kind.name() == name)
    }
}

pub struct Pattern {
    /// Some periods, so that a chunk can begin anywhere in the first.
    bytes: Vec<u8>,
    period: usize,
}

impl Pattern {
    /// As the program writes it.
    pub fn written(kind: Kind) -> Self {
        Self::repeat(match kind {
            Kind::Raw => text(RAW_PERIOD),
            Kind::Lines => lines(b"\n"),
        })
    }

    /// As it comes out of a terminal in cooked mode (lines) or raw mode.
    pub fn on_terminal(kind: Kind) -> Self {
        Self::repeat(match kind {
            Kind::Raw => text(RAW_PERIOD),
            Kind::Lines => lines(b"\r\n"),
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

/// How many bytes a terminal makes of `written`.
pub fn terminal_bytes(kind: Kind, written: u64) -> u64 {
    match kind {
        Kind::Raw => written,
        Kind::Lines => written + written / COLUMNS as u64,
    }
}

/// Compares what arrives with what must arrive.
pub struct Check<'a> {
    pattern: &'a Pattern,
    pub received: u64,
    /// Offset of the first wrong byte.
    pub wrong_at: Option<u64>,
}

impl<'a> Check<'a> {
    pub fn new(pattern: &'a Pattern) -> Self {
        Self { pattern, received: 0, wrong_at: None }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(CHUNK_BYTES) {
            let start = (self.received % self.pattern.period as u64) as usize;
            if self.wrong_at.is_none() && self.pattern.bytes[start..start + piece.len()] != *piece {
                self.wrong_at = Some(self.received);
            }
            self.received += piece.len() as u64;
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
    fn what_was_written_passes_and_what_was_lost_is_seen() {
        let pattern = Pattern::written(Kind::Raw);
        let mut out = Vec::new();
        pattern.write(300_000, 64 * 1024, &mut out).unwrap();
        let mut check = Check::new(&pattern);
        out.chunks(4_096).for_each(|piece| check.take(piece));
        assert_eq!((check.received, check.wrong_at), (300_000, None));

        let mut check = Check::new(&pattern);
        check.take(&out[..8_192]);
        check.take(&out[12_288..]);
        assert_eq!(check.wrong_at, Some(8_192));
    }

    #[test]
    fn a_terminal_makes_two_bytes_of_a_newline() {
        let mut out = Vec::new();
        Pattern::written(Kind::Lines).write(160_000, 64 * 1024, &mut out).unwrap();
        let cooked: Vec<u8> =
            out.iter().flat_map(|&byte| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] }).collect();
        assert_eq!(cooked.len() as u64, terminal_bytes(Kind::Lines, 160_000));
        let pattern = Pattern::on_terminal(Kind::Lines);
        let mut check = Check::new(&pattern);
        check.take(&cooked);
        assert_eq!(check.wrong_at, None);
    }
}
