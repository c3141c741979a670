//! What sessions have to say, for whoever listens. A ring: listeners pull by number, and nothing waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use super::envelope::Told;
use crate::dialect::opencode::id;

/// What the ring has at most.
const MOST_EVENTS: usize = 1024;
const MOST_BYTES: usize = 8 << 20;

#[derive(Default)]
pub(in super::super) struct Bus {
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Default)]
struct Ring {
    said: VecDeque<Arc<Said>>,
    next: u64,
    bytes: usize,
}

pub(super) struct Said {
    pub(super) sequence: u64,
    pub(super) told: Told,
}

impl Bus {
    /// Tells everybody who listens in this folder.
    pub(in super::super) fn say(&self, kind: &'static str, directory: &str, properties: &Value) {
        let told = Told {
            id: id::ascending("evt"),
            kind,
            directory: Some(directory.to_owned()),
            properties: properties.to_string(),
        };
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = ring.next;
        ring.next += 1;
        ring.bytes += told.properties.len();
        ring.said.push_back(Arc::new(Said { sequence, told }));
        while ring.said.len() > MOST_EVENTS || ring.bytes > MOST_BYTES {
            match ring.said.pop_front() {
                Some(oldest) => ring.bytes -= oldest.told.properties.len(),
                None => break,
            }
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    pub(super) fn position(&self) -> u64 {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).next
    }

    /// What has this number, when it comes; nothing if it is gone.
    pub(super) async fn next(&self, wanted: u64) -> Option<Arc<Said>> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
                let oldest = ring.next - ring.said.len() as u64;
                if wanted < oldest {
                    return None;
                }
                if let Some(said) = ring.said.get((wanted - oldest) as usize) {
                    return Some(Arc::clone(said));
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_was_said_is_pulled_in_order_and_a_hole_is_seen() {
        let bus = Bus::default();
        assert_eq!(bus.position(), 0);
        for number in 0..=MOST_EVENTS {
            bus.say("session.idle", "/d", &json!(number));
        }
        assert!(bus.next(0).await.is_none(), "the first is gone");
        for number in 1..=MOST_EVENTS as u64 {
            assert_eq!(bus.next(number).await.unwrap().told.properties, number.to_string());
        }
        bus.say("session.idle", "/d", &json!("x".repeat(MOST_BYTES)));
        assert_eq!(bus.next(bus.position() - 1).await.map(|said| said.sequence), None, "larger than all of it");
        bus.say("session.idle", "/d", &json!(1));
        assert!(bus.next(bus.position() - 1).await.is_some());
    }
}
