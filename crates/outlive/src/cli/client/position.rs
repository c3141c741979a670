//! Offset bookkeeping of a reader: where to resume after a lost connection, and what to acknowledge.
//!
//! ```text
//!   acknowledged ≤ printed ≤ next        next = offset of the byte that the server sends next
//! ```
//!
//! Pure accounting, no I/O. Bytes that were received are never requested again, even if they are not printed yet:
//! they are queued in this process.

/// Acknowledge at the latest after this many printed bytes.
const ACK_INTERVAL_BYTES: u64 = 64 * 1024;

/// A range of offsets that the server no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Gap {
    pub(crate) fn describe(&self) -> String {
        let bytes = crate::cli::text::units::format_bytes(self.to - self.from);
        format!("{bytes} of output lost (offsets {} to {})", self.from, self.to)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// `None` until the first connection reports its offset.
    next: Option<u64>,
    /// Bytes received but not printed.
    unprinted: u64,
    acknowledged: u64,
    /// Bytes that the server is about to send a second time.
    duplicates: u64,
}

impl Position {
    pub(crate) fn from_offset(offset: u64) -> Self {
        Self { next: Some(offset), acknowledged: offset, ..Self::default() }
    }

    /// Offset to request when (re)connecting.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// A connection starts at `offset`. Returns the gap since the previous connection.
    pub(crate) fn on_connected(&mut self, offset: u64) -> Option<Gap> {
        self.duplicates = 0;
        match self.next {
            None => {
                *self = Self::from_offset(offset);
                None
            }
            Some(next) if offset < next => {
                self.duplicates = next - offset;
                None
            }
            Some(_) => self.skip_to(offset),
        }
    }

    /// The server no longer has the bytes before `to`. Returns the part of them that was not received.
    pub(crate) fn skip_to(&mut self, to: u64) -> Option<Gap> {
        let from = self.next.unwrap_or(to);
        if to <= from {
            return None;
        }
        self.next = Some(to);
        Some(Gap { from, to })
    }

    /// Counts `count` received bytes. Returns how many of them, from the front, are duplicates.
    pub(crate) fn on_received(&mut self, count: usize) -> usize {
        let duplicates = usize::try_from(self.duplicates).unwrap_or(usize::MAX).min(count);
        self.duplicates -= duplicates as u64;
        let new = (count - duplicates) as u64;
        // Saturating, because a broken server may report any offset.
        self.next = Some(self.next.unwrap_or(0).saturating_add(new));
        self.unprinted = self.unprinted.saturating_add(new);
        duplicates
    }

    /// Counts `count` received bytes as printed or discarded.
    pub(crate) fn on_printed(&mut self, count: usize) {
        self.unprinted = self.unprinted.saturating_sub(count as u64);
    }

    fn printed_to(&self) -> u64 {
        self.next.unwrap_or(0).saturating_sub(self.unprinted)
    }

    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.printed_to() > self.acknowledged
    }

    /// The offset to acknowledge, if at least [`ACK_INTERVAL_BYTES`] were printed since the last one.
    pub(crate) fn take_due_ack(&mut self) -> Option<u64> {
        let is_due = self.printed_to() >= self.acknowledged.saturating_add(ACK_INTERVAL_BYTES);
        if is_due { self.take_ack() } else { None }
    }

    /// The offset to acknowledge, if anything was printed since the last one.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
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
    fn the_first_connection_sets_the_offset() {
        let mut position = Position::default();
        assert_eq!(position.next(), None);
        assert_eq!(position.on_connected(500), None);
        assert_eq!(position.on_received(10), 0);
        assert_eq!(position.next(), Some(510));
    }

    // Regression: a made-up offset overflowed.
    #[test]
    fn offsets_saturate() {
        let mut position = Position::default();
        position.on_connected(u64::MAX);
        assert_eq!(position.on_received(10), 0);
        position.on_printed(10);
        assert_eq!((position.next(), position.take_due_ack()), (Some(u64::MAX), None));
    }

    #[test]
    fn received_bytes_are_acknowledged_only_when_printed() {
        let mut position = Position::from_offset(0);
        position.on_received(100_000);
        assert_eq!(position.take_ack(), None);
        position.on_printed(60_000);
        assert_eq!(position.take_due_ack(), None);
        position.on_printed(10_000);
        assert_eq!(position.take_due_ack(), Some(70_000));
        assert_eq!(position.take_ack(), None);
        assert!(!position.has_unacknowledged());
        position.on_printed(30_000);
        assert!(position.has_unacknowledged());
        assert_eq!(position.take_ack(), Some(100_000));
        assert_eq!(position.next(), Some(100_000));
    }

    #[test]
    fn a_gap_is_reported_once() {
        let mut position = Position::from_offset(10);
        assert_eq!(position.skip_to(50), Some(Gap { from: 10, to: 50 }));
        assert_eq!(position.skip_to(50), None);
        assert_eq!(position.skip_to(20), None);
        assert_eq!(position.on_connected(80), Some(Gap { from: 50, to: 80 }));
        assert_eq!(position.next(), Some(80));
    }

    /// A log of 40 bytes, with a connection that is cut after any number of bytes and resumes at any earlier offset.
    #[test]
    fn every_byte_is_received_once_for_every_cut_and_resume_offset() {
        let log: Vec<u8> = (0..40).collect();
        for cut in 0..=40usize {
            for resume in 0..=cut {
                for frame in [1usize, 3, 7, 40] {
                    let mut position = Position::from_offset(0);
                    let mut received = Vec::new();
                    let mut receive = |position: &mut Position, bytes: &[u8]| {
                        let duplicates = position.on_received(bytes.len());
                        received.extend_from_slice(&bytes[duplicates..]);
                        position.on_printed(bytes.len() - duplicates);
                    };
                    assert_eq!(position.on_connected(0), None);
                    log[..cut].chunks(frame).for_each(|bytes| receive(&mut position, bytes));
                    assert_eq!(position.next(), Some(cut as u64));
                    assert_eq!(position.on_connected(resume as u64), None);
                    log[resume..].chunks(frame).for_each(|bytes| receive(&mut position, bytes));
                    assert_eq!(received, log, "{cut} {resume} {frame}");
                    assert_eq!(position.take_ack(), (!log.is_empty()).then_some(40));
                }
            }
        }
    }

    #[test]
    fn bytes_that_the_server_lost_are_exactly_the_gap() {
        for cut in 0..=40u64 {
            for oldest in cut..=40 {
                let mut position = Position::from_offset(0);
                position.on_connected(0);
                position.on_received(cut as usize);
                let gap = position.on_connected(oldest);
                let expected = (oldest > cut).then_some(Gap { from: cut, to: oldest });
                assert_eq!(gap, expected);
                assert_eq!(position.on_received((40 - oldest) as usize), 0);
                assert_eq!(position.next(), Some(40));
            }
        }
    }

    #[test]
    fn interrupted_duplicates_are_counted_anew() {
        let mut position = Position::from_offset(0);
        position.on_received(100);
        position.on_connected(50);
        assert_eq!(position.on_received(20), 20);
        // The connection is cut again among the duplicates.
        assert_eq!(position.next(), Some(100));
        assert_eq!(position.on_connected(90), None);
        assert_eq!(position.on_received(20), 10);
        assert_eq!(position.next(), Some(110));
    }
}
