//! Who types into a terminal: one client at a time, until it leaves or another takes its place. The loser is told, and whether it
//! hears that is its own affair: nothing waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

/// Only of connections that are open, so it dies with the server as they do.
#[derive(Default)]
struct Leases {
    by_process: HashMap<String, Taken>,
    last: u64,
}

struct Taken {
    number: u64,
    lost: watch::Sender<bool>,
}

fn leases() -> MutexGuard<'static, Leases> {
    static LEASES: OnceLock<Mutex<Leases>> = OnceLock::new();
    LEASES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Being the one. Given back when dropped.
pub(super) struct Lease {
    process: String,
    number: u64,
    lost: watch::Receiver<bool>,
}

impl Lease {
    /// `None`: somebody else is.
    pub(super) fn take(process: &str) -> Option<Self> {
        let mut leases = leases();
        (!leases.by_process.contains_key(process)).then(|| leases.put(process))
    }

    /// Whoever was is not any more.
    pub(super) fn take_over(process: &str) -> Self {
        let mut leases = leases();
        if let Some(before) = leases.by_process.remove(process) {
            before.lost.send_replace(true);
        }
        leases.put(process)
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Resolves when another has taken it over.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            // Without a sender it was given back, and nobody can lose it.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Leases {
    fn put(&mut self, process: &str) -> Lease {
        self.last += 1;
        let (sender, lost) = watch::channel(false);
        self.by_process.insert(process.to_owned(), Taken { number: self.last, lost: sender });
        Lease { process: process.to_owned(), number: self.last, lost }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = leases();
        if leases.by_process.get(&self.process).is_some_and(|taken| taken.number == self.number) {
            leases.by_process.remove(&self.process);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn one_at_a_time_and_the_last_one_wins() {
        let first = Lease::take("a").unwrap();
        assert!(Lease::take("a").is_none());
        assert!(Lease::take("b").is_some());
        let second = Lease::take_over("a");
        assert!(first.is_lost() && first.lost().now_or_never().is_some());
        assert!(!second.is_lost() && second.lost().now_or_never().is_none());
        drop(first);
        assert!(Lease::take("a").is_none(), "the second one has it");
        drop(second);
        assert!(Lease::take("a").is_some());
    }
}
