//! All processes by id, holder's key, tag, pid and idempotency key; and the slots that limit how many run.
//!
//! Lock order: the table's lock may be held while a process's own is taken, never the other way round.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::process::{Idempotency, IfTagExists, Process, Record};
use crate::services::Services;
use crate::{Error, Result, lock};

#[derive(Default)]
pub(crate) struct Table {
    maps: Mutex<Maps>,
    /// Managed processes that run or are being started.
    pub(crate) processes: Slots,
    /// One-shot runs.
    pub(crate) runs: Slots,
}

#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "each is named by what it is looked up by")]
struct Maps {
    /// Ids sort by birth.
    by_id: BTreeMap<String, Arc<Process>>,
    by_key: HashMap<u64, Arc<Process>>,
    by_tag: HashMap<String, Arc<Process>>,
    /// The latest that had it: the system gives pids out again.
    by_pid: HashMap<u32, Arc<Process>>,
    by_idempotency: HashMap<String, Arc<Process>>,
}

/// A count that never passes its limit.
#[derive(Default)]
pub(crate) struct Slots(AtomicU64);

impl Slots {
    pub(crate) fn take(&self, limit: u64) -> Result<()> {
        self.0
            .fetch_update(SeqCst, SeqCst, |taken| (taken < limit).then_some(taken + 1))
            .map(|_| ())
            .map_err(|_| Error::conflict("process_limit", format!("max concurrent process limit reached ({limit})")))
    }

    pub(crate) fn take_anyway(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub(crate) fn give_back(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// What became of a wish for a new process.
pub(crate) enum Reserved {
    New(Arc<Process>),
    /// One with that tag or idempotency key is there already.
    Existing(Arc<Process>),
}

impl Table {
    /// Makes a process if its tag and idempotency key are free, as one step.
    pub(crate) fn reserve(
        &self,
        services: &Arc<Services>,
        record: Record,
        if_tag_exists: IfTagExists,
    ) -> Result<Reserved> {
        let mut maps = lock(&self.maps);
        if let Some(idempotency) = &record.idempotency
            && let Some(process) = maps.by_idempotency.get(&idempotency.key)
        {
            if process.idempotency().is_some_and(|first| first.request_hash != idempotency.request_hash) {
                return Err(Error::conflict(
                    "idempotency_key_reused",
                    "this idempotency key was used for a different request; use a new key",
                ));
            }
            return Ok(Reserved::Existing(Arc::clone(process)));
        }
        if let Some(tag) = &record.spec.tag
            && let Some(process) = maps.by_tag.get(tag).filter(|process| !process.is_over())
        {
            return match if_tag_exists {
                IfTagExists::Return => Ok(Reserved::Existing(Arc::clone(process))),
                IfTagExists::Error => Err(tag_taken(tag, process.id())),
            };
        }
        let process = Process::create(Arc::clone(services), record);
        maps.insert(&process);
        Ok(Reserved::New(process))
    }

    pub(crate) fn adopt(&self, process: &Arc<Process>) {
        lock(&self.maps).insert(process);
    }

    pub(crate) fn remove(&self, process: &Process) {
        let mut maps = lock(&self.maps);
        maps.by_id.remove(process.id());
        maps.by_key.remove(&process.key());
        let is_it = |other: &mut Arc<Process>| other.id() == process.id();
        maps.by_tag.retain(|_, other| !is_it(other));
        if let Some((pid, _)) = process.last_start() {
            maps.give_up_pid(pid, process);
        }
        maps.by_idempotency.retain(|_, other| !is_it(other));
    }

    /// Gives `process` another tag, if no other one that has not ended has it.
    pub(crate) fn retag(&self, process: &Arc<Process>, tag: Option<&str>) -> Result<()> {
        let mut maps = lock(&self.maps);
        if !maps.by_id.contains_key(process.id()) {
            return Err(Error::not_found(process.id()));
        }
        if let Some(tag) = tag {
            if let Some(other) = maps.by_tag.get(tag)
                && other.id() != process.id()
                && !other.is_over()
            {
                return Err(tag_taken(tag, other.id()));
            }
            maps.by_tag.insert(tag.to_owned(), Arc::clone(process));
        }
        maps.by_tag.retain(|name, other| other.id() != process.id() || Some(name.as_str()) == tag);
        Ok(())
    }

    /// It has been started with this pid, so whoever had it before has it no more; nor has it the one it had.
    pub(crate) fn note_pid(&self, process: &Arc<Process>, pid: u32, before: Option<u32>) {
        let mut maps = lock(&self.maps);
        if let Some(before) = before {
            maps.give_up_pid(before, process);
        }
        // Somebody may have removed it this very moment.
        if maps.by_id.contains_key(process.id()) {
            maps.by_pid.insert(pid, Arc::clone(process));
        }
    }

    /// By id, `tag:NAME` or `pid:NUMBER`.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Process>> {
        let maps = lock(&self.maps);
        let found = match name.split_once(':') {
            Some(("tag", tag)) => maps.by_tag.get(tag),
            Some(("pid", pid)) => pid.parse().ok().and_then(|pid: u32| maps.by_pid.get(&pid)),
            _ => maps.by_id.get(name),
        };
        found.cloned().ok_or_else(|| Error::not_found(name))
    }

    pub(crate) fn by_key(&self, key: u64) -> Option<Arc<Process>> {
        lock(&self.maps).by_key.get(&key).cloned()
    }

    pub(crate) fn has_key(&self, key: u64) -> bool {
        lock(&self.maps).by_key.contains_key(&key)
    }

    /// Everything, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        lock(&self.maps).by_id.values().cloned().collect()
    }
}

impl Maps {
    fn give_up_pid(&mut self, pid: u32, process: &Process) {
        if self.by_pid.get(&pid).is_some_and(|known| known.id() == process.id()) {
            self.by_pid.remove(&pid);
        }
    }

    fn insert(&mut self, process: &Arc<Process>) {
        self.by_id.insert(process.id().to_owned(), Arc::clone(process));
        self.by_key.insert(process.key(), Arc::clone(process));
        if let Some(tag) = process.tag() {
            let newer = self.by_tag.get(&tag).is_none_or(|other| other.is_over() || other.id() < process.id());
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
    Error::conflict("tag_exists", format!("the tag {tag:?} belongs to {id}; choose another, or ifTagExists: return"))
}
