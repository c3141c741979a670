//! The clocks of outlive.
//!
//! Deadlines use `boot_ms`: it never jumps, counts suspended time, and is shared by holder and server. Times that users
//! see use `wall_ms`. Names tell them apart: `…_at` is a time on the boot clock, `…_at_ms` one on the wall clock.

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

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
