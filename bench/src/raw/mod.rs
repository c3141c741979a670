//! The ceilings: the same work by the kernel's own interfaces, without any server.

pub mod pipe;
pub mod spawn;
pub mod tcp;
pub mod terminal;
