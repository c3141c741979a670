//! The first and the last bytes of a stream: what an answer has room for.

use std::collections::VecDeque;

pub struct Ends {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most: usize,
    left_out: u64,
}

impl Ends {
    pub fn new(most: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), most, left_out: 0 }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        let room = (self.most - self.most / 2).saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.most / 2);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
    }

    /// How many bytes in the middle there was no room for.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    pub fn whole(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_much_the_ends_are_kept() {
        let mut ends = Ends::new(6);
        for piece in ["ab", "cd", "efg", "hij"] {
            ends.take(piece.as_bytes());
        }
        assert_eq!(ends.left_out(), 4);
        assert_eq!(ends.whole(), b"abchij");
    }

    #[test]
    fn what_fits_is_whole() {
        let mut ends = Ends::new(6);
        ends.take(b"abcdef");
        assert_eq!(ends.left_out(), 0);
        assert_eq!(ends.whole(), b"abcdef");
    }
}
