//! The store, and what it must contain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outlive_history::disk::{Fault, SimulatedDisk};
use outlive_history::store::{RecordFilter, StoreOptions};
use outlive_history::{Boot, Limits, Piece, Record, RecordKind, Store};

use crate::operations::{Crash, DiskFault, Op, Step};
use crate::output::Output;
use crate::verify::{Range, covered, intersect, is_prefix, verify_output};

const SLOTS: usize = 4;
const SEGMENT_BYTES: u64 = 6000;
const KIND: RecordKind = RecordKind::Process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Nothing is removed but by a delete.
    Unlimited,
    /// Limits that random histories reach.
    Limited,
}

impl Setup {
    fn limits(self) -> Limits {
        let no_limit = u64::MAX / 2;
        match self {
            Self::Unlimited => {
                Limits { max_bytes: no_limit, max_process_bytes: no_limit, max_age_ms: no_limit, min_free_bytes: 0 }
            }
            Self::Limited => {
                Limits { max_bytes: 4 * 1024 * 1024, max_process_bytes: 60_000, max_age_ms: 400, min_free_bytes: 0 }
            }
        }
    }
}

/// A process, and what of it must be stored.
pub struct Process {
    pub output: Output,
    record: Option<Record>,
    /// A record whose write failed: it may be there instead.
    attempted_record: Option<Record>,
    /// Acknowledged by `append`, by offset.
    pub stored: Vec<Range>,
    /// May be there: appends that failed, and what limits removed from raw segments.
    pub possible: Vec<Range>,
    /// Everything before was synced.
    synced_end: u64,
    /// Where the next append begins.
    position: u64,
}

/// A process that must not be readable any more.
struct Removed {
    id: String,
    /// Content that must not be on disk after a purge. Empty: retention removed it.
    needles: Vec<Vec<u8>>,
}

