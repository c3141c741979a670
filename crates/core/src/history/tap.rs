//! The link between a process and the thread that stores its output.
//!
//! The dispatcher of the holder's wake-ups calls [`Tap::is_due`] for every wake-up of every process. It costs one atomic
//! load unless the writer waits for this process.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};

use outlive_history::Span;

use crate::log::Log;

/// The writer waits for nothing.
const NOT_WAITING: u64 = u64::MAX;

pub(crate) struct Tap {
    pub(super) key: u64,
    /// The stored range of the process. Set when the writer has opened its output.
    span: OnceLock<Arc<Span>>,
    /// The writer wants to know when the head has reached this offset.
    due_offset: AtomicU64,
    /// Everything before is stored.
    stored: AtomicU64,
}

impl Tap {
    pub(crate) fn new_shared(key: u64) -> Arc<Self> {
        Arc::new(Self {
            key,
            span: OnceLock::new(),
            due_offset: AtomicU64::new(NOT_WAITING),
            stored: AtomicU64::new(0),
        })
    }

    pub(crate) fn span(&self) -> Option<&Arc<Span>> {
        self.span.get()
    }

    pub(crate) fn set_span(&self, span: &Arc<Span>) {
        let _ = self.span.set(Arc::clone(span));
    }

    /// Writer: wait until the head reaches `due_offset`, or the ring is full.
    pub(super) fn wait_for(&self, due_offset: u64, stored: u64) {
        self.stored.store(stored, Relaxed);
        self.due_offset.store(due_offset, SeqCst);
    }

    pub(super) fn stop_waiting(&self) {
        self.due_offset.store(NOT_WAITING, SeqCst);
    }

    /// Whether the writer must be woken after a change of the log. At most one caller per wait gets true.
    pub(super) fn is_due(&self, log: &Log) -> bool {
        // Acquire: `stored` was written before it.
        let due_offset = self.due_offset.load(Acquire);
        if due_offset == NOT_WAITING {
            return false;
        }
        let Some(ring) = log.ring() else { return false };
        let head = ring.head();
        let stored = self.stored.load(Relaxed);
        // Chunk marks can run out before the bytes do. The last stream may close after the exit.
        let mut is_due = head >= due_offset || ring.is_blocked() && head > stored || log.is_complete();
        if !is_due && due_offset == stored + 1 {
            // A change without output, such as a closed pipe, has used up the request for the next byte.
            ring.request_wakeup();
            is_due = ring.head() >= due_offset;
        }
        is_due && self.due_offset.compare_exchange(due_offset, NOT_WAITING, SeqCst, Relaxed).is_ok()
    }
}
