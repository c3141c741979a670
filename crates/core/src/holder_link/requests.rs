//! Questions that wait for the holder's answer.

use std::collections::HashMap;
use std::sync::Mutex;

use outlive_holder::wire::{Done, SpawnFailed};
use tokio::sync::oneshot;

use super::Started;
use crate::lock;

#[derive(Debug)]
pub(crate) enum Answer {
    Started(Started),
    Failed(SpawnFailed),
    Done(Done),
}

#[derive(Default)]
pub(super) struct Requests(Mutex<Open>);

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
        let mut open = lock(&self.0);
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
        if let Some(sender) = lock(&self.0).waiting.remove(&number) {
            // Whoever asked may have gone away.
            let _ = sender.send(answer);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).waiting.is_empty()
    }

    /// Everybody who waits learns that no answer will come.
    pub(super) fn close_all(&self) {
        let mut open = lock(&self.0);
        open.closed = true;
        open.waiting.clear();
    }
}
