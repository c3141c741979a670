//! Terminals, in two ways: OpenSandbox's own, which are created first and connected to later, and the one-step
//! terminals of its feature request.
//!
//! ```text
//! POST /pty                    ─▶ handlers.rs: reserves a terminal
//! GET /pty/{id}/ws             ─▶ attach.rs (exclusive.rs: one writer) ─▶ channel_protocol.rs ┐
//! GET /terminal, GET /command  ─▶ direct.rs ─▶ crate::socket::direct_terminal, or the above ──┴─▶ crate::socket
//! ```

pub(super) mod attach;
mod channel_protocol;
pub(super) mod direct;
mod exclusive;
pub(super) mod handlers;
