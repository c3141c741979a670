//! Where in a process's output a reader is: what it asks for after a lost connection, and what it acknowledges.
//!
//! ```text
//!   acknowledged ≤ printed ≤ next        next = offset of the byte that the server sends next
//! ```
//!
//! Pure accounting, no I/O. Bytes that arrived are never asked for again, even if they are not printed yet:
//! they wait in this process.

/// The server is told after this many printed bytes.
const ACKNOWLEDGE_EVERY: u64 = 64 * 1024;

/// Offsets that nobody can get any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Gap {
    pub(crate) fn describe(&self) -> String {
        let bytes = crate::cli::text::amount::readable_bytes(self.to - self.from);
        format!("{bytes} of output are gone (offsets {} to {})", self.from, self.to)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// `None` until the first connection has said where it begins.
    next: Option<u64>,
    /// Arrived, but not printed yet.
    unprinted: u64,
    acknowledged: u64,
    /// Bytes that come a second time.
    repeated: u64,
}

impl Position {
    /// Known from the start.
    pub(crate) fn at(offset: u64) -> Self {
        Self { next: Some(offset), acknowledged: offset, ..Self::default() }
    }

    /// What to ask for when (re)connecting.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// A connection begins at `offset`. Says what was missed since the one before.
    pub(crate) fn ready(&mut self, offset: u64) -> Option<Gap> {
        self.repeated = 0;
        match self.next {
            None => {
                *self = Self::at(offset);
                None
            }
            Some(next) if offset < next => {
                self.repeated = next - offset;
                None
            }
            Some(_) => self.gap(offset),
        }
    }

    /// Everything before `to` that has not arrived is gone.
    pub(crate) fn gap(&mut self, to: u64) -> Option<Gap> {
        let from = self.next.unwrap_or(to);
        if to <= from {
            return None;
        }
        self.next = Some(to);
        Some(Gap { from, to })
    }

    /// `count` bytes have arrived. Returns how many of them, from the front, are known already.
    pub(crate) fn arrived(&mut self, count: usize) -> usize {
        let known = usize::try_from(self.repeated).unwrap_or(usize::MAX).min(count);
        self.repeated -= known as u64;
        let new = (count - known) as u64;
        // Saturating: a server may say that it begins at any offset.
        self.next = Some(self.next.unwrap_or(0).saturating_add(new));
        self.unprinted = self.unprinted.saturating_add(new);
        known
    }

    /// `count` bytes of those that arrived are dealt with.
    pub(crate) fn printed(&mut self, count: usize) {
        self.unprinted = self.unprinted.saturating_sub(count as u64);
    }

    fn printed_to(&self) -> u64 {
        self.next.unwrap_or(0).saturating_sub(self.unprinted)
    }

    /// Something is printed that the server has not been told of.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.printed_to() > self.acknowledged
    }

    /// The offset to acknowledge, if enough has come together.
    pub(crate) fn acknowledge_much(&mut self) -> Option<u64> {
        let enough = self.printed_to() >= self.acknowledged.saturating_add(ACKNOWLEDGE_EVERY);
        if enough { self.acknowledge_all() } else { None }
    }

    /// The offset to acknowledge, if there is anything.
    pub(crate) fn acknowledge_all(&mut self) -> Option<u64> {
        let printed = self.printed_to();
        (printed > self.acknowledged).then(|| {
            self.acknowledged = printed;
            printed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connection_says_where_it_begins() {
        let mut position = Position::default();
        assert_eq!(position.next(), None);
        assert_eq!(position.ready(500), None);
        assert_eq!(position.arrived(10), 0);
        assert_eq!(position.next(), Some(510));
    }

    #[test]
    fn a_made_up_offset_overflowed() {
        let mut position = Position::default();
        position.ready(u64::MAX);
        assert_eq!(position.arrived(10), 0);
        position.printed(10);
        assert_eq!((position.next(), position.acknowledge_much()), (Some(u64::MAX), None));
    }

    #[test]
    fn what_arrived_is_not_asked_for_again_but_acknowledged_only_when_printed() {
        let mut position = Position::at(0);
        position.arrived(100_000);
        assert_eq!(position.acknowledge_all(), None);
        position.printed(60_000);
        assert_eq!(position.acknowledge_much(), None);
        position.printed(10_000);
        assert_eq!(position.acknowledge_much(), Some(70_000));
        assert_eq!(position.acknowledge_all(), None);
        assert!(!position.is_unacknowledged());
        position.printed(30_000);
        assert!(position.is_unacknowledged());
        assert_eq!(position.acknowledge_all(), Some(100_000));
        assert_eq!(position.next(), Some(100_000));
    }

    #[test]
    fn gaps_move_on_and_are_told_once() {
        let mut position = Position::at(10);
        assert_eq!(position.gap(50), Some(Gap { from: 10, to: 50 }));
        assert_eq!(position.gap(50), None);
        assert_eq!(position.gap(20), None);
        assert_eq!(position.ready(80), Some(Gap { from: 50, to: 80 }));
        assert_eq!(position.next(), Some(80));
    }

    /// A log of 40 bytes, connections that are cut after any number of bytes and come back at any offset up
    /// to ours: each byte is taken exactly once, in order.
    #[test]
    fn every_byte_once_for_every_cut_and_every_return() {
        let log: Vec<u8> = (0..40).collect();
        for cut in 0..=40usize {
            for back in 0..=cut {
                for frame in [1usize, 3, 7, 40] {
                    let mut position = Position::at(0);
                    let mut got = Vec::new();
                    let mut take = |position: &mut Position, bytes: &[u8]| {
                        let known = position.arrived(bytes.len());
                        got.extend_from_slice(&bytes[known..]);
                        position.printed(bytes.len() - known);
                    };
                    assert_eq!(position.ready(0), None);
                    log[..cut].chunks(frame).for_each(|bytes| take(&mut position, bytes));
                    assert_eq!(position.next(), Some(cut as u64));
                    assert_eq!(position.ready(back as u64), None);
                    log[back..].chunks(frame).for_each(|bytes| take(&mut position, bytes));
                    assert_eq!(got, log, "{cut} {back} {frame}");
                    assert_eq!(position.acknowledge_all(), (!log.is_empty()).then_some(40));
                }
            }
        }
    }

    /// The same when the server has lost what lies between: the gap is exactly what is missing.
    #[test]
    fn every_byte_once_or_in_the_gap() {
        for cut in 0..=40u64 {
            for oldest in cut..=40 {
                let mut position = Position::at(0);
                position.ready(0);
                position.arrived(cut as usize);
                let gap = position.ready(oldest);
                let wanted = (oldest > cut).then_some(Gap { from: cut, to: oldest });
                assert_eq!(gap, wanted);
                assert_eq!(position.arrived((40 - oldest) as usize), 0);
                assert_eq!(position.next(), Some(40));
            }
        }
    }

    #[test]
    fn an_interrupted_repetition_is_begun_anew() {
        let mut position = Position::at(0);
        position.arrived(100);
        position.ready(50);
        assert_eq!(position.arrived(20), 20);
        // Cut again in the middle of what was known: still 100.
        assert_eq!(position.next(), Some(100));
        assert_eq!(position.ready(90), None);
        assert_eq!(position.arrived(20), 10);
        assert_eq!(position.next(), Some(110));
    }
}
