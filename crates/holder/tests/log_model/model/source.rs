//! A program that prints as it is told.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use outlive_holder::log::Stream;

use crate::printed::{pattern, pipe, write_all};

/// A program with two outputs whose kernel side is a real pipe.
pub(super) struct Source {
    pub(super) read: OwnedFd,
    write: OwnedFd,
    /// Written by the program, not yet recorded.
    pub(super) waiting: VecDeque<u8>,
    written: u64,
}

impl Source {
    pub(super) fn new() -> Self {
        let (read, write) = pipe();
        Self { read, write, waiting: VecDeque::new(), written: 0 }
    }

    pub(super) fn print(&mut self, stream: Stream, count: usize) {
        // Pages of a pipe are not shared between writes, so leave room for the worst case.
        let count = count.min((256 * 1024usize).saturating_sub(self.waiting.len()));
        let seed = (stream as u64) << 40;
        let bytes: Vec<u8> = (0..count as u64).map(|at| pattern(seed + self.written + at)).collect();
        write_all(&self.write, &bytes);
        self.written += count as u64;
        self.waiting.extend(bytes);
    }
}
