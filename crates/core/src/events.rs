//! Events about processes and sessions: numbered, replayable, and followed by clients.
//!
//! An event and the record that it is about are written to the journal in one batch, so they survive the server
//! together. Followers read by sequence number; there is no queue per follower. The newest events are also in memory, for
//! followers that keep up; a replay reads the journal. Hidden processes, which are parts of sessions, have no events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use outlive_holder::clock;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::process::ProcessInfo;
use crate::session::SessionInfo;
use crate::store::journal::{AppendOutcome, Change, Journal};
use crate::{lock, wait_changed};

/// Events that are in memory as well as in the journal.
const MAX_CACHED_EVENTS: usize = 256;

/// Why a process or a session was updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum UpdateReason {
    Started,
    StopRequested,
    Resized,
    Attached,
    Detached,
    Patched,
    /// A session has a new shell, because the previous one exited.
    ShellRestarted,
    /// A command has to wait for another one of its session.
    ExecQueued,
    ExecStarted,
    /// A command of a session ended, or was refused and never runs.
    ExecFinished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Created,
    Updated(UpdateReason),
    /// The command of a process, or the shell of a session, ended.
    Exited,
    Deleted,
}

/// What an event is about, in its state after the change.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Process(&'a ProcessInfo),
    Session {
        info: &'a SessionInfo,
        /// The command that the event is about.
        exec_id: Option<&'a str>,
    },
}

/// All types of events.
pub const TYPES: [&str; 8] = [
    "process.created",
    "process.updated",
    "process.exited",
    "process.deleted",
    "session.created",
    "session.updated",
    "session.exited",
    "session.deleted",
];

impl Kind {
    fn type_name(self, subject: Subject<'_>) -> &'static str {
        let is_process = matches!(subject, Subject::Process(_));
        match self {
            Self::Created if is_process => "process.created",
            Self::Updated(_) if is_process => "process.updated",
            Self::Exited if is_process => "process.exited",
            Self::Deleted if is_process => "process.deleted",
            Self::Created => "session.created",
            Self::Updated(_) => "session.updated",
            Self::Exited => "session.exited",
            Self::Deleted => "session.deleted",
        }
    }
}

/// An event as clients get it.
#[derive(Clone, Debug)]
pub struct Event {
    pub sequence: u64,
    /// One of [`TYPES`].
    pub kind: String,
    /// `None` for an event about a session.
    pub process_id: Option<String>,
    pub tag: Option<String>,
    /// The session, or the one that the process belongs to.
    pub session_id: Option<String>,
    /// The whole event as JSON.
    pub json: String,
}

// The type comes first: `store/recent_events` recognizes it in the journal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<UpdateReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a ProcessInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionInfo>,
}

/// An event that is emitted when its change is written.
pub(crate) struct PendingEvent<'a> {
    pub(crate) events: &'a Events,
    pub(crate) kind: Kind,
    pub(crate) subject: Subject<'a>,
}

impl PendingEvent<'_> {
    pub(crate) fn emit(self, changes: Vec<Change>) -> AppendOutcome {
        self.events.emit(self.kind, self.subject, changes)
    }
}

pub(crate) struct Events {
    journal: Arc<Journal>,
    newest: Mutex<NewestEvents>,
    changed: Notify,
}

struct NewestEvents {
    cached: VecDeque<CachedEvent>,
    next: u64,
    /// Events before this one are lost: one of them is neither in memory nor in the journal.
    lost_before: u64,
}

struct CachedEvent {
    event: Arc<Event>,
    /// False: there was no memory to write it to the journal.
    is_journaled: bool,
}

impl NewestEvents {
    fn push(&mut self, event: Event, is_journaled: bool) {
        self.next = event.sequence + 1;
        self.cached.push_back(CachedEvent { event: Arc::new(event), is_journaled });
        if self.cached.len() > MAX_CACHED_EVENTS
            && let Some(oldest) = self.cached.pop_front().filter(|oldest| !oldest.is_journaled)
        {
            self.lost_before = oldest.event.sequence + 1;
        }
    }

    /// The first cached event with this sequence or a later one.
    fn first_from(&self, sequence: u64) -> Option<&Arc<Event>> {
        let position = self.cached.partition_point(|cached| cached.event.sequence < sequence);
        self.cached.get(position).map(|cached| &cached.event)
    }
}

