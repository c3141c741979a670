//! Descriptors in the runtime's poller.
//!
//! tokio asks for a promise that a type cannot give: that the descriptor stays the same. The core's one line
//! of unsafe code gives it, for types that own their descriptor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use outlive_holder::wire::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Owns one descriptor and never exchanges it.
pub trait SteadyFd: AsRawFd {}
impl SteadyFd for Socket {}
impl SteadyFd for Arc<OwnedFd> {}

pub fn poll<T: SteadyFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `SteadyFd` is implemented only for types that own one open descriptor until they are dropped.
    unsafe { AsyncFd::register_with_interest(owner, interest) }.map_err(io::Error::from)
}
