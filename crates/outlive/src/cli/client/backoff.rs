//! Delay between two attempts to reconnect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const INITIAL_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Doubles from 100 ms to 5 s. Each delay is shortened by up to a quarter so that clients do not reconnect in step.
#[derive(Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Starts again without delay: the holder restarts a dead server at once.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let delay = nominal(self.attempts);
        self.attempts += 1;
        delay.mul_f64(1.0 - 0.25 * random_fraction())
    }
}

fn nominal(attempts: u32) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        _ => INITIAL_DELAY.saturating_mul(1 << (attempts - 1).min(16)).min(MAX_DELAY),
    }
}

/// Between 0 and 1.
fn random_fraction() -> f64 {
    random() as f64 / u64::MAX as f64
}

/// Differs between processes and calls. Not for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let ms: Vec<u128> = (0..9).map(|attempts| nominal(attempts).as_millis()).collect();
        assert_eq!(ms, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(nominal(u32::MAX), MAX_DELAY);
    }

    #[test]
    fn jitter_only_shortens_delays() {
        let mut backoff = Backoff::default();
        for attempts in 0..20 {
            let delay = backoff.next();
            assert!(delay <= nominal(attempts) && delay >= nominal(attempts).mul_f64(0.74), "{attempts} {delay:?}");
        }
        backoff.reset();
        assert_eq!(backoff.next(), Duration::ZERO);
    }
}
