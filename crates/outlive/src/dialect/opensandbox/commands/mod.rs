//! Commands: each is a process, which goes on when its client leaves and is found again by its id.
//!
//! ```text
//! POST /command ─▶ run.rs: what to start ─▶ core ─▶ follow.rs: its events, to the end
//! GET …/resume  ─▶ run.rs: where to go on ────────▶ follow.rs
//! then: status.rs, logs.rs, interrupt.rs
//! ```

mod follow;
pub(super) mod interrupt;
pub(super) mod logs;
pub(super) mod run;
pub(super) mod status;
