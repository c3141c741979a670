//! Reads along with terminals and keeps their marks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::events::Next;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use outlive_core::process::Process;
use outlive_core::{Core, Error};

use super::marks::{Mark, Marks};
use super::place::{self, Wanted};

/// Under this and the id of a process its marks are kept, as pairs of numbers.
const STORED_BELOW: &str = "opencode/units/";
const READ_BYTES: usize = 64 * 1024;
/// Marks in a whole log, about.
const MARKS_PER_LOG: u64 = 32;
/// They are not worth more than this.
const LEAST_SPACING: u64 = 16 * 1024;

/// The terminals that are read along with, by the ids of their processes.
#[derive(Clone, Default)]
pub(in super::super) struct Trackers(Arc<Mutex<HashMap<String, Arc<Tracker>>>>);

struct Tracker(Mutex<Marks>);

impl Tracker {
    fn with<T>(&self, work: impl FnOnce(&mut Marks) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Trackers {
    /// Begins to read along, unless somebody does. Must be called at the start of a terminal for an exact count of its units.
    pub(in super::super) fn begin(&self, core: &Core, process: &Arc<Process>) -> Result<(), Error> {
        self.of(core, process).map(drop)
    }

    /// The place in a terminal's output that is meant.
    pub(in super::super) fn find(
        &self,
        core: &Core,
        process: &Arc<Process>,
        log: &Arc<Log>,
        wanted: Wanted,
    ) -> Result<Mark, Error> {
        let marks = self.of(core, process)?.with(|marks| marks.clone());
        Ok(place::find(log, &marks, wanted))
    }

    fn of(&self, core: &Core, process: &Arc<Process>) -> Result<Arc<Tracker>, Error> {
        let log = process.log()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tracker) = all.get(process.id()) {
            return Ok(Arc::clone(tracker));
        }
        let marks = kept(core, process.id()).unwrap_or_else(|| unseen(&log));
        let cursor = Cursor::new(log, Start::At(marks.last().offset), Flow::Lossless, StreamFilter::All);
        let tracker = Arc::new(Tracker(Mutex::new(marks)));
        all.insert(process.id().to_owned(), Arc::clone(&tracker));
        let reading = Reading { core: core.clone(), id: process.id().to_owned(), tracker: Arc::clone(&tracker) };
        let (all, process) = (self.clone(), Arc::clone(process));
        tokio::spawn(async move {
            tokio::select! {
                () = reading.to_the_end(cursor) => {}
                () = process.until_removed() => {}
            }
            all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(process.id());
            if process.is_removed() {
                forget(&reading.core, process.id());
            }
        });
        Ok(tracker)
    }
}

fn kept(core: &Core, id: &str) -> Option<Marks> {
    let name = format!("{STORED_BELOW}{id}");
    let (_, value) = core.stored(&name).into_iter().find(|(rest, _)| rest.is_empty())?;
    let pairs: Vec<(u64, u64)> = serde_json::from_slice(&value).ok()?;
    let marks: Vec<Mark> = pairs.into_iter().map(|(offset, units)| Mark { offset, units }).collect();
    (!marks.is_empty()).then(|| Marks::from(marks))
}

/// Of a terminal that nobody has read along with. What is gone counts one unit per byte.
fn unseen(log: &Arc<Log>) -> Marks {
    let tail = log.tail();
    Marks::from(vec![Mark { offset: tail, units: tail }])
}

struct Reading {
    core: Core,
    id: String,
    tracker: Arc<Tracker>,
}

impl Reading {
    async fn to_the_end(&self, mut cursor: Cursor) {
        // The hold stays where the next server would go on.
        cursor.expect_acknowledgements();
        let window = cursor.log().window();
        let spacing = (window / MARKS_PER_LOG).max(LEAST_SPACING).min(window / 4).max(1);
        self.keep(cursor.log().tail());
        let mut has_ended = false;
        loop {
            let item = if has_ended { cursor.try_next(READ_BYTES) } else { Some(cursor.next(READ_BYTES).await) };
            let Some(item) = item else { break };
            has_ended |= matches!(item, Item::Exit(_));
            let (counted, kept) = self.tracker.with(|marks| {
                match item {
                    Item::Bytes { bytes, .. } => drop(marks.count.take(&bytes, u64::MAX)),
                    Item::Gap { to, .. } => marks.count.skip_to(to),
                    Item::Exit(_) => marks.count.finish(),
                    Item::BecameLive => {}
                }
                (marks.count.now().offset, marks.last().offset)
            });
            if counted >= kept + spacing {
                self.keep(cursor.log().tail());
                cursor.acknowledge(counted);
            }
            // Under a flood there is always more, and others want their turn.
            tokio::task::yield_now().await;
        }
        self.keep(cursor.log().tail());
        // Nobody may have a hand on the log of a program that has ended, or it could not be archived.
        cursor.close();
    }

    fn keep(&self, tail: u64) {
        let pairs: Vec<(u64, u64)> = self.tracker.with(|marks| {
            marks.set_here();
            marks.forget_before(tail);
            marks.all().map(|mark| (mark.offset, mark.units)).collect()
        });
        // Without memory for it, or when another server serves: that one counts on from the mark before.
        let value = serde_json::to_vec(&pairs).unwrap_or_default();
        let _ = self.core.store(&format!("{STORED_BELOW}{}", self.id), Some(value));
    }
}

fn forget(core: &Core, id: &str) {
    let name = format!("{STORED_BELOW}{id}");
    if !core.stored(&name).is_empty() {
        let _ = core.store(&name, None);
    }
}

/// Goes on where the server before was reading along, and forgets what is not there any more.
pub(in super::super) fn take_over(core: &Core, trackers: &Trackers) {
    for (id, _) in core.stored(STORED_BELOW) {
        match core.find(&id) {
            Ok(process) if process.is_running() => drop(trackers.begin(core, &process)),
            Ok(_) => {}
            Err(_) => forget(core, &id),
        }
    }
}

/// The marks of a process go with it.
pub(in super::super) async fn watch_removals(core: Core, trackers: Trackers) {
    let mut events = core.follow_events(None);
    loop {
        match events.next().await {
            Next::Event(event) if event.kind == "process.deleted" => {
                forget(&core, &event.process_id);
            }
            Next::Event(_) => {}
            Next::Reset { .. } => take_over(&core, &trackers),
        }
    }
}
