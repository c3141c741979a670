//! The table of all processes by id, holder key, tag, pid and idempotency key; and the slots that limit how many run.
//!
//! Lock order: the table's lock may be held while a process's own lock is taken, never the other way round.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::process::{Idempotency, IfTagExists, Process, Record};
use crate::services::Services;
use crate::{Error, Result, lock};

#[derive(Default)]
pub(crate) struct ProcessTable {
    maps: Mutex<Maps>,
    /// Managed processes that are running or starting.
    pub(crate) processes: Slots,
    /// One-shot runs.
    pub(crate) runs: Slots,
}

#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "each map is named by its key")]
struct Maps {
    /// Sorted by creation time, as ids are.
    by_id: BTreeSet<ById>,
    by_key: HashMap<u64, Arc<Process>>,
    by_tag: HashMap<String, Arc<Process>>,
    /// The latest process with that pid; the kernel reuses pids.
    by_pid: HashMap<u32, Arc<Process>>,
    by_idempotency: HashMap<String, Arc<Process>>,
}

/// A process that is ordered by its id, which it keeps itself: with thousands of processes, copies of the ids would count.
struct ById(Arc<Process>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        self.0.id()
    }
}

impl Ord for ById {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id().cmp(other.0.id())
    }
}

impl PartialOrd for ById {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for ById {}

/// A counting limit, checked when a slot is acquired.
#[derive(Default)]
pub(crate) struct Slots(AtomicU64);

impl Slots {
    /// False: `limit` slots are in use.
    pub(crate) fn try_acquire(&self, limit: u64) -> bool {
        self.0.fetch_update(SeqCst, SeqCst, |used| (used < limit).then_some(used + 1)).is_ok()
    }

    /// For a process that runs already, whatever the limit is.
    pub(crate) fn acquire_unlimited(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub(crate) fn release(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

pub(crate) enum Reservation {
    New(Arc<Process>),
    /// A process with that tag or idempotency key exists.
    Existing(Arc<Process>),
}

impl ProcessTable {
    /// Creates a process if its tag and idempotency key are free, as one atomic step.
    pub(crate) fn reserve(
        &self,
        services: &Arc<Services>,
        record: Record,
        if_tag_exists: IfTagExists,
    ) -> Result<Reservation> {
        let mut maps = lock(&self.maps);
        if let Some(idempotency) = &record.idempotency
            && let Some(process) = maps.by_idempotency.get(&idempotency.key)
        {
            if process.idempotency().is_some_and(|first| first.request_hash != idempotency.request_hash) {
                return Err(Error::idempotency_key_reused());
            }
            return Ok(Reservation::Existing(Arc::clone(process)));
        }
        if let Some(tag) = &record.spec.tag
            && let Some(process) = maps.by_tag.get(tag).filter(|process| !process.has_exited())
        {
            return match if_tag_exists {
                IfTagExists::Return => Ok(Reservation::Existing(Arc::clone(process))),
                IfTagExists::Error => Err(tag_taken(tag, process.id())),
            };
        }
        let process = Process::create(Arc::clone(services), record);
        maps.insert(&process);
        Ok(Reservation::New(process))
    }

    pub(crate) fn adopt(&self, process: &Arc<Process>) {
        lock(&self.maps).insert(process);
    }

    pub(crate) fn remove(&self, process: &Process) {
        let mut maps = lock(&self.maps);
        maps.by_id.remove(process.id());
        maps.by_key.remove(&process.key());
        let is_same = |other: &Arc<Process>| other.id() == process.id();
        maps.by_tag.retain(|_, other| !is_same(other));
        if let Some((pid, _)) = process.last_start() {
            maps.release_pid(pid, process);
        }
        maps.by_idempotency.retain(|_, other| !is_same(other));
    }

    /// Changes the tag of `process`; fails if another process that has not exited has it.
    pub(crate) fn retag(&self, process: &Arc<Process>, tag: Option<&str>) -> Result<()> {
        let mut maps = lock(&self.maps);
        if !maps.by_id.contains(process.id()) {
            return Err(Error::not_found(process.id()));
        }
        if let Some(tag) = tag {
            if let Some(other) = maps.by_tag.get(tag)
                && other.id() != process.id()
                && !other.has_exited()
            {
                return Err(tag_taken(tag, other.id()));
            }
            maps.by_tag.insert(tag.to_owned(), Arc::clone(process));
        }
        maps.by_tag.retain(|name, other| other.id() != process.id() || Some(name.as_str()) == tag);
        Ok(())
    }

    /// Maps `pid` to `process`, replacing an older process with that pid, and drops the process's `previous` pid.
    pub(crate) fn set_pid(&self, process: &Arc<Process>, pid: u32, previous: Option<u32>) {
        let mut maps = lock(&self.maps);
        if let Some(previous) = previous {
            maps.release_pid(previous, process);
        }
        // The process may have been removed concurrently.
        if maps.by_id.contains(process.id()) {
            maps.by_pid.insert(pid, Arc::clone(process));
        }
    }

    /// Finds a process by id, `tag:NAME` or `pid:NUMBER`.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Process>> {
        let maps = lock(&self.maps);
        let found = match name.split_once(':') {
            Some(("tag", tag)) => maps.by_tag.get(tag),
            Some(("pid", pid)) => pid.parse().ok().and_then(|pid: u32| maps.by_pid.get(&pid)),
            _ => maps.by_id.get(name).map(|ById(process)| process),
        };
        found.cloned().ok_or_else(|| Error::not_found(name))
    }

    pub(crate) fn by_key(&self, key: u64) -> Option<Arc<Process>> {
        lock(&self.maps).by_key.get(&key).cloned()
    }

    pub(crate) fn has_key(&self, key: u64) -> bool {
        lock(&self.maps).by_key.contains_key(&key)
    }

    /// All processes, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        lock(&self.maps).by_id.iter().map(|ById(process)| Arc::clone(process)).collect()
    }
}

impl Maps {
    fn release_pid(&mut self, pid: u32, process: &Process) {
        if self.by_pid.get(&pid).is_some_and(|other| other.id() == process.id()) {
            self.by_pid.remove(&pid);
        }
    }

    fn insert(&mut self, process: &Arc<Process>) {
        self.by_id.insert(ById(Arc::clone(process)));
        self.by_key.insert(process.key(), Arc::clone(process));
        if let Some(tag) = process.tag() {
            let newer = self.by_tag.get(&tag).is_none_or(|other| other.has_exited() || other.id() < process.id());
            if newer {
                self.by_tag.insert(tag, Arc::clone(process));
            }
        }
        if let Some((pid, started_at_ms)) = process.last_start() {
            let newer = |other: &Arc<Process>| other.last_start().is_none_or(|(_, at_ms)| at_ms <= started_at_ms);
            if self.by_pid.get(&pid).is_none_or(newer) {
                self.by_pid.insert(pid, Arc::clone(process));
            }
        }
        if let Some(Idempotency { key, .. }) = process.idempotency() {
            self.by_idempotency.insert(key, Arc::clone(process));
        }
    }
}

fn tag_taken(tag: &str, id: &str) -> Error {
    Error::conflict(
        "tag_exists",
        format!("tag {tag:?} is used by {id}; choose another tag, or send ifTagExists: return"),
    )
}