pub struct World {
    setup: Setup,
    disk: SimulatedDisk,
    store: Option<Store>,
    processes: Vec<Process>,
    removed: Vec<Removed>,
    /// A delete that failed: it may have happened, and is repeated.
    pending_delete: Option<usize>,
    /// Whether a crash came while limits were enforced.
    is_retention_interrupted: bool,
    serial: u64,
    boot: u64,
    clock_ms: u64,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let mut world = Self {
            setup,
            disk: SimulatedDisk::new(),
            store: None,
            processes: Vec::new(),
            removed: Vec::new(),
            pending_delete: None,
            is_retention_interrupted: false,
            serial: 0,
            boot: 0,
            clock_ms: 1000,
        };
        for _ in 0..SLOTS {
            let process = world.new_process();
            world.processes.push(process);
        }
        world.open_until_it_succeeds();
        world
    }

    fn new_process(&mut self) -> Process {
        self.serial += 1;
        Process {
            output: Output::new(format!("proc_{:016x}", self.serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)), self.serial),
            record: None,
            attempted_record: None,
            stored: Vec::new(),
            possible: Vec::new(),
            synced_end: 0,
            position: 0,
        }
    }

    pub fn disk_operations(&self) -> u64 {
        self.disk.operations()
    }

    pub fn arm(&self, fault: DiskFault) {
        match fault {
            DiskFault::Full(after) => self.disk.fail_after(after, Fault::Full),
            DiskFault::Io(after) => self.disk.fail_after(after, Fault::Io),
            DiskFault::ShortWrite(after) => self.disk.fail_after(after, Fault::ShortWrite),
            DiskFault::Stop(after) => self.disk.fail_after(after, Fault::Stop),
            DiskFault::Read(after) => self.disk.fail_read_after(after),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open")
    }

    fn try_open(&self, is_retry: bool) -> std::io::Result<Store> {
        let boot =
            Boot { id: format!("boot_{}", self.boot), started_at_ms: self.clock_ms, last_write_at_ms: self.clock_ms };
        let options = StoreOptions { segment_bytes: SEGMENT_BYTES, is_retry, ..StoreOptions::default() };
        Store::open_with(Arc::new(self.disk.clone()), self.setup.limits(), boot, options)
    }

    /// A fault may hit the opening too. Then the next attempt succeeds.
    fn open_until_it_succeeds(&mut self) {
        for attempt in 0..3 {
            match self.try_open(attempt > 0) {
                Ok(store) => {
                    self.store = Some(store);
                    return;
                }
                Err(error) if self.disk.is_stopped() => {
                    assert!(error.to_string().contains("stopped"), "{error}");
                    self.disk = self.disk.after_kill();
                }
                Err(_) => {}
            }
        }
        self.store = Some(self.try_open(true).expect("the store opens without a fault"));
    }

    pub fn run(&mut self, step: &Step) {
        if let Some(fault) = step.fault {
            self.arm(fault);
        }
        match &step.op {
            Op::Append { slot, skip, lens } => self.append(*slot, *skip, lens),
            Op::Put { slot, ended } => self.put(*slot, *ended),
            Op::Sync => self.sync(),
            Op::Seal => drop(self.store().seal_next()),
            Op::Enforce { advance_ms } => self.enforce(*advance_ms),
            Op::Delete { slot } => self.delete(*slot),
            Op::Purge => self.purge(),
            Op::Reopen { same_boot } => self.reopen(*same_boot),
            Op::Crash => self.crash(step.crash),
        }
        if self.disk.is_stopped() {
            self.crash(step.crash);
        } else if step.fault.is_some() {
            self.disk.clear_faults();
        }
        if let Some(slot) = self.pending_delete.take() {
            self.store().delete(KIND, &self.processes[slot].output.process).expect("deleting succeeds without a fault");
            self.remove(slot, true);
        }
        self.verify();
    }

    /// Everything is still there after a clean end, and deleted content leaves the disk.
    pub fn finish(mut self) {
        self.disk.clear_faults();
        self.reopen(false);
        self.verify();
        self.purge();
        while self.store().seal_next().expect("sealing succeeds without a fault") {}
        self.verify();
    }

    fn append(&mut self, slot: usize, skip: u16, lens: &[u16]) {
        let process = &mut self.processes[slot];
        if skip > 0 {
            process.output.add_chunk(u64::from(skip) + 10, self.clock_ms);
            // The gap ends within the chunk.
            process.position = process.output.head - 10;
        }
        for len in lens {
            self.clock_ms += 1;
            process.output.add_chunk((*len).into(), self.clock_ms);
        }
        let (start, end) = (process.position, process.output.head);
        let bytes = process.output.bytes(start, end);
        let marks = process.output.marks_in(start, end);
        let id = process.output.process.clone();
        let piece = Piece { process: &id, offset: start, marks: &marks, bytes: &bytes };
        let store = self.store.as_ref().expect("the store is open");
        if store.append(&piece).is_ok() {
            process.stored.push((start, end));
            process.position = end;
        } else {
            process.possible.push((start, end));
            if let Ok(span) = store.span(&id) {
                process.position = process.position.max(span.end.load(Ordering::Relaxed));
            }
        }
    }

    fn put(&mut self, slot: usize, ended: bool) {
        self.clock_ms += 1;
        let process = &mut self.processes[slot];
        let id = process.output.process.clone();
        let record = Record {
            kind: KIND,
            boot: format!("boot_{}", self.boot),
            created_at_ms: 7,
            ended_at_ms: ended.then_some(self.clock_ms),
            parent: None,
            body: format!("{{\"marker\":\"record of {id} at {}\"}}", self.clock_ms).into_bytes(),
            id,
        };
        if self.store.as_ref().expect("the store is open").put(std::slice::from_ref(&record)).is_ok() {
            process.record = Some(record);
            process.attempted_record = None;
        } else {
            process.attempted_record = Some(record);
        }
    }

    fn sync(&mut self) {
        if self.store().sync().is_ok() {
            self.mark_synced();
        }
    }

    fn mark_synced(&mut self) {
        for process in &mut self.processes {
            process.synced_end = process.stored.last().map_or(0, |range| range.1);
        }
    }

    fn enforce(&mut self, advance_ms: u64) {
        self.clock_ms += advance_ms;
        let result = self.store().enforce_limits(self.clock_ms);
        if self.setup == Setup::Unlimited || self.disk.is_stopped() {
            // After a crash, limits may have been enforced in part.
            if self.disk.is_stopped() {
                self.allow_removal();
            }
            return;
        }
        self.disk.clear_faults();
        if result.is_ok() {
            assert!(self.store().usage().bytes <= self.setup.limits().max_bytes, "the total is exceeded");
        }
        self.follow_retention();
    }

    fn allow_removal(&mut self) {
        if self.setup == Setup::Limited {
            self.is_retention_interrupted = true;
            for process in &mut self.processes {
                let stored = std::mem::take(&mut process.stored);
                process.possible.extend(stored);
                process.synced_end = 0;
            }
        }
    }

    /// Limits remove output from its beginning, and processes that have ended.
    fn follow_retention(&mut self) {
        for slot in 0..SLOTS {
            let id = self.processes[slot].output.process.clone();
            let record = self.store().record(KIND, &id).expect("records are readable");
            let process = &self.processes[slot];
            let may_have_record = process.record.is_some() || process.attempted_record.is_some();
            if record.is_none() && may_have_record && !covered(self.store(), &process.output).is_empty() {
                assert!(process.record.is_none(), "a record was removed without its output");
            }
            if record.is_none() && process.record.is_some() {
                self.remove(slot, false);
                continue;
            }
            let covered = covered(self.store(), &self.processes[slot].output);
            let process = &mut self.processes[slot];
            let first = covered.first().map_or(u64::MAX, |range| range.0);
            let stored = std::mem::take(&mut process.stored);
            for (start, end) in stored {
                if end > first {
                    process.stored.push((start.max(first), end));
                }
                if start < first {
                    process.possible.push((start, end.min(first)));
                }
            }
        }
    }

    fn delete(&mut self, slot: usize) {
        let process = &self.processes[slot];
        let result = self.store().delete(KIND, &process.output.process);
        match result {
            Ok(deleted) => {
                let exists = process.record.is_some() || !process.stored.is_empty();
                assert!(deleted || !exists, "{} exists and was not found", process.output.process);
                if deleted {
                    self.remove(slot, true);
                }
            }
            Err(_) => self.pending_delete = Some(slot),
        }
    }

    /// Replaces a process that was removed.
    fn remove(&mut self, slot: usize, by_request: bool) {
        let new = self.new_process();
        let old = std::mem::replace(&mut self.processes[slot], new);
        let id = old.output.process.clone();
        let mut needles = Vec::new();
        if by_request {
            needles.push(id.clone().into_bytes());
            needles.push(format!("record of {id}").into_bytes());
            let long = old.stored.iter().chain(&old.possible).filter(|(start, end)| end - start >= 16);
            needles.extend(long.take(4).map(|(start, _)| old.output.bytes(*start, start + 16)));
        }
        self.removed.push(Removed { id, needles });
    }

    fn purge(&mut self) {
        if self.store().purge().is_err() {
            return;
        }
        for removed in &self.removed {
            for needle in &removed.needles {
                let file = self.disk.file_with(needle);
                assert_eq!(file, None, "{} is still on disk: {:?}", removed.id, String::from_utf8_lossy(needle));
            }
        }
    }

    fn reopen(&mut self, same_boot: bool) {
        if let Some(store) = self.store.take()
            && store.close().is_ok()
        {
            self.mark_synced();
        }
        if self.disk.is_stopped() {
            return;
        }
        self.boot += u64::from(!same_boot);
        self.open_until_it_succeeds();
        if self.setup == Setup::Limited {
            self.disk.clear_faults();
            self.follow_revival();
        }
    }

    fn crash(&mut self, crash: Crash) {
        self.store = None;
        self.disk = match crash {
            Crash::Kill => self.disk.after_kill(),
            Crash::PowerLoss(seed) => self.disk.after_power_loss(seed),
        };
        self.boot += 1;
        self.open_until_it_succeeds();
        for (slot, process) in self.processes.iter_mut().enumerate() {
            if self.pending_delete == Some(slot) {
                continue;
            }
            let covered = covered(self.store.as_ref().expect("the store is open"), &process.output);
            let stored = std::mem::take(&mut process.stored);
            process.stored = intersect(&stored, &covered);
            let lost = stored.iter().map(|range| range.1 - range.0).sum::<u64>()
                - process.stored.iter().map(|range| range.1 - range.0).sum::<u64>();
            assert!(is_prefix(&process.stored, &stored), "{stored:?} became {:?}", process.stored);
            let synced = intersect(&stored, &[(0, process.synced_end)]);
            match crash {
                Crash::Kill => assert_eq!(lost, 0, "a kill loses nothing: {stored:?} became {:?}", process.stored),
                Crash::PowerLoss(_) => {
                    let kept = intersect(&synced, &covered);
                    assert_eq!(kept, synced, "synced output of {} is lost", process.output.process);
                }
            }
            let span = self.store.as_ref().expect("the store is open").span(&process.output.process).unwrap();
            // Lost output is not stored again: the ring is gone too.
            process.position = process.output.head.max(span.end.load(Ordering::Relaxed));
            process.synced_end = process.stored.last().map_or(0, |range| range.1);
        }
        if self.setup == Setup::Limited {
            self.follow_revival();
            if std::mem::take(&mut self.is_retention_interrupted) {
                self.follow_retention();
            }
        }
    }

    /// What limits removed from raw segments may come back until they are enforced again.
    fn follow_revival(&mut self) {
        for process in &mut self.processes {
            let covered = covered(self.store.as_ref().expect("the store is open"), &process.output);
            process.possible.extend(covered);
        }
    }

    fn verify(&mut self) {
        let store = self.store.as_ref().expect("the store is open");
        for process in &mut self.processes {
            let id = &process.output.process;
            let record = store.record(KIND, id).expect("records are readable");
            let is_attempted = process.attempted_record.is_some() && record == process.attempted_record;
            assert!(record == process.record || is_attempted, "{id} has the record {record:?}");
            if is_attempted {
                process.record = process.attempted_record.take();
            }
            verify_output(store, process);
        }
        for removed in &self.removed {
            assert_eq!(store.record(KIND, &removed.id).unwrap(), None);
            assert!(store.block_at(&removed.id, 0).unwrap().is_none(), "{} is readable", removed.id);
            let span = store.span(&removed.id).unwrap();
            assert_eq!(span.start.load(Ordering::Relaxed), span.end.load(Ordering::Relaxed));
        }
        let listed = store.records(&RecordFilter::default()).unwrap();
        let ids: BTreeSet<&str> = listed.iter().map(|record| record.id.as_str()).collect();
        assert_eq!(ids.len(), listed.len(), "a record is listed twice");
        assert_eq!(listed.len(), self.processes.iter().filter(|process| process.record.is_some()).count());
    }
}
