//! A buffer that keeps the first and the last bytes of a stream and counts the bytes in between.

use std::collections::VecDeque;

pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max_bytes: usize,
    omitted: u64,
}

impl HeadTail {
    pub fn new(max_bytes: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), max_bytes, omitted: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let head_space = (self.max_bytes - self.max_bytes / 2).saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(bytes.len().min(head_space));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.max_bytes / 2);
        self.tail.drain(..surplus);
        self.omitted += surplus as u64;
    }

    /// How many bytes between head and tail were left out.
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted
    }

    /// Head and tail as one sequence of bytes.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_of_a_long_stream_are_kept() {
        let mut buffer = HeadTail::new(6);
        for piece in ["ab", "cd", "efg", "hij"] {
            buffer.push(piece.as_bytes());
        }
        assert_eq!(buffer.omitted_bytes(), 4);
        assert_eq!(buffer.into_bytes(), b"abchij");
    }

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut buffer = HeadTail::new(6);
        buffer.push(b"abcdef");
        assert_eq!(buffer.omitted_bytes(), 0);
        assert_eq!(buffer.into_bytes(), b"abcdef");
    }
}
