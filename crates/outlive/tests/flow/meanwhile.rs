//! What goes on beside the work of a test, until that is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::harness::{Outlive, proc};

/// Highest memory of server and holder while `work` is done.
pub(crate) fn measured<T>(outlive: &Outlive, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let (server, holder) = (outlive.server_pid(), outlive.holder_pid());
    let over = AtomicBool::new(false);
    let (most_server, most_holder) = (AtomicU64::new(0), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                most_server.fetch_max(proc::memory_kib(server, "RssAnon"), SeqCst);
                most_holder.fetch_max(proc::memory_kib(holder, "RssAnon"), SeqCst);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let _over = Finally(&over);
        work()
    });
    (result, most_server.into_inner(), most_holder.into_inner())
}

pub(crate) struct Finally<'a>(pub(crate) &'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
