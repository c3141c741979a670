//! What the threads of the history have to do, as state that they wait for.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive_history::{Record, RecordKind};

use super::tap::Tap;
use crate::lock;
use crate::log::Log;

/// The start or exit of a process is written at most this long after it.
const URGENT_DELAY: Duration = Duration::from_millis(100);
/// Other changes of a record are written at most this long after them.
const RECORD_DELAY: Duration = Duration::from_secs(1);
/// Output is synced at most this long after it was appended. It is appended at most a second after it was printed.
const SYNC_DELAY: Duration = Duration::from_millis(900);
/// Output is synced at once when this much is not.
const SYNC_AT_BYTES: u64 = 4 << 20;
/// Commands that wait while the writer hangs. More outputs are then not opened.
const MAX_WAITING_COMMANDS: usize = 4096;
/// Records that wait while the disk fails. More are dropped.
const MAX_WAITING_RECORDS: usize = 20_000;

/// State that a thread waits for.
#[derive(Default)]
pub(super) struct Monitor<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut lock(&self.state));
        self.changed.notify_one();
        result
    }

    pub(super) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&lock(&self.state))
    }

    /// Waits until `take` returns a value. `take` returns when to call it again at the latest, if not by an update.
    pub(super) fn wait<R>(&self, mut take: impl FnMut(&mut T) -> Result<R, Option<Instant>>) -> R {
        let mut state = lock(&self.state);
        loop {
            let deadline = match take(&mut state) {
                Ok(result) => return result,
                Err(deadline) => deadline,
            };
            state = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

/// How the history ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Another server continues: it finds the output in the rings, and reclaims the leases.
    HandOver,
    /// outlive stops: everything is stored first.
    Shutdown,
}

/// A request to the thread that stores output.
pub(super) enum Command {
    /// Store the output of a process from now on.
    Open { id: String, tap: Arc<Tap>, log: Arc<Log> },
    /// The head has reached the offset that the writer waits for.
    Wake(u64),
    /// The process has exited: store the rest now. A background child may still write.
    Drain(u64),
    /// The process was removed: store the rest now. Nothing is added any more.
    Finish(u64),
    /// The output was deleted.
    Discard(u64),
}

#[derive(Default)]
pub(super) struct WriterInbox {
    pub(super) commands: Vec<Command>,
    /// The limits were enforced: outputs that waited for room can be stored.
    pub(super) has_new_room: bool,
    pub(super) closing: Option<Closing>,
}

impl WriterInbox {
    /// Adds a command. False: the writer hangs, and no more outputs are opened, because each keeps a ring in memory.
    pub(super) fn push(&mut self, command: Command) -> bool {
        let is_accepted = self.commands.len() < MAX_WAITING_COMMANDS || !matches!(command, Command::Open { .. });
        if is_accepted {
            self.commands.push(command);
        }
        is_accepted
    }
}

/// Records and bytes that are not on disk yet.
#[derive(Default)]
pub(super) struct CommitInbox {
    records: HashMap<(RecordKind, String), Record>,
    put_at: Option<Instant>,
    sync_at: Option<Instant>,
    /// The last commit of records: the next one is `URGENT_DELAY` later at the earliest.
    last_put: Option<Instant>,
    /// Nothing is written before: the disk has failed.
    retry_at: Option<Instant>,
    /// A commit has been taken and has not ended yet.
    is_writing: bool,
    pub(super) is_closing: bool,
}

/// What to do next, in this order.
#[derive(Default)]
pub(super) struct Commit {
    pub(super) records: Vec<Record>,
    pub(super) sync: bool,
    /// It is the last one.
    pub(super) is_last: bool,
}

impl CommitInbox {
    /// Writes a record soon, in place of an earlier one that has not been written. `urgent`: at once if nothing was
    /// written just before. False: too many records wait.
    pub(super) fn put(&mut self, record: Record, urgent: bool, now: Instant) -> bool {
        let key = (record.kind, record.id.clone());
        if self.records.len() >= MAX_WAITING_RECORDS && !self.records.contains_key(&key) {
            return false;
        }
        self.records.insert(key, record);
        let at = match (urgent, self.last_put) {
            (true, Some(last)) => now.max(last + URGENT_DELAY),
            (true, None) => now,
            (false, _) => now + RECORD_DELAY,
        };
        self.put_at = Some(self.put_at.map_or(at, |earlier| earlier.min(at)));
        true
    }

    /// Forgets a record that was deleted, and those of its children.
    pub(super) fn forget(&mut self, kind: RecordKind, id: &str) {
        self.records.remove(&(kind, id.to_owned()));
        self.records.retain(|_, record| record.parent.as_deref() != Some(id));
    }

    /// Bytes were appended; `unsynced` of all are not synced.
    pub(super) fn appended(&mut self, unsynced: u64, now: Instant) {
        let at = if unsynced >= SYNC_AT_BYTES { now } else { now + SYNC_DELAY };
        self.sync_at = Some(self.sync_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Writes the waiting records at once. False: all records are written.
    pub(super) fn hurry(&mut self, now: Instant) -> bool {
        if !self.records.is_empty() {
            self.put_at = Some(now);
        }
        self.is_writing || !self.records.is_empty()
    }

    /// The commit that was taken has ended.
    pub(super) fn end_commit(&mut self) {
        self.is_writing = false;
    }

    /// Whether a commit is due; if not, when to ask again.
    pub(super) fn wait_due(&self, now: Instant) -> Result<(), Option<Instant>> {
        if self.is_closing {
            return Ok(());
        }
        if let Some(retry_at) = self.retry_at.filter(|at| *at > now) {
            return Err(Some(retry_at));
        }
        let next = self.put_at.into_iter().chain(self.sync_at).min();
        if next.is_some_and(|at| at <= now) { Ok(()) } else { Err(next) }
    }

    /// The next commit, or when to ask again.
    pub(super) fn take(&mut self, now: Instant) -> Result<Commit, Option<Instant>> {
        self.wait_due(now)?;
        self.is_writing = true;
        if self.is_closing {
            let records = self.records.drain().map(|(_, record)| record).collect();
            return Ok(Commit { records, sync: true, is_last: true });
        }
        self.retry_at = None;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut commit = Commit::default();
        if is_due(self.put_at) {
            commit.records = self.records.drain().map(|(_, record)| record).collect();
            self.put_at = None;
            self.last_put = Some(now);
        }
        commit.sync = is_due(self.sync_at);
        if commit.sync {
            self.sync_at = None;
        }
        Ok(commit)
    }

    /// Records could not be written. Newer versions of them stay.
    pub(super) fn put_back(&mut self, records: Vec<Record>) {
        for record in records {
            self.records.entry((record.kind, record.id.clone())).or_insert(record);
        }
    }

    /// A commit has failed: it is repeated at `retry_at`, with the newest version of each record.
    pub(super) fn retry(&mut self, commit: Commit, retry_at: Instant) {
        self.put_back(commit.records);
        if !self.records.is_empty() {
            self.put_at.get_or_insert(retry_at);
        }
        if commit.sync {
            self.sync_at.get_or_insert(retry_at);
        }
        self.retry_at = Some(retry_at);
    }
}

/// Requests to the thread that maintains the store.
#[derive(Default)]
pub(super) struct MaintenanceInbox {
    /// A segment was closed, or output was deleted; the pass is due then.
    pub(super) pass_at: Option<Instant>,
    /// An output waits until the limits of bytes are enforced.
    pub(super) needs_room: bool,
    /// Passes that callers have requested.
    pub(super) requested: u64,
    pub(super) is_closing: bool,
}

impl MaintenanceInbox {
    pub(super) fn pass_within(&mut self, delay: Duration, now: Instant) {
        let at = now + delay;
        self.pass_at = Some(self.pass_at.map_or(at, |earlier| earlier.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, body: &str) -> Record {
        Record {
            kind: RecordKind::Process,
            id: id.into(),
            boot: "b".into(),
            created_at_ms: 1,
            ended_at_ms: None,
            parent: None,
            body: body.into(),
        }
    }

    fn bodies(commit: &Commit) -> Vec<&str> {
        let mut bodies: Vec<_> =
            commit.records.iter().map(|record| std::str::from_utf8(&record.body).unwrap()).collect();
        bodies.sort_unstable();
        bodies
    }

    #[test]
    fn urgent_records_are_written_at_once_and_then_in_batches() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        assert!(inbox.put(record("a", "1"), true, start));
        assert_eq!(bodies(&inbox.take(start).ok().unwrap()), ["1"]);
        for (id, body) in [("a", "2"), ("b", "3"), ("a", "4")] {
            assert!(inbox.put(record(id, body), true, start + Duration::from_millis(1)));
        }
        assert_eq!(inbox.take(start + Duration::from_millis(2)).err(), Some(Some(start + URGENT_DELAY)));
        assert_eq!(bodies(&inbox.take(start + URGENT_DELAY).ok().unwrap()), ["3", "4"]);
        assert_eq!(inbox.take(start + URGENT_DELAY).err(), Some(None));
    }

    #[test]
    fn other_records_wait_for_a_batch() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        assert!(inbox.put(record("a", "1"), false, start));
        assert_eq!(inbox.take(start).err(), Some(Some(start + RECORD_DELAY)));
        assert!(inbox.put(record("b", "2"), true, start));
        assert_eq!(bodies(&inbox.take(start).ok().unwrap()), ["1", "2"]);
    }

    #[test]
    fn a_sync_comes_after_a_delay_or_when_much_is_unsynced() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        inbox.appended(1, start);
        assert_eq!(inbox.take(start).err(), Some(Some(start + SYNC_DELAY)));
        inbox.appended(SYNC_AT_BYTES, start);
        assert!(inbox.take(start).ok().unwrap().sync);
        assert_eq!(inbox.take(start).err(), Some(None));
    }

    #[test]
    fn a_failed_commit_is_repeated_with_the_newest_records() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        inbox.put(record("a", "1"), true, start);
        inbox.put(record("b", "2"), true, start);
        let commit = inbox.take(start).ok().unwrap();
        inbox.put(record("a", "3"), true, start);
        let retry_at = start + Duration::from_secs(5);
        inbox.retry(commit, retry_at);
        assert_eq!(inbox.take(start + URGENT_DELAY).err(), Some(Some(retry_at)));
        assert_eq!(bodies(&inbox.take(retry_at).ok().unwrap()), ["2", "3"]);
    }

    #[test]
    fn a_caller_can_wait_until_all_records_are_written() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        assert!(!inbox.hurry(start));
        inbox.put(record("a", "1"), false, start);
        assert!(inbox.hurry(start));
        assert_eq!(bodies(&inbox.take(start).ok().unwrap()), ["1"]);
        assert!(inbox.hurry(start), "it is being written");
        inbox.end_commit();
        assert!(!inbox.hurry(start));
    }

    #[test]
    fn a_deleted_record_is_not_written() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        inbox.put(record("a", "1"), true, start);
        inbox.put(Record { parent: Some("a".into()), ..record("child", "2") }, true, start);
        inbox.put(record("b", "3"), true, start);
        inbox.forget(RecordKind::Process, "a");
        assert_eq!(bodies(&inbox.take(start).ok().unwrap()), ["3"]);
    }

    #[test]
    fn records_that_wait_for_a_failing_disk_are_bounded() {
        let (mut inbox, start) = (CommitInbox::default(), Instant::now());
        for number in 0..MAX_WAITING_RECORDS {
            assert!(inbox.put(record(&number.to_string(), "x"), false, start));
        }
        assert!(!inbox.put(record("one more", "x"), false, start));
        assert!(inbox.put(record("7", "newer"), false, start));
    }
}
