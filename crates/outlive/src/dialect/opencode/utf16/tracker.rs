//! Trackers: tasks that read the output of terminals and store the positions of their unit counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use outlive_core::events::FollowerItem;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use outlive_core::process::Process;
use outlive_core::{Core, Error, lock};

use super::index::{Position, PositionIndex};
use super::seek::{self, SeekTarget};

/// Store key, before the id of a process. The value is a list of pairs: offset and units.
const STORE_PREFIX: &str = "opencode/units/";
const READ_BYTES: usize = 64 * 1024;
/// Approximate number of positions in the window of a log.
const POSITIONS_PER_LOG: u64 = 32;
/// Decoding fewer bytes than this is cheaper than storing another position.
const MIN_SPACING_BYTES: u64 = 16 * 1024;

/// The running trackers, by process id.
#[derive(Clone, Default)]
pub(crate) struct Trackers(Arc<Mutex<HashMap<String, Arc<Tracker>>>>);

struct Tracker(Mutex<PositionIndex>);

impl Tracker {
    fn with<T>(&self, work: impl FnOnce(&mut PositionIndex) -> T) -> T {
        work(&mut lock(&self.0))
    }
}

impl Trackers {
    /// Starts a tracker, unless one runs. The count is exact only if this is called before the log is trimmed.
    pub(crate) fn start(&self, core: &Core, process: &Arc<Process>) -> Result<(), Error> {
        self.get_or_start(core, process).map(drop)
    }

    /// The position of a target in a terminal's output.
    pub(crate) fn seek(
        &self,
        core: &Core,
        process: &Arc<Process>,
        log: &Arc<Log>,
        target: SeekTarget,
    ) -> Result<Position, Error> {
        let index = self.get_or_start(core, process)?.with(|index| index.clone());
        Ok(seek::seek(log, &index, target))
    }

    fn get_or_start(&self, core: &Core, process: &Arc<Process>) -> Result<Arc<Tracker>, Error> {
        let log = process.log()?;
        let mut all = lock(&self.0);
        if let Some(tracker) = all.get(process.id()) {
            return Ok(Arc::clone(tracker));
        }
        let index = load(core, process.id()).unwrap_or_else(|| uncounted(&log));
        let cursor = Cursor::new(log, Start::At(index.last().offset), Flow::Lossless, StreamFilter::All);
        let tracker = Arc::new(Tracker(Mutex::new(index)));
        all.insert(process.id().to_owned(), Arc::clone(&tracker));
        let task = TrackerTask { core: core.clone(), id: process.id().to_owned(), tracker: Arc::clone(&tracker) };
        let (all, process) = (self.clone(), Arc::clone(process));
        tokio::spawn(async move {
            tokio::select! {
                () = task.read_to_end(cursor) => {}
                () = process.wait_removed() => {}
            }
            lock(&all.0).remove(process.id());
            if process.is_removed() {
                remove_stored(&task.core, process.id());
            }
        });
        Ok(tracker)
    }
}

fn load(core: &Core, id: &str) -> Option<PositionIndex> {
    let value = core.load(&format!("{STORE_PREFIX}{id}"))?;
    let pairs: Vec<(u64, u64)> = serde_json::from_slice(&value).ok()?;
    let positions: Vec<Position> = pairs.into_iter().map(|(offset, units)| Position { offset, units }).collect();
    (!positions.is_empty()).then(|| PositionIndex::new(positions))
}

/// The index of a terminal without a tracker so far. Trimmed bytes count one unit each.
fn uncounted(log: &Arc<Log>) -> PositionIndex {
    let tail = log.tail();
    PositionIndex::new(vec![Position { offset: tail, units: tail }])
}

struct TrackerTask {
    core: Core,
    id: String,
    tracker: Arc<Tracker>,
}

impl TrackerTask {
    async fn read_to_end(&self, mut cursor: Cursor) {
        // The lease stays at the last stored position, where the next server would continue.
        cursor.expect_acknowledgements();
        let window = cursor.log().window();
        let spacing = (window / POSITIONS_PER_LOG).max(MIN_SPACING_BYTES).min(window / 4).max(1);
        self.store(cursor.log().tail());
        let mut has_exited = false;
        loop {
            let item = if has_exited { cursor.next_now(READ_BYTES).await } else { Some(cursor.next(READ_BYTES).await) };
            let Some(item) = item else { break };
            has_exited |= matches!(item, Item::Exit(_) | Item::End);
            let (counted, stored) = self.tracker.with(|index| {
                match item {
                    Item::Bytes { bytes, .. } => drop(index.counter.feed(&bytes, u64::MAX)),
                    Item::Gap { to_offset, .. } => index.counter.skip_to(to_offset),
                    Item::Exit(_) => index.counter.finish(),
                    Item::BecameLive | Item::End => {}
                }
                (index.counter.position().offset, index.last().offset)
            });
            if counted >= stored + spacing {
                self.store(cursor.log().tail());
                cursor.acknowledge(counted);
            }
            // Under heavy output the cursor never waits, so the task must yield by itself.
            tokio::task::yield_now().await;
        }
        self.store(cursor.log().tail());
        // A lease on the log of an exited program would keep it from being archived.
        cursor.close();
    }

    fn store(&self, tail: u64) {
        let pairs: Vec<(u64, u64)> = self.tracker.with(|index| {
            index.record();
            index.drop_before(tail);
            index.thin_out();
            index.iter().map(|position| (position.offset, position.units)).collect()
        });
        // Storing fails without memory, or after another server took over; that server counts on from the position
        // stored before.
        let value = serde_json::to_vec(&pairs).unwrap_or_default();
        let _ = self.core.store(&format!("{STORE_PREFIX}{}", self.id), Some(value));
    }
}

fn remove_stored(core: &Core, id: &str) {
    let name = format!("{STORE_PREFIX}{id}");
    if core.load(&name).is_some() {
        let _ = core.store(&name, None);
    }
}

/// Restarts the trackers of the previous server and removes the positions of processes that no longer exist.
pub(crate) fn take_over(core: &Core, trackers: &Trackers) {
    for (id, _) in core.list_stored(STORE_PREFIX) {
        match core.find(&id) {
            Ok(process) if process.is_running() => drop(trackers.start(core, &process)),
            Ok(_) => {}
            Err(_) => remove_stored(core, &id),
        }
    }
}

/// Removes the stored positions of deleted processes.
pub(crate) async fn watch_removals(core: Core, trackers: Trackers) {
    let mut events = core.subscribe_events(None);
    loop {
        match events.next().await {
            FollowerItem::Event(event) => {
                if let Some(id) = event.process_id.as_ref().filter(|_| event.kind == "process.deleted") {
                    remove_stored(&core, id);
                }
            }
            FollowerItem::Reset { .. } => take_over(&core, &trackers),
        }
    }
}
