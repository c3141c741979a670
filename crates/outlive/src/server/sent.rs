//! Knowing what has left us.
//!
//! What a handler gives out for an answer is not sent yet: it waits in the connection's buffer, and is lost with us if we die.
//! With the kernel it is safe: that sends it on, even after our death. hyper flushes a connection when its buffer
//! is empty, so then everything that was given out before is with the kernel. (Of an answer over HTTP/2 only as much as the client's
//! window takes.)

use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::log::Log;

/// Of one connection: the offsets of logs that its client will have when everything given out so far is sent.
#[derive(Default)]
pub(crate) struct Sent(Mutex<Vec<(Arc<Log>, u64)>>);

impl Sent {
    /// Everything before `offset` has been given out for the answer; the log's resume offset rises when that is sent.
    pub(crate) fn raises(&self, log: &Arc<Log>, offset: u64) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.iter_mut().find(|(known, _)| Arc::ptr_eq(known, log)) {
            Some((_, before)) => *before = offset.max(*before),
            None => waiting.push((Arc::clone(log), offset)),
        }
    }

    pub(super) fn flushed(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (log, offset) in waiting.drain(..) {
            log.raise_resume_offset(offset);
        }
    }
}
