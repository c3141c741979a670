//! The core of outlive: processes, sessions, terminal screens, their logs, events and waits.
//!
//! [`Core`] is the handle that every surface uses. The core knows no HTTP and depends on no dialect, but some fields,
//! limits and error texts are those of the API that the native one is compatible with. Terms are defined in the
//! glossary of ARCHITECTURE.md.

pub mod async_fd;
pub mod attach;
pub mod config;
mod core;
pub mod crash_point;
mod error;
pub mod events;
pub mod follow;
pub mod history;
mod holder_link;
mod id;
pub mod log;
pub mod observe;
mod port_wait;
pub mod process;
mod run;
pub mod screen;
mod services;
pub mod session;
pub mod signal;
mod store;
mod table;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub use self::core::{Core, Counts, HolderStatus, NewProcess};
pub use error::{Error, Result};
pub use holder_link::Handover;
pub use port_wait::{PortProbe, PortReady, PortWait, ProbeFuture};
pub use run::{Run, RunOutcome, RunResult};
pub use wait::{WaitCondition, WaitOutcome};

/// Locks a mutex and ignores poisoning: the state behind it is valid at every step, so a panic in another thread must
/// not make it unreachable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `check` returns a value, calling it again after every notification of `changed`. The waiter registers
/// before each check, so no change is missed.
pub async fn wait_changed<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut notified = std::pin::pin!(changed.notified());
        notified.as_mut().enable();
        if let Some(value) = check() {
            return value;
        }
        notified.await;
    }
}
