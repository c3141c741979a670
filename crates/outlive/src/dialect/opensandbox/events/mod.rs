//! What a stream tells: the output of a command, and how it ended.
//!
//! ```text
//! core's log ─▶ output.rs ─▶ lines.rs: bytes as texts ─▶ event.rs ─▶ the body of the answer
//!                   └─ exit ─▶ end.rs: how it ended   ─┘
//! ```

pub(super) mod end;
pub(super) mod event;
pub(super) mod lines;
pub(super) mod output;
