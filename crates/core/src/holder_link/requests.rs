//! Questions that wait for the holder's answer.

use std::collections::HashMap;
use std::sync::Mutex;

use outlive_holder::wire::{Done, Over, SpawnFailed};
use tokio::sync::{Notify, oneshot};

use super::Started;
use crate::lock;

#[derive(Debug)]
pub(crate) enum Answer {
    Started(Started),
    Over(Over),
    Failed(SpawnFailed),
    Done(Done),
}

#[derive(Default)]
pub(super) struct Requests {
    open: Mutex<Open>,
    /// One fewer waits.
    fewer: Notify,
}

#[derive(Default)]
struct Open {
    last: u32,
    waiting: HashMap<u32, oneshot::Sender<Answer>>,
    /// No answer will come any more.
    closed: bool,
}

impl Requests {
    pub(super) fn open(&self) -> (u32, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = lock(&self.open);
        // Numbers come round; one that still waits is passed over, and 0, which is nobody.
        loop {
            open.last = open.last.wrapping_add(1);
            if open.last != 0 && !open.waiting.contains_key(&open.last) {
                break;
            }
        }
        let number = open.last;
        if !open.closed {
            open.waiting.insert(number, sender);
        }
        (number, receiver)
    }

    pub(super) fn answer(&self, number: u32, answer: Answer) {
        let asked = lock(&self.open).waiting.remove(&number);
        if let Some(sender) = asked {
            // Whoever asked may have gone away.
            let _ = sender.send(answer);
            self.fewer.notify_waiters();
        }
    }

    /// Returns when nobody waits.
    pub(super) async fn until_empty(&self) {
        crate::changes::until(&self.fewer, || lock(&self.open).waiting.is_empty().then_some(())).await;
    }

    /// Everybody who waits learns that no answer will come.
    pub(super) fn close_all(&self) {
        let mut open = lock(&self.open);
        open.closed = true;
        open.waiting.clear();
        drop(open);
        self.fewer.notify_waiters();
    }
}
