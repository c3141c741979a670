//! The event stream of a command: its output, and how it ended.
//!
//! ```text
//! core::follow ─▶ stream.rs ─▶ lines.rs: bytes to texts ─▶ event.rs: texts to JSON ─▶ the body of the response
//! ```

pub(super) mod event;
pub(super) mod lines;
pub(super) mod stream;
