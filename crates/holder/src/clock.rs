//! The clocks of outlive; those of time are in whole milliseconds.
//!
//! Deadlines use `boot_ms` (never jumps, counts suspended time, shared by holder and server);
//! times that people see use `wall_ms`.

use std::time::Duration;

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

/// How long this thread has worked, without the times in which others did.
pub fn thread_cpu() -> Duration {
    let worked = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(worked.tv_sec as u64, worked.tv_nsec as u32)
}
