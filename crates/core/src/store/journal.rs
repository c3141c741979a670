//! The journal: named records and the latest events, in one memfd that the holder keeps for the next server.
//!
//! Only the serving server writes. A batch of changes becomes visible as a whole or not at all (`journal_file`). When
//! more than half of the file is garbage, the live entries are copied into a new memfd, which replaces the old one at
//! the holder.
//!
//! In memory is only where each entry lies: thousands of records and events are kept, and few are ever read again.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use super::journal_file::{self as file, JournalFile};
use super::recent_events::RecentEvents;
use crate::holder_link::HolderLink;

/// Name of the journal's descriptor at the holder.
pub(crate) const JOURNAL_NAME: &str = "journal";

/// A smaller file is not compacted, however much of it is garbage.
const MIN_COMPACTION_BYTES: u64 = 4 << 20;
/// A compaction copies about this many bytes at a time.
const COMPACTION_BUFFER_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Put = 1,
    Delete = 2,
    Event = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendOutcome {
    Written,
    /// Memory is exhausted: the changes hold only as long as this server lives.
    OutOfMemory,
    /// Another server writes the journal by now: the changes must not take effect.
    Closed,
}

/// One change of the journal.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put {
        name: String,
        value: Vec<u8>,
    },
    Delete {
        name: String,
    },
    /// An event's sequence number and its JSON text.
    Event {
        sequence: u64,
        value: Vec<u8>,
    },
}

pub(crate) struct Journal {
    link: HolderLink,
    inner: Mutex<Inner>,
}

struct Inner {
    file: JournalFile,
    records: BTreeMap<Box<str>, EntrySpan>,
    events: RecentEvents<EntrySpan>,
    newest_event: Option<u64>,
    /// Sum of the lengths of `records` and `events`; the rest of the file is garbage.
    live_bytes: u64,
    closed: bool,
}

/// Position of an entry in the file.
#[derive(Clone, Copy)]
struct EntrySpan {
    at: u64,
    len: u64,
}

impl Journal {
    /// Opens the journal that the holder kept, or creates one. All events are indexed: the limit on them is known only
    /// after the configuration has been read from the same journal.
    pub(crate) fn open(link: HolderLink, existing: Option<OwnedFd>) -> io::Result<Self> {
        let (file, is_new) = match existing {
            Some(fd) => (JournalFile::open(fd)?, false),
            None => (JournalFile::create()?, true),
        };
        let events = RecentEvents::new(usize::MAX);
        let mut inner =
            Inner { file, records: BTreeMap::new(), events, newest_event: None, live_bytes: 0, closed: false };
        inner.load()?;
        if is_new {
            link.store_fd(JOURNAL_NAME, inner.file.fd());
        }
        Ok(Self { link, inner: Mutex::new(inner) })
    }

    /// Sets how many of the latest events are kept for the next server.
    pub(crate) fn set_max_events(&self, max_events: usize) {
        let mut inner = crate::lock(&self.inner);
        inner.events.set_max_events(max_events);
        inner.evict_events();
        inner.events.shrink();
    }

    /// Refuses all further changes: another server writes from now on.
    pub(crate) fn close(&self) {
        crate::lock(&self.inner).closed = true;
    }

    /// The value of a record.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let inner = crate::lock(&self.inner);
        inner.records.get(name).map(|span| inner.file.read_value(span.at, span.len, name)).transpose()
    }

    /// All records whose names start with `prefix`, in the order of names. The journal may be changed in the meantime.
    pub(crate) fn records_with_prefix(&self, prefix: &str) -> impl Iterator<Item = (String, io::Result<Vec<u8>>)> {
        let mut name = prefix.to_owned();
        std::iter::from_fn(move || {
            let inner = crate::lock(&self.inner);
            let (next, span) = inner.records.range::<str, _>((Excluded(name.as_str()), Unbounded)).next()?;
            let value = next.starts_with(prefix).then(|| inner.file.read_value(span.at, span.len, next))?;
            next.as_ref().clone_into(&mut name);
            Some((name.clone(), value))
        })
    }

    /// The sequence from which no event is missing, apart from superseded ones.
    pub(crate) fn oldest_event(&self) -> Option<u64> {
        crate::lock(&self.inner).events.oldest()
    }

    /// Sequence number of the newest event.
    pub(crate) fn newest_event(&self) -> Option<u64> {
        crate::lock(&self.inner).newest_event
    }

    /// The first event with this sequence or a later one: its sequence and its JSON text.
    pub(crate) fn event_from(&self, sequence: u64) -> Option<(u64, Vec<u8>)> {
        let inner = crate::lock(&self.inner);
        let entry = inner.file.read(inner.events.first_from(sequence)?.at);
        let entry = entry.inspect_err(|error| tracing::error!(%error, "cannot read an event from the journal")).ok()?;
        Some((entry.sequence(), entry.value))
    }

    /// Publishes `changes` as one batch.
    pub(crate) fn append(&self, changes: &[Change]) -> AppendOutcome {
        let mut inner = crate::lock(&self.inner);
        if inner.closed {
            return AppendOutcome::Closed;
        }
        if let Err(error) = inner.append(changes) {
            // Running processes are not affected, but the next server would not know about the change.
            tracing::error!(%error, "cannot write to the journal");
            return AppendOutcome::OutOfMemory;
        }
        if inner.file.published() > MIN_COMPACTION_BYTES && inner.live_bytes * 2 < inner.file.published() {
            match inner.compact() {
                Ok(()) => self.link.store_fd(JOURNAL_NAME, inner.file.fd()),
                Err(error) => tracing::warn!(%error, "cannot compact the journal"),
            }
        }
        AppendOutcome::Written
    }
}

