//! Terminals, in two ways: the original's, made first and connected to later, and the one step of the feature request.
//!
//! ```text
//! POST /pty ─▶ rest.rs: one that stays
//! GET /pty/{id}/ws ─▶ socket.rs (lease.rs: who types) ─▶ channels.rs ┐
//! GET /terminal, GET /command ─▶ one_step.rs: raw, or channels.rs    ┴─▶ control.rs: what frames ask for
//!                                                                      └▶ the engine of all sockets
//! ```

mod channels;
pub(super) mod control;
mod lease;
pub(super) mod one_step;
pub(super) mod rest;
pub(super) mod socket;
