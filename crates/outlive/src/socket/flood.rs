//! When to gather what a program prints, and when not.

use std::time::{Duration, Instant};

use outlive_core::log::Cursor;

/// In the midst of a flood, a moment of rest gathers what would come in hundreds of small pieces. The first bytes after
/// silence, and what a person types, never wait.
pub(super) struct Flood {
    since: Instant,
    from: u64,
    is_on: bool,
}

impl Flood {
    /// How long a look at the rate takes.
    const LOOK: Duration = Duration::from_millis(10);
    /// After as long, what was before says nothing.
    const SILENCE: Duration = Duration::from_millis(50);
    /// What makes a flood of it in that time.
    const BYTES: u64 = 128 << 10;
    const REST: Duration = Duration::from_millis(1);
    /// A smaller log would be full before the rest is over, and the program would wait.
    const LEAST_WINDOW: u64 = 1 << 20;

    pub(super) fn new(offset: u64) -> Self {
        Self { since: Instant::now(), from: offset, is_on: false }
    }

    /// How long to wait before what comes next is taken.
    pub(super) fn rest(&mut self, cursor: &Cursor) -> Option<Duration> {
        self.look(cursor.offset(), self.since.elapsed());
        (self.is_on && cursor.log().window() >= Self::LEAST_WINDOW).then_some(Self::REST)
    }

    fn look(&mut self, offset: u64, passed: Duration) {
        if passed < Self::LOOK {
            return;
        }
        let bytes = offset.saturating_sub(self.from);
        let is_on = passed < Self::SILENCE && bytes >= Self::BYTES;
        *self = Self { since: Instant::now(), from: offset, is_on };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_in_masses_waits() {
        let mut flood = Flood::new(0);
        let ms = Duration::from_millis;
        flood.look(10_000_000, ms(5));
        assert!(!flood.is_on, "too early to tell");
        flood.look(10_000_000, ms(10));
        assert!(flood.is_on);
        flood.look(10_000_100, ms(12));
        assert!(!flood.is_on, "a person types");
        flood.look(20_000_000, ms(2_000));
        assert!(!flood.is_on, "the first after silence");
    }
}
