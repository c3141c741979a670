//! The two clocks of outlive, both in whole milliseconds.
//!
//! Deadlines use `boot_ms` (never jumps, counts suspended time, shared by holder and server);
//! times that people see use `wall_ms`.

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Milliseconds since the machine booted.
pub fn boot_ms() -> u64 {
    read(ClockId::Boottime)
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    read(ClockId::Realtime)
}
