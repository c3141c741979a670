//! What happened, numbered, for those who want to follow.
//!
//! Events and the records they speak of are written to the journal in one change, so they survive the server
//! together; the newest are also in memory for replay. Followers pull by number, nothing queues for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use outlive_holder::clock;
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::journal::{Change, Journal, Kept};
use crate::lock;
use crate::process::ProcessInfo;

/// Why a process was updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    Started,
    StopRequested,
    Resized,
    Attached,
    Detached,
    Patched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Created,
    Updated(Why),
    Exited,
    Deleted,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "process.created",
            Self::Updated(_) => "process.updated",
            Self::Exited => "process.exited",
            Self::Deleted => "process.deleted",
        }
    }
}

/// One event as it is sent.
#[derive(Clone, Debug)]
pub struct Event {
    pub sequence: u64,
    /// `process.created` and so on.
    pub kind: String,
    pub process_id: String,
    pub tag: Option<String>,
    pub session_id: Option<String>,
    /// The whole event as JSON.
    pub json: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Why>,
    process: ProcessInfo,
}

pub(crate) struct Events {
    journal: Arc<Journal>,
    ring: Mutex<Ring>,
    changed: Notify,
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    next: u64,
    most: usize,
}

/// What a follower gets next.
#[derive(Clone, Debug)]
pub enum Next {
    Event(Arc<Event>),
    /// Events before this number are gone.
    Reset {
        next: u64,
    },
}

impl Events {
    pub(crate) fn new(journal: Arc<Journal>, earlier: VecDeque<(u64, Vec<u8>)>, most: usize) -> Self {
        let next = earlier.back().map_or(1, |(sequence, _)| sequence + 1);
        let events = earlier.into_iter().filter_map(|(sequence, bytes)| restore(sequence, bytes)).collect();
        Self { journal, ring: Mutex::new(Ring { events, next, most }), changed: Notify::new() }
    }

    pub(crate) fn set_most(&self, most: usize) {
        lock(&self.ring).most = most;
    }

    /// Publishes an event together with the changes that it tells of.
    pub(crate) fn emit(&self, kind: Kind, process: ProcessInfo, mut changes: Vec<Change>) {
        let reason = if let Kind::Updated(why) = kind { Some(why) } else { None };
        let (process_id, tag, session_id) = (process.id.clone(), process.tag.clone(), process.session_id.clone());
        let body = Body { kind: kind.name(), at_ms: clock::wall_ms(), reason, process };
        let json = serde_json::to_string(&body).unwrap_or_default();
        let mut ring = lock(&self.ring);
        let sequence = ring.next;
        changes.push(Change::Event { sequence, value: json.clone().into_bytes() });
        if self.journal.append(&changes) == Kept::ByAnother {
            return;
        }
        ring.next += 1;
        let kind = kind.name().to_owned();
        ring.events.push_back(Arc::new(Event { sequence, kind, process_id, tag, session_id, json }));
        while ring.events.len() > ring.most {
            ring.events.pop_front();
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    /// The number that the next event will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        lock(&self.ring).next
    }

    /// The event numbered `wanted`, or the first one after a hole.
    fn at(&self, wanted: u64) -> Option<Next> {
        let ring = lock(&self.ring);
        let oldest = ring.events.front().map_or(ring.next, |event| event.sequence);
        if wanted < oldest || wanted > ring.next {
            return Some(Next::Reset { next: oldest });
        }
        let position = ring.events.partition_point(|event| event.sequence < wanted);
        ring.events.get(position).map(|event| Next::Event(Arc::clone(event)))
    }

    pub(crate) async fn wait_for(&self, wanted: u64) -> Next {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(next) = self.at(wanted) {
                return next;
            }
            changed.await;
        }
    }
}

/// Reads back an event that an earlier server wrote.
fn restore(sequence: u64, bytes: Vec<u8>) -> Option<Arc<Event>> {
    let json = String::from_utf8(bytes).ok()?;
    let body: serde_json::Value = serde_json::from_str(&json).ok()?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    Some(Arc::new(Event {
        sequence,
        kind: text(&body["type"])?,
        process_id: text(&body["process"]["id"])?,
        tag: text(&body["process"]["tag"]),
        session_id: text(&body["process"]["sessionId"]),
        json,
    }))
}

/// Follows events from a number on.
pub struct Follower {
    pub(crate) services: Arc<crate::services::Services>,
    pub(crate) next: u64,
}

impl Follower {
    pub async fn next(&mut self) -> Next {
        let next = self.services.events.wait_for(self.next).await;
        self.next = match &next {
            Next::Event(event) => event.sequence + 1,
            Next::Reset { next } => *next,
        };
        next
    }

    /// The number before the next event; what a client may resume after.
    pub fn position(&self) -> u64 {
        self.next - 1
    }
}