/// What a follower yields.
#[derive(Clone, Debug)]
pub enum FollowerItem {
    Event(Arc<Event>),
    /// The follower requested events that do not exist or are no longer kept; it continues with the event numbered `next`.
    Reset {
        next: u64,
    },
}

impl Events {
    pub(crate) fn new(journal: Arc<Journal>) -> Self {
        let next = journal.newest_event().map_or(1, |newest| newest + 1);
        let newest = NewestEvents { cached: VecDeque::new(), next, lost_before: 0 };
        Self { journal, newest: Mutex::new(newest), changed: Notify::new() }
    }

    /// Publishes an event together with the changes of the records that it is about.
    pub(crate) fn emit(&self, kind: Kind, subject: Subject<'_>, mut changes: Vec<Change>) -> AppendOutcome {
        let reason = if let Kind::Updated(reason) = kind { Some(reason) } else { None };
        let kind = kind.type_name(subject);
        let body = EventBody { kind, at_ms: clock::wall_ms(), reason, exec_id: None, process: None, session: None };
        let body = match subject {
            Subject::Process(info) => EventBody { process: Some(info), ..body },
            Subject::Session { info, exec_id } => EventBody { exec_id, session: Some(info), ..body },
        };
        let json = serde_json::to_string(&body).unwrap_or_default();
        let mut newest = lock(&self.newest);
        let sequence = newest.next;
        changes.push(Change::Event { sequence, value: json.clone().into_bytes() });
        let outcome = self.journal.append(&changes);
        let is_published = match subject {
            // A process has changed even if its record cannot be written.
            Subject::Process(_) => outcome != AppendOutcome::Closed,
            Subject::Session { .. } => outcome == AppendOutcome::Written,
        };
        if is_published {
            newest.push(Event::new(sequence, kind, subject, json), outcome == AppendOutcome::Written);
            drop(newest);
            self.changed.notify_waiters();
        }
        outcome
    }

    /// The sequence of the next event.
    pub(crate) fn next_sequence(&self) -> u64 {
        lock(&self.newest).next
    }

    /// The event with this sequence; `None` if it has not happened yet.
    fn get(&self, mut sequence: u64) -> Option<FollowerItem> {
        loop {
            let newest = lock(&self.newest);
            let oldest = self.journal.oldest_event().unwrap_or(newest.next).max(newest.lost_before);
            if sequence < oldest || sequence > newest.next {
                return Some(FollowerItem::Reset { next: oldest });
            }
            let cached = newest.first_from(sequence);
            let journaled = match cached {
                Some(cached) if cached.sequence == sequence => None,
                _ => self.journal.event_from(sequence),
            };
            // An event that is not in the journal may come first.
            match journaled.filter(|(journaled, _)| cached.is_none_or(|cached| *journaled < cached.sequence)) {
                None => return cached.map(|event| FollowerItem::Event(Arc::clone(event))),
                Some((journaled, json)) => {
                    drop(newest);
                    match decode(journaled, json) {
                        Some(event) => return Some(FollowerItem::Event(Arc::new(event))),
                        None => sequence = journaled + 1,
                    }
                }
            }
        }
    }

    pub(crate) async fn wait_for(&self, sequence: u64) -> FollowerItem {
        wait_changed(&self.changed, || self.get(sequence)).await
    }
}

impl Event {
    fn new(sequence: u64, kind: &str, subject: Subject<'_>, json: String) -> Self {
        let (process_id, tag, session_id) = match subject {
            Subject::Process(info) => (Some(info.id.clone()), info.tag.clone(), info.session_id.clone()),
            Subject::Session { info, .. } => (None, None, Some(info.id.clone())),
        };
        Self { sequence, kind: kind.to_owned(), process_id, tag, session_id, json }
    }
}

/// Decodes an event from the journal. `None`: a later version wrote it, about something else.
fn decode(sequence: u64, bytes: Vec<u8>) -> Option<Event> {
    let json = String::from_utf8(bytes).ok()?;
    let StoredBody { kind, process, session } = serde_json::from_str(&json).ok()?;
    let (process_id, tag, session_id) = match (process, session) {
        (Some(process), _) => (Some(process.id), process.tag, process.session_id),
        (None, Some(session)) => (None, None, Some(session.id)),
        (None, None) => return None,
    };
    Some(Event { sequence, kind, process_id, tag, session_id, json })
}

