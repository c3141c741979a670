//! The raw baseline: the same work done with system calls alone, without a server.

pub mod pipe;
pub mod spawn;
pub mod tcp;
pub mod terminal;
