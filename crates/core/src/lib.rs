//! The core of outlive: processes, their logs, events and waits. Knows nothing of HTTP.
//!
//! Glossary (one word per concept, in code and on the wire):
//!
//! * **process** — something that was started, with an id that stays through restarts
//! * **generation** — one life of a process between a start and an exit
//! * **tree** — a process's command with all its descendants, wherever they went
//! * **log** — the bytes that a process printed, with absolute offsets
//! * **mark** — where a recorded chunk begins, its stream and its time
//! * **cursor** — a reader's place in a log
//! * **hold** — a cursor's claim that keeps the program from running away
//! * **attachment** — somebody connected to a process
//! * **record** — what the next server must know of something
//! * **journal** — where records and events are written
//! * **archive** — where the logs of exited processes lie together once there are many
//! * **epoch** — the life of one server; **boot** — the life of one holder
//! * **dialect** — another platform's API over the same core

mod archive;
pub mod attach;
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
mod retention;
mod run;
mod services;
pub mod signal;
mod stored;
mod table;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::core::{Core, Counts, Create, Notice};
pub use error::{Error, Result};
pub use holder_link::Handover;
pub use run::{Run, RunOutcome, RunResult};
pub use wait::{HttpTarget, Outcome, Wait, WaitFor};

/// A panic elsewhere must not make everything behind a lock unreachable: our state is valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
