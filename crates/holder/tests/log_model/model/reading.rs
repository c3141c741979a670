//! The readers' side: they come, hold, read, leave and come back.

use outlive_holder::log::hold::Token;

use super::{Left, Reader, World};

impl World {
    pub(super) fn take_hold(&mut self, offset: u64, comes_back: bool) -> Option<(Token, u64)> {
        self.serial += 1;
        let token = Token::new(self.epoch, self.serial);
        self.reader.take_hold(token, offset, comes_back).map(|_| (token, offset))
    }

    pub(super) fn attach(&mut self, lossless: bool, part: u8) {
        if self.readers.len() >= 4 {
            return;
        }
        let (tail, head) = (self.reader.tail(), self.reader.head());
        let offset = tail + (head - tail) * u64::from(part) / 255;
        let hold = if lossless { self.take_hold(offset, false) } else { None };
        self.readers.push(Reader { offset, hold, epoch: self.epoch });
    }

    /// A reader that came back may have taken the place of one that left at or before its offset.
    pub(super) fn adopted(&mut self, offset: u64) {
        let log = &self.reader;
        let gone: Vec<_> = self.left.iter().filter(|left| !log.holds(left.token)).copied().collect();
        assert!(gone.len() <= 1, "a hold takes the place of one");
        assert!(gone.iter().all(|left| left.held <= offset), "took over a hold that lies further on");
        self.left.retain(|left| log.holds(left.token));
    }

    pub(super) fn read(&mut self, index: usize, most: usize) -> usize {
        let Some(reader) = self.readers.get_mut(index) else { return 0 };
        let mut room = Vec::new();
        match self.reader.read_at(reader.offset, most, &mut room) {
            Ok(count) => {
                let at = reader.offset as usize;
                assert!(room == self.bytes[at..at + count], "wrong bytes at {at}");
                assert!(count > 0 || reader.offset == self.bytes.len() as u64, "nothing to read before the head");
                reader.offset += count as u64;
                count
            }
            Err(gone) => {
                assert!(gone.oldest > reader.offset, "a gap leads forward");
                assert_eq!(gone.oldest, self.reader.tail());
                assert!(
                    reader.hold.is_none_or(|(_, held)| held > reader.offset || held < self.overrun),
                    "held bytes are gone: {reader:?} {gone:?}"
                );
                reader.offset = gone.oldest;
                1
            }
        }
    }

    pub(super) fn leave(&mut self, index: usize) {
        if index < self.readers.len() {
            let reader = self.readers.remove(index);
            if let Some((token, held)) = reader.hold {
                self.reader.leave_hold(token);
                self.left.push(Left { token, held, offset: reader.offset });
            }
        }
    }
}
