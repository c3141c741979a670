//! A receive buffer over a TCP connection that is parsed in place.
//!
//! The HTTP and WebSocket clients parse it without copying, so that the client's own cost stays out of the figures.

use std::io::Read;
use std::net::TcpStream;

use crate::Result;

const BUFFER_BYTES: usize = 256 * 1024;

pub struct Incoming {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    /// Bytes that were received and not consumed.
    pub fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Waits for more bytes. Returns zero when the peer has closed the connection.
    pub fn fill(&mut self) -> Result<usize> {
        if self.end == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        let count = self.stream.read(&mut self.buffer[self.end..])?;
        self.end += count;
        Ok(count)
    }

    /// Waits until `count` bytes are available.
    pub fn require(&mut self, count: usize) -> Result<()> {
        while self.end - self.start < count {
            if self.fill()? == 0 {
                return Err("the connection was closed".into());
            }
        }
        Ok(())
    }

    /// Waits for `delimiter`. Returns how many available bytes there are up to and including it.
    pub fn read_until(&mut self, delimiter: &[u8]) -> Result<usize> {
        let mut searched = 0;
        loop {
            let available = self.available();
            let from = searched.min(available.len());
            if let Some(at) = memchr::memmem::find(&available[from..], delimiter) {
                return Ok(from + at + delimiter.len());
            }
            searched = available.len().saturating_sub(delimiter.len() - 1);
            if self.fill()? == 0 {
                return Err("the connection was closed".into());
            }
        }
    }
}
