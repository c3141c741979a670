//! How threads wait for each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Something that can be waited for; a wait that takes long has lost its wake-up.
#[derive(Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    fn rings(&self) -> MutexGuard<'_, u64> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        *self.rings() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn count(&self) -> u64 {
        *self.rings()
    }

    pub(crate) fn wait_after(&self, count: u64, who: &str) {
        let rings = self.rings();
        let limit = Duration::from_secs(5);
        let (_rings, timeout) = self
            .changed
            .wait_timeout_while(rings, limit, |rings| *rings == count)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{who}: nobody rang");
    }
}
