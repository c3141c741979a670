//! The most recent events by sequence number, of which the journal keeps the entries.
//!
//! A busy session emits `session.updated` several times per command. Each session event supersedes the `session.updated`
//! before it of the same session. Superseded ones are the first to be evicted, so that they do not evict all others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Start of the JSON text of an event about a session. `events` writes the type first.
const SESSION_START: &[u8] = b"{\"type\":\"session.";
const SESSION_UPDATE_START: &[u8] = b"{\"type\":\"session.updated\"";
/// What precedes the id of the session.
const SESSION_ID_START: &str = "\"session\":{\"id\":\"";
/// Superseded events are evicted first while they have more than one in this many places.
const SUPERSEDED_SHARE: usize = 4;

pub(crate) struct RecentEvents<T> {
    events: BTreeMap<u64, T>,
    superseded: BTreeSet<u64>,
    /// The newest `session.updated` of each session that nothing supersedes yet, and the reverse.
    updates: HashMap<Box<str>, u64>,
    updated_sessions: HashMap<u64, Box<str>>,
    max_events: usize,
}

impl<T> RecentEvents<T> {
    pub(crate) fn new(max_events: usize) -> Self {
        let mut events = Self {
            events: BTreeMap::new(),
            superseded: BTreeSet::new(),
            updates: HashMap::new(),
            updated_sessions: HashMap::new(),
            max_events: 0,
        };
        events.set_max_events(max_events);
        events
    }

    /// A lower limit than `SUPERSEDED_SHARE` has no effect: the newest event must not be evicted.
    pub(crate) fn set_max_events(&mut self, max_events: usize) {
        self.max_events = max_events.max(SUPERSEDED_SHARE);
    }

    /// Frees the space of evicted events.
    pub(crate) fn shrink(&mut self) {
        self.updates.shrink_to_fit();
        self.updated_sessions.shrink_to_fit();
    }

    /// Adds the newest event. The caller then calls `evict` until it returns `None`.
    pub(crate) fn push(&mut self, sequence: u64, json: &[u8], event: T) {
        self.events.insert(sequence, event);
        let Some(session) = session_id(json) else { return };
        if let Some(update) = self.updates.remove(session) {
            self.updated_sessions.remove(&update);
            self.superseded.insert(update);
        }
        if json.starts_with(SESSION_UPDATE_START) {
            self.updates.insert(session.into(), sequence);
            self.updated_sessions.insert(sequence, session.into());
        }
    }

    /// Removes one event if there are too many: a superseded one, or else the oldest of all, so that every event from
    /// `oldest` on that is missing is a superseded one.
    pub(crate) fn evict(&mut self) -> Option<T> {
        if self.events.len() <= self.max_events {
            return None;
        }
        let superseded = self.superseded.first().filter(|_| self.superseded.len() > self.max_events / SUPERSEDED_SHARE);
        let sequence = superseded.or_else(|| self.events.keys().next()).copied()?;
        self.superseded.remove(&sequence);
        if let Some(session) = self.updated_sessions.remove(&sequence) {
            self.updates.remove(&session);
        }
        self.events.remove(&sequence)
    }

    /// The sequence from which no event is missing, apart from superseded ones.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.events.keys().copied().find(|sequence| !self.superseded.contains(sequence))
    }

    /// The first event with this sequence or a later one.
    pub(crate) fn first_from(&self, sequence: u64) -> Option<&T> {
        self.events.range(sequence..).next().map(|(_, event)| event)
    }

    /// All events in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.events.values_mut()
    }
}

/// The session that an event is about.
fn session_id(json: &[u8]) -> Option<&str> {
    if !json.starts_with(SESSION_START) {
        return None;
    }
    let (_, from_id) = std::str::from_utf8(json).ok()?.split_once(SESSION_ID_START)?;
    from_id.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &[u8] = b"{\"type\":\"process.created\",\"atMs\":1}";

    fn update(session: u64) -> Vec<u8> {
        format!(r#"{{"type":"session.updated","atMs":1,"session":{{"id":"sess_{session}","name":"x"}}}}"#).into_bytes()
    }

    fn push(events: &mut RecentEvents<u64>, sequence: u64, json: &[u8]) -> Option<u64> {
        events.push(sequence, json, sequence);
        let evicted = events.evict();
        assert_eq!(events.evict(), None);
        evicted
    }

    fn all(events: &mut RecentEvents<u64>) -> Vec<u64> {
        events.iter_mut().map(|sequence| *sequence).collect()
    }

    #[test]
    fn updates_of_one_session_do_not_evict_other_events() {
        let mut events = RecentEvents::new(8);
        for sequence in 1..1000 {
            push(&mut events, sequence, &if sequence < 6 { OTHER.to_vec() } else { update(1) });
        }
        assert_eq!(all(&mut events), [1, 2, 3, 4, 5, 997, 998, 999]);
        assert_eq!((events.oldest(), events.first_from(7), events.first_from(999)), (Some(1), Some(&997), Some(&999)));
        assert_eq!(events.first_from(1000), None);
        // Other events leave the superseded ones their share.
        assert_eq!((push(&mut events, 1000, OTHER), push(&mut events, 1001, OTHER)), (Some(1), Some(2)));
        assert_eq!((events.oldest(), events.first_from(7)), (Some(3), Some(&997)));
    }

    #[test]
    fn the_last_update_of_a_quiet_session_is_kept_or_counts_as_lost() {
        let mut events = RecentEvents::new(8);
        push(&mut events, 1, &update(7));
        for sequence in 2..1000 {
            push(&mut events, sequence, &update(1));
        }
        assert_eq!(events.first_from(1), Some(&1));
        assert_eq!(events.oldest(), Some(1));
        for sequence in 1000..1020 {
            push(&mut events, sequence, OTHER);
        }
        assert_ne!(events.first_from(1), Some(&1));
        assert!(events.oldest() > Some(1));
    }

    #[test]
    fn an_evicted_event_that_nothing_supersedes_is_older_than_the_oldest() {
        let mut events = RecentEvents::new(16);
        let mut superseded_at: HashMap<u64, u64> = HashMap::new();
        let mut session_of: HashMap<u64, u64> = HashMap::new();
        let mut evicted = Vec::new();
        let mut random = 1_u64;
        for sequence in 1..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let kind = (random >> 40) % 12;
            let json = if kind < 9 { update(kind) } else { OTHER.to_vec() };
            if kind < 9
                && let Some(before) = session_of.insert(kind, sequence)
            {
                superseded_at.insert(before, sequence);
            }
            evicted.extend(push(&mut events, sequence, &json));
            let oldest = events.oldest().unwrap();
            for gone in &evicted {
                assert!(superseded_at.contains_key(gone) || *gone < oldest, "{gone} {oldest}");
            }
        }
        assert!(events.updates.len() <= 9 && events.superseded.len() <= 16);
    }

    #[test]
    fn the_newest_event_is_kept_however_low_the_limit() {
        let update = update(1);
        for kinds in [[update.as_slice(), OTHER], [OTHER, &update], [&update, &update], [OTHER, OTHER]] {
            let mut events = RecentEvents::new(1);
            for sequence in 1..20 {
                push(&mut events, sequence, kinds[sequence as usize % 2]);
                assert_eq!(events.first_from(sequence), Some(&sequence));
            }
        }
    }
}
