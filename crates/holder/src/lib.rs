//! The holder: the process of outlive that must not die.
//!
//! It spawns and reaps programs, records their output into shared logs, and stores everything that must survive the
//! server: listeners, records, deadlines, descriptors. It knows neither HTTP nor the meaning of what it stores, has no
//! async runtime, and bounds the work of every loop iteration.

pub mod clock;
mod event_loop;
pub mod log;
mod spawn;
pub mod tree;
pub mod wire;

pub use event_loop::{InitialState, Settings, block_signals, check, hold};
pub use spawn::OUTPUT_PIPE_BYTES;

/// Width of a process key. It must fit into a tree tag, and into epoll user data next to the kind of the source.
pub(crate) const KEY_BITS: u32 = 40;
