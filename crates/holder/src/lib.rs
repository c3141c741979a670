//! The part of outlive that must not die.
//!
//! The holder spawns programs, reaps them, records their output into shared logs and keeps what has to survive
//! the server: listeners, records, deadlines, descriptors. It knows nothing of HTTP or of meaning, has no
//! async runtime, and every loop iteration is bounded.

pub mod clock;
mod hold;
pub mod log;
mod spawn;
pub mod tree;
pub mod wire;

pub use hold::{Initial, Settings, block_signals, check, hold, say};

/// Process keys have at most this many bits, so that one fits into a mark and beside the kind of an event.
pub(crate) const KEY_BITS: u32 = 40;
