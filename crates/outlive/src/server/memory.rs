//! Memory goes back to the system when a burst is over.
//!
//! The C library's allocator keeps freed memory for later, and by default ever more of it in ever more places. A server
//! that stays for weeks beside what people really run should not.

use std::sync::Arc;
use std::time::Duration;

use super::connections::Connections;

/// Whoever comes back so soon would only need it again.
const AFTER: Duration = Duration::from_secs(1);

/// Before the first thread.
#[cfg(target_env = "gnu")]
pub(super) fn set_up() {
    const SETTINGS: [(i32, i32); 3] =
        [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 256 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10)];
    for (parameter, value) in SETTINGS {
        // SAFETY: sets a number inside of the allocator; no other thread is there yet.
        unsafe { libc::mallopt(parameter, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn set_up() {}

/// Each time the last connection has gone and nobody has come since.
pub(super) async fn give_back_when_quiet(connections: Arc<Connections>) {
    loop {
        connections.until_nobody_is_there().await;
        tokio::time::sleep(AFTER).await;
        if connections.is_empty() {
            let _ = tokio::task::spawn_blocking(give_back).await;
        }
    }
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: takes the allocator's own locks and touches only memory that is free.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}
