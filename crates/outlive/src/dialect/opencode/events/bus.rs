//! The event bus of sessions: a bounded ring that readers pull from by sequence number. Publishing never waits for a
//! reader; a reader that falls behind the ring gets `None`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use outlive_core::lock;
use serde_json::Value;
use tokio::sync::Notify;

use super::event::Event;
use crate::dialect::opencode::ids;

const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;

#[derive(Default)]
pub(crate) struct Bus {
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<BusEvent>>,
    next_sequence: u64,
    bytes: usize,
}

pub(super) struct BusEvent {
    pub(super) sequence: u64,
    pub(super) event: Event,
}

impl Bus {
    /// Publishes an event to all readers whose location covers `directory`.
    pub(crate) fn publish(&self, kind: &'static str, directory: &str, properties: &Value) {
        let event = Event {
            id: ids::ascending("evt"),
            kind,
            directory: Some(directory.to_owned()),
            properties: properties.to_string(),
        };
        let mut ring = lock(&self.ring);
        let sequence = ring.next_sequence;
        ring.next_sequence += 1;
        ring.bytes += event.properties.len();
        ring.events.push_back(Arc::new(BusEvent { sequence, event }));
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_BYTES {
            match ring.events.pop_front() {
                Some(oldest) => ring.bytes -= oldest.event.properties.len(),
                None => break,
            }
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    /// The sequence number of the next event.
    pub(super) fn next_sequence(&self) -> u64 {
        lock(&self.ring).next_sequence
    }

    /// Waits for the event with this sequence number; `None` if the ring has already dropped it.
    pub(super) async fn get(&self, sequence: u64) -> Option<Arc<BusEvent>> {
        outlive_core::wait_changed(&self.changed, || {
            let ring = lock(&self.ring);
            let oldest = ring.next_sequence - ring.events.len() as u64;
            match sequence.checked_sub(oldest) {
                None => Some(None),
                Some(index) => ring.events.get(index as usize).map(|event| Some(Arc::clone(event))),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn events_are_pulled_in_order_and_a_slow_reader_learns_of_dropped_ones() {
        let bus = Bus::default();
        assert_eq!(bus.next_sequence(), 0);
        for number in 0..=MAX_EVENTS {
            bus.publish("session.idle", "/d", &json!(number));
        }
        assert!(bus.get(0).await.is_none(), "the first event was dropped");
        for number in 1..=MAX_EVENTS as u64 {
            assert_eq!(bus.get(number).await.unwrap().event.properties, number.to_string());
        }
        bus.publish("session.idle", "/d", &json!("x".repeat(MAX_BYTES)));
        let last = bus.next_sequence() - 1;
        assert_eq!(bus.get(last).await.map(|event| event.sequence), None, "larger than the whole ring");
        bus.publish("session.idle", "/d", &json!(1));
        assert!(bus.get(bus.next_sequence() - 1).await.is_some());
    }
}
