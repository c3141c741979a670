//! Exclusive attachment: one client at a time may write to a terminal of `/pty`. A client with `takeover=1` replaces
//! the current one, which is notified. Nothing waits until it has read the notification.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

use outlive_core::lock;
use tokio::sync::watch;

/// The current writers of all terminals. Holds only open connections, so it need not survive the server.
#[derive(Default)]
struct Registry {
    by_process: HashMap<String, Entry>,
    last_number: u64,
}

struct Entry {
    number: u64,
    taken_over: watch::Sender<bool>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    lock(REGISTRY.get_or_init(Mutex::default))
}

/// The right to write to a terminal. Released on drop.
pub(super) struct ExclusiveAttach {
    process: String,
    number: u64,
    taken_over: watch::Receiver<bool>,
}

impl ExclusiveAttach {
    /// `None` if another client has it.
    pub(super) fn acquire(process: &str) -> Option<Self> {
        let mut registry = registry();
        (!registry.by_process.contains_key(process)).then(|| registry.insert(process))
    }

    /// Takes it from the current client, if there is one.
    pub(super) fn take_over(process: &str) -> Self {
        let mut registry = registry();
        if let Some(previous) = registry.by_process.remove(process) {
            previous.taken_over.send_replace(true);
        }
        registry.insert(process)
    }

    pub(super) fn is_taken_over(&self) -> bool {
        *self.taken_over.borrow()
    }

    /// Resolves when another client has taken over.
    pub(super) fn until_taken_over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut taken_over = self.taken_over.clone();
        async move {
            // Without a sender it was released, and can no longer be taken over.
            if taken_over.wait_for(|taken_over| *taken_over).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Registry {
    fn insert(&mut self, process: &str) -> ExclusiveAttach {
        self.last_number += 1;
        let (sender, taken_over) = watch::channel(false);
        self.by_process.insert(process.to_owned(), Entry { number: self.last_number, taken_over: sender });
        ExclusiveAttach { process: process.to_owned(), number: self.last_number, taken_over }
    }
}

impl Drop for ExclusiveAttach {
    fn drop(&mut self) {
        let mut registry = registry();
        if registry.by_process.get(&self.process).is_some_and(|entry| entry.number == self.number) {
            registry.by_process.remove(&self.process);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn one_client_at_a_time_is_attached_and_a_take_over_wins() {
        let first = ExclusiveAttach::acquire("a").unwrap();
        assert!(ExclusiveAttach::acquire("a").is_none());
        assert!(ExclusiveAttach::acquire("b").is_some());
        let second = ExclusiveAttach::take_over("a");
        assert!(first.is_taken_over() && first.until_taken_over().now_or_never().is_some());
        assert!(!second.is_taken_over() && second.until_taken_over().now_or_never().is_none());
        drop(first);
        assert!(ExclusiveAttach::acquire("a").is_none(), "the second one has it");
        drop(second);
        assert!(ExclusiveAttach::acquire("a").is_some());
    }
}