/// The part of an [`EventBody`] that followers select by.
#[derive(Deserialize)]
struct StoredBody {
    #[serde(rename = "type")]
    kind: String,
    process: Option<StoredSubject>,
    session: Option<StoredSubject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredSubject {
    id: String,
    tag: Option<String>,
    session_id: Option<String>,
}

/// Reads events from a sequence on.
pub struct Follower {
    pub(crate) services: Arc<crate::services::Services>,
    pub(crate) next: u64,
}

impl Follower {
    pub async fn next(&mut self) -> FollowerItem {
        let next = self.services.events.wait_for(self.next).await;
        self.next = match &next {
            FollowerItem::Event(event) => event.sequence + 1,
            FollowerItem::Reset { next } => *next,
        };
        next
    }

    /// The sequence before the next event, after which a client can resume.
    pub fn position(&self) -> u64 {
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder_link::HolderLink;

    #[test]
    fn events_of_earlier_servers_are_decoded() {
        let decode = |json: &str| {
            let event = decode(1, json.as_bytes().to_vec())?;
            Some((event.kind, event.process_id, event.tag, event.session_id))
        };
        let text = |text: &str| Some(text.to_owned());
        let process = r#"{"type":"process.exited","atMs":1,"process":{"id":"proc_1","tag":"t","sessionId":"work"}}"#;
        assert_eq!(decode(process), Some(("process.exited".to_owned(), text("proc_1"), text("t"), text("work"))));
        let session = r#"{"type":"session.exited","atMs":1,"session":{"id":"work"}}"#;
        assert_eq!(decode(session), Some(("session.exited".to_owned(), None, None, text("work"))));
        assert_eq!(decode(r#"{"type":"planet.created","atMs":1,"planet":{"id":"x"}}"#), None);
        assert_eq!(decode("no json"), None);
    }
    #[tokio::test]
    async fn a_replay_continues_from_the_journal_to_the_events_in_memory() {
        const COUNT: u64 = 3 * MAX_CACHED_EVENTS as u64;
        let journal = Arc::new(Journal::open(HolderLink::disconnected(), None).unwrap());
        let events = Events::new(Arc::clone(&journal));
        let info = ProcessInfo::example();
        for _ in 0..COUNT {
            events.emit(Kind::Exited, Subject::Process(&info), Vec::new());
        }
        for sequence in 1..=COUNT {
            let Some(FollowerItem::Event(event)) = events.get(sequence) else { panic!("no event {sequence}") };
            assert_eq!((event.sequence, event.kind.as_str()), (sequence, "process.exited"));
        }
        assert!(events.get(COUNT + 1).is_none());
        assert!(matches!(events.get(COUNT + 2), Some(FollowerItem::Reset { next: 1 })));
        // The next server numbers its events after these.
        assert_eq!(Events::new(Arc::clone(&journal)).next_sequence(), COUNT + 1);
        journal.set_max_events(10);
        assert!(matches!(events.get(1), Some(FollowerItem::Reset { next }) if next == COUNT - 9));
    }

    #[tokio::test]
    async fn an_event_that_could_not_be_written_is_reported_as_lost_when_it_leaves_the_memory() {
        let events = Events::new(Arc::new(Journal::open(HolderLink::disconnected(), None).unwrap()));
        let info = ProcessInfo::example();
        let emit = || events.emit(Kind::Exited, Subject::Process(&info), Vec::new());
        emit();
        lock(&events.newest).push(Event::new(2, "process.exited", Subject::Process(&info), String::new()), false);
        emit();
        for sequence in [1, 2, 3] {
            assert!(matches!(events.get(sequence), Some(FollowerItem::Event(event)) if event.sequence == sequence));
        }
        for _ in 0..MAX_CACHED_EVENTS {
            emit();
        }
        assert!(matches!(events.get(1), Some(FollowerItem::Reset { next: 3 })));
        assert!(matches!(events.get(3), Some(FollowerItem::Event(event)) if event.sequence == 3));
    }
}
