//! Returns freed memory to the system after a burst of connections.
//!
//! By default glibc's allocator keeps freed memory in a growing number of arenas. The server runs for weeks beside the
//! programs of its users, so it should not.

use std::sync::Arc;
use std::time::Duration;

use super::connections::ConnectionTable;

/// Idle time before a trim: a client that reconnects soon would need the memory again.
const IDLE_BEFORE_TRIM: Duration = Duration::from_secs(1);

/// Must be called before the first thread is started.
#[cfg(target_env = "gnu")]
pub(super) fn configure_allocator() {
    const OPTIONS: [(i32, i32); 3] =
        [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 256 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10)];
    for (parameter, value) in OPTIONS {
        // SAFETY: sets a number inside the allocator; there is no other thread yet.
        unsafe { libc::mallopt(parameter, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn configure_allocator() {}

/// Trims each time the last connection has been closed and no other has come.
pub(super) async fn trim_when_idle(connections: Arc<ConnectionTable>) {
    loop {
        connections.wait_emptied().await;
        tokio::time::sleep(IDLE_BEFORE_TRIM).await;
        if connections.is_empty() {
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: takes the allocator's own locks and touches only free memory.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
