//! How long to wait between two attempts to reconnect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// 100 ms, doubling to 5 s; each shortened by up to a quarter, so that many clients do not come at once.
#[derive(Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// A new series. The very first attempt does not wait: a server that died is back in a moment.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = nominal(self.attempts);
        self.attempts += 1;
        pause.mul_f64(1.0 - 0.25 * random_part())
    }
}

fn nominal(attempts: u32) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        _ => FIRST.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST),
    }
}

/// From 0 to 1.
fn random_part() -> f64 {
    random() as f64 / u64::MAX as f64
}

/// Differs between processes and calls; nothing secret depends on it.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest() {
        let ms: Vec<u128> = (0..9).map(|attempts| nominal(attempts).as_millis()).collect();
        assert_eq!(ms, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(nominal(u32::MAX), LONGEST);
    }

    #[test]
    fn jitter_only_shortens() {
        let mut backoff = Backoff::default();
        for attempts in 0..20 {
            let pause = backoff.next();
            assert!(pause <= nominal(attempts) && pause >= nominal(attempts).mul_f64(0.74), "{attempts} {pause:?}");
        }
        backoff.reset();
        assert_eq!(backoff.next(), Duration::ZERO);
    }
}
