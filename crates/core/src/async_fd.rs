//! Registers descriptors with tokio's poller.
//!
//! `AsyncFd` demands a guarantee that the type system cannot express: the descriptor stays the same while it is
//! registered. The core's only `unsafe` line gives it, for types that own their descriptor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use outlive_holder::wire::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A type that owns one descriptor and never replaces it.
pub trait StableFd: AsRawFd {}
impl StableFd for Socket {}
impl StableFd for Arc<OwnedFd> {}

pub fn register<T: StableFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `StableFd` is implemented only for types that own one open descriptor until they are dropped.
    unsafe { AsyncFd::register_with_interest(owner, interest) }.map_err(io::Error::from)
}
