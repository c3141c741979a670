//! The core of outlive: processes, their logs, events and waits. Knows nothing of HTTP.
//! The words are explained in ARCHITECTURE.md.

mod archive;
pub mod attach;
mod changes;
pub mod config;
mod core;
mod error;
pub mod events;
mod holder_link;
pub mod hooks;
mod id;
mod journal;
pub mod log;
pub mod observe;
pub mod polled;
pub mod process;
mod reach;
mod retention;
mod run;
mod run_stream;
pub mod screen;
mod services;
pub mod session;
pub mod signal;
mod stored;
mod table;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::core::{Core, Counts, Create, Notice};
pub use error::{Error, Result};
pub use holder_link::Handover;
pub use reach::{Reached, Target};
pub use run::{Run, RunOutcome, RunResult};
pub use run_stream::RunStream;
pub use wait::{HttpTarget, Outcome, Wait, WaitFor};

/// A panic elsewhere must not make everything behind a lock unreachable: our state is valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
