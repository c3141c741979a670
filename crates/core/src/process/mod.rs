//! A managed process: what it is, in which state it is, and what can be done with it.
//!
//! ```text
//!   created ──start──▶ starting ──spawned──▶ running ──exit──▶ exited
//!      │                  │ failed                              │
//!      └── delete         └──▶ (gone, or created/exited again)  ├── start, restart, policy ──▶ starting
//!                                                               └── delete, retention ──▶ gone
//! ```
//!
//! `state` decides what a command means in a state, without I/O. A [`Process`] holds its state behind a lock
//! that is never held across an await; what a decision asks for is a message to the holder, which never waits.
//! So there is no task per process, and nobody can be delayed by another's process.

mod clients;
mod end;
mod environment;
mod info;
mod input;
mod keep;
mod launch;
mod lifecycle;
mod record;
mod sizes;
mod spec;
mod start;
mod state;
mod user;
mod view;

pub use info::{ExitReason, ProcessInfo, Status};
pub(crate) use keep::Ended;
pub use lifecycle::Process;
pub(crate) use record::{Idempotency, Record};
pub use sizes::SizeChange;
pub(crate) use sizes::SizeHistory;
pub(crate) use spec::check_name;
pub use spec::{
    EnvMode, IfTagExists, Limits, OnTimeout, Owner, Patch, Pty, RestartMode, RestartPolicy, Source, Spec, StdinMode,
    check_variable,
};
pub(crate) use user::User;