impl Inner {
    /// Indexes the entries that an earlier server left.
    fn load(&mut self) -> io::Result<()> {
        let mut at = file::FIRST_ENTRY_OFFSET;
        while at < self.file.published() {
            let entry = self.file.read(at)?;
            let span = EntrySpan { at, len: entry.len };
            at += entry.len;
            match entry.kind {
                1 => self.index_put(&String::from_utf8_lossy(&entry.name), span),
                2 => self.index_delete(&String::from_utf8_lossy(&entry.name)),
                3 => self.index_event(entry.sequence(), &entry.value, span),
                // Skipped, or written by a later version.
                _ => {}
            }
        }
        Ok(())
    }

    fn append(&mut self, changes: &[Change]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(512);
        let mut spans = Vec::with_capacity(changes.len());
        let start = self.file.published();
        for change in changes {
            let before = bytes.len();
            match change {
                Change::Put { name, value } => file::encode(&mut bytes, Kind::Put as u8, name.as_bytes(), value),
                Change::Delete { name } => file::encode(&mut bytes, Kind::Delete as u8, name.as_bytes(), &[]),
                Change::Event { sequence, value } => {
                    file::encode(&mut bytes, Kind::Event as u8, &sequence.to_le_bytes(), value);
                }
            }
            let len = (bytes.len() - before) as u64;
            if len > file::MAX_ENTRY_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "journal entry is too large"));
            }
            spans.push(EntrySpan { at: start + before as u64, len });
        }
        self.file.append(&bytes)?;
        for (change, span) in changes.iter().zip(spans) {
            match change {
                Change::Put { name, .. } => self.index_put(name, span),
                Change::Delete { name } => self.index_delete(name),
                Change::Event { sequence, value } => self.index_event(*sequence, value, span),
            }
        }
        Ok(())
    }

    fn index_put(&mut self, name: &str, span: EntrySpan) {
        self.live_bytes += span.len;
        match self.records.get_mut(name) {
            Some(existing) => self.live_bytes -= std::mem::replace(existing, span).len,
            None => drop(self.records.insert(name.into(), span)),
        }
    }

    fn index_delete(&mut self, name: &str) {
        if let Some(old) = self.records.remove(name) {
            self.live_bytes -= old.len;
        }
    }

    fn index_event(&mut self, sequence: u64, json: &[u8], span: EntrySpan) {
        self.live_bytes += span.len;
        self.newest_event = Some(sequence);
        self.events.push(sequence, json, span);
        self.evict_events();
    }

    fn evict_events(&mut self) {
        while let Some(old) = self.events.evict() {
            self.live_bytes -= old.len;
        }
    }

    /// Copies the live entries into a new file.
    fn compact(&mut self) -> io::Result<()> {
        let mut new_file = JournalFile::create()?;
        let mut spans: Vec<_> = self.records.values_mut().chain(self.events.iter_mut()).collect();
        let mut bytes = Vec::with_capacity(COMPACTION_BUFFER_BYTES);
        for span in &spans {
            self.file.copy(span.at, span.len, &mut bytes)?;
            if bytes.len() >= COMPACTION_BUFFER_BYTES {
                new_file.append(&bytes)?;
                bytes.clear();
            }
        }
        new_file.append(&bytes)?;
        let mut at = file::FIRST_ENTRY_OFFSET;
        for span in &mut spans {
            span.at = at;
            at += span.len;
        }
        self.file = new_file;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, value: &[u8]) -> Change {
        Change::Put { name: name.to_owned(), value: value.to_vec() }
    }

    #[tokio::test]
    async fn records_and_events_are_read_from_a_compacted_and_reopened_journal() {
        let journal = Journal::open(HolderLink::disconnected(), None).unwrap();
        journal.append(&[put("a/1", b"one"), put("b/1", b"first"), put("a/2", b"two"), put("a/3", b"three")]);
        journal.append(&[Change::Delete { name: "a/2".into() }, Change::Event { sequence: 7, value: b"{}".to_vec() }]);
        let large = vec![b'x'; 1 << 20];
        for _ in 0..8 {
            journal.append(&[put("b/1", &large)]);
        }
        let inner = crate::lock(&journal.inner);
        assert!(inner.file.published() < MIN_COMPACTION_BYTES, "not compacted");
        let reopened = Journal::open(HolderLink::disconnected(), Some(inner.file.fd().try_clone_to_owned().unwrap()));
        drop(inner);
        for journal in [journal, reopened.unwrap()] {
            let records = journal.records_with_prefix("a/").map(|(name, value)| (name, value.unwrap()));
            let expected = [("a/1".to_owned(), b"one".to_vec()), ("a/3".to_owned(), b"three".to_vec())];
            assert!(records.eq(expected));
            assert_eq!((journal.read("a/2").unwrap(), journal.read("b/1").unwrap().as_ref()), (None, Some(&large)));
            assert_eq!((journal.oldest_event(), journal.newest_event()), (Some(7), Some(7)));
            assert_eq!((journal.event_from(1), journal.event_from(8)), (Some((7, b"{}".to_vec())), None));
        }
    }
}
