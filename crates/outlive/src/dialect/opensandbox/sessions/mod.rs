//! Sessions: shells that remember, as the core has them.
//!
//! ```text
//! rest.rs: made, deleted, and given a command ─▶ core's session ─▶ follow.rs: the command's events, to the end
//! ```

mod follow;
pub(super) mod rest;
