//! The `history` thread: moves output from rings to the store.
//!
//! ```text
//! waiting ──first byte──▶ delayed ──a second──▶ queued ──turn──▶ waiting, or queued again
//!    └────── a quarter of the window is not stored ──▶ ▲ └──▶ closed, after the exit
//! ```
//!
//! A program that prints rarely costs one wake-up per second. Busy programs take turns.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_history::Store;

use super::output::{Ending, Output, PieceBuffer, TurnEnd};
use super::queue::{Closing, Command, WriterInbox};
use super::tap::Tap;
use super::threads::Backoff;
use super::{Part, Shared};
use crate::log::Log;

/// Output is stored at most this long after its first byte.
const STORE_DELAY: Duration = Duration::from_secs(1);
/// Outputs that are due within this time are stored together, and so synced together.
const STORE_TOGETHER: Duration = Duration::from_millis(250);
/// How often an exited process with a background child is looked at. Usually a wake-up tells that it is gone, but holders
/// of older versions do not count streams.
const OPEN_STREAM_INTERVAL: Duration = Duration::from_secs(60);
/// The writer waits for a sync when this much is not synced: then the disk is too slow.
const STOP_AT_UNSYNCED_BYTES: u64 = 16 << 20;
/// How often the writer looks whether a sync is done, if it is not told.
const SYNC_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The maintenance thread is notified after this much: the store has probably closed a segment.
const ANNOUNCE_BYTES: u64 = 4 << 20;
/// As `ANNOUNCE_BYTES`, for processes that print little: a segment has a limited number of frames.
const ANNOUNCE_TURNS: u32 = 1024;
/// Rings of exited processes that wait while the disk fails.
const MAX_WAITING_RINGS: usize = 32;
/// Processes that were started while the disk fails, and whose output is stored when it works again.
const MAX_UNOPENED: usize = 256;
/// How long a shutdown stores what is left.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Writer<'a> {
    shared: &'a Shared,
    store: &'a Store,
    /// By the key of the process.
    outputs: HashMap<u64, Output>,
    /// Opened while the disk failed.
    unopened: Vec<(String, Arc<Tap>, Arc<Log>)>,
    queue: VecDeque<u64>,
    /// Outputs that wait until the limits are enforced.
    waiting_for_room: Vec<u64>,
    timers: BTreeSet<(Instant, u64)>,
    buffer: PieceBuffer,
    backoff: Backoff,
    /// The disk has failed: nothing is tried before.
    retry_at: Option<Instant>,
    /// Bytes, and turns that stored any, since the maintenance thread was notified.
    unannounced_bytes: u64,
    unannounced_turns: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared, store: &'a Store) -> Self {
        Self {
            shared,
            store,
            outputs: HashMap::new(),
            unopened: Vec::new(),
            queue: VecDeque::new(),
            waiting_for_room: Vec::new(),
            timers: BTreeSet::new(),
            buffer: PieceBuffer::new(),
            backoff: Backoff::new(),
            retry_at: None,
            unannounced_bytes: 0,
            unannounced_turns: 0,
        }
    }

    /// Returns when the history is closed.
    pub(super) fn run(mut self) {
        loop {
            let WriterInbox { commands, closing, has_new_room } = self.wait();
            for command in commands {
                self.execute(command);
            }
            if has_new_room {
                for key in std::mem::take(&mut self.waiting_for_room) {
                    self.enqueue(key);
                }
            }
            if let Some(closing) = closing {
                return self.close(closing);
            }
            self.queue_due(Instant::now());
            if self.can_store() {
                self.open_waiting();
                if let Some(key) = self.queue.pop_front() {
                    self.take_turn(key);
                }
            }
            if self.queue.is_empty() {
                self.buffer.trim();
                self.store.release_buffers();
            }
        }
    }

    /// Waits for commands, for a timer, or for the end of what keeps queued outputs from being stored.
    fn wait(&self) -> WriterInbox {
        let has_work = !self.queue.is_empty() || !self.unopened.is_empty();
        self.shared.writer.wait(|inbox: &mut WriterInbox| {
            let now = Instant::now();
            let timer = self.timers.first().map(|(at, _)| *at);
            let earliest = if self.is_sync_behind() { now + SYNC_CHECK_INTERVAL } else { now };
            let turn = has_work.then(|| self.retry_at.map_or(earliest, |retry_at| retry_at.max(earliest)));
            let next = timer.into_iter().chain(turn).min();
            let is_due = next.is_some_and(|at| at <= now);
            if is_due || inbox.has_new_room || !inbox.commands.is_empty() || inbox.closing.is_some() {
                return Ok(WriterInbox { closing: inbox.closing, ..std::mem::take(inbox) });
            }
            Err(next)
        })
    }

    fn is_sync_behind(&self) -> bool {
        self.store.unsynced_bytes() >= STOP_AT_UNSYNCED_BYTES
    }

    fn can_store(&self) -> bool {
        self.retry_at.is_none_or(|retry_at| retry_at <= Instant::now()) && !self.is_sync_behind()
    }

    // ---- commands ----

    fn execute(&mut self, command: Command) {
        match command {
            Command::Open { id, tap, log } => self.open(id, tap, log),
            Command::Wake(key) => self.on_wake(key),
            Command::Drain(key) => self.end(key, Ending::Exited),
            Command::Finish(key) => self.end(key, Ending::Removed),
            Command::Discard(key) => self.remove(key),
        }
    }

    fn open(&mut self, id: String, tap: Arc<Tap>, log: Arc<Log>) {
        let key = tap.key;
        if let Some(output) = self.outputs.get_mut(&key).filter(|output| output.is_of(&log)) {
            // Started again in the same ring.
            output.ending = Ending::Running;
        } else if self.retry_at.is_some() {
            self.unopened.push((id, tap, log));
            return;
        } else {
            self.remove(key);
            match Output::open(self.shared, self.store, id.clone(), Arc::clone(&tap), Arc::clone(&log)) {
                Ok(Some(output)) => drop(self.outputs.insert(key, output)),
                Ok(None) => return,
                Err(error) => {
                    self.unopened.push((id, tap, log));
                    return self.fail(&error);
                }
            }
        }
        // The process may have exited before its output was opened.
        if log.exit().is_some() {
            self.end(key, Ending::Exited);
        } else {
            self.wait_or_delay(key);
        }
    }

    /// Opens what could not be opened while the disk failed.
    fn open_waiting(&mut self) {
        if self.unopened.is_empty() {
            return;
        }
        self.retry_at = None;
        for (id, tap, log) in std::mem::take(&mut self.unopened) {
            self.open(id, tap, log);
        }
    }

    fn on_wake(&mut self, key: u64) {
        let can_wait = |output: &Output| !output.is_complete() && output.wait_until_busy();
        if self.outputs.get(&key).is_some_and(can_wait) {
            self.set_timer(key, Instant::now() + STORE_DELAY);
        } else {
            self.enqueue(key);
        }
    }

    fn end(&mut self, key: u64, ending: Ending) {
        let Some(output) = self.outputs.get_mut(&key) else { return };
        output.ending = output.ending.max(ending);
        let is_stuck = self.retry_at.is_some() || self.is_sync_behind();
        if is_stuck && self.ended_keys().count() > MAX_WAITING_RINGS {
            return self.give_up(key);
        }
        self.enqueue(key);
    }

    fn ended_keys(&self) -> impl Iterator<Item = u64> {
        self.outputs.iter().filter(|(_, output)| output.ending != Ending::Running).map(|(key, _)| *key)
    }

    /// Does not store the rest of an output. The memory of a ring is worth more than output that may never be stored.
    fn give_up(&mut self, key: u64) {
        self.remove(key);
        self.shared.retention_due.notify_one();
    }

    fn enqueue(&mut self, key: u64) {
        let Some(output) = self.outputs.get_mut(&key) else { return };
        output.tap.stop_waiting();
        if !std::mem::replace(&mut output.is_queued, true) {
            self.queue.push_back(key);
        }
    }

    /// Queues an output at that time. It has one timer at the most.
    fn set_timer(&mut self, key: u64, at: Instant) {
        let Some(output) = self.outputs.get_mut(&key) else { return };
        if let Some(earlier) = output.timer.replace(at) {
            self.timers.remove(&(earlier, key));
        }
        self.timers.insert((at, key));
    }

    fn queue_due(&mut self, now: Instant) {
        if self.timers.first().is_none_or(|(at, _)| *at > now) {
            return;
        }
        while let Some((_, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now + STORE_TOGETHER) {
            self.timers.pop_first();
            if let Some(output) = self.outputs.get_mut(&key) {
                output.timer = None;
            }
            self.enqueue(key);
        }
    }

    // ---- turns ----

    fn take_turn(&mut self, key: u64) {
        let Some(output) = self.outputs.get_mut(&key) else { return };
        output.is_queued = false;
        let before = self.store.unsynced_bytes();
        let result = output.take_turn(self.shared, self.store, &mut self.buffer);
        let unsynced = self.store.unsynced_bytes();
        if unsynced > 0 {
            self.shared.commits.update(|inbox| inbox.appended(unsynced, Instant::now()));
        }
        self.announce_bytes(unsynced.saturating_sub(before));
        match result {
            Ok(end) => {
                self.retry_at = None;
                self.backoff.reset();
                if end != TurnEnd::Full {
                    self.shared.set_health(Part::Output, None);
                }
                self.after_turn(key, end);
            }
            Err(error) => {
                self.enqueue(key);
                self.fail(&error);
            }
        }
    }

    fn after_turn(&mut self, key: u64, end: TurnEnd) {
        match end {
            TurnEnd::More => self.enqueue(key),
            TurnEnd::Paused(until) => self.set_timer(key, until),
            TurnEnd::Full => {
                self.waiting_for_room.push(key);
                self.shared.maintenance.update(|inbox| inbox.needs_room = true);
            }
            TurnEnd::CaughtUp if self.outputs.get(&key).is_some_and(Output::is_complete) => {
                self.remove(key);
                self.shared.retention_due.notify_one();
            }
            TurnEnd::CaughtUp => self.wait_or_delay(key),
        }
    }

    /// Waits for the next byte, or for the delay if there is one already.
    fn wait_or_delay(&mut self, key: u64) {
        let Some(output) = self.outputs.get(&key) else { return };
        if output.wait_for_output() {
            if output.is_complete() {
                // The last stream was closed just before the wake-up was requested.
                self.enqueue(key);
            } else if output.ending == Ending::Exited {
                self.set_timer(key, Instant::now() + OPEN_STREAM_INTERVAL);
            }
        } else {
            self.on_wake(key);
        }
    }

    /// The maintenance thread seals a segment when it is closed.
    fn announce_bytes(&mut self, appended: u64) {
        self.unannounced_bytes += appended;
        self.unannounced_turns += u32::from(appended > 0);
        if self.unannounced_bytes >= ANNOUNCE_BYTES || self.unannounced_turns >= ANNOUNCE_TURNS {
            (self.unannounced_bytes, self.unannounced_turns) = (0, 0);
            self.shared.maintenance.update(|inbox| inbox.pass_within(Duration::ZERO, Instant::now()));
        }
    }

    /// The disk has failed: releases all leases, so that programs are not affected, and tries again later.
    fn fail(&mut self, error: &io::Error) {
        self.shared.set_health(Part::Output, Some(error.to_string()));
        for output in self.outputs.values_mut() {
            output.release_lease(self.shared);
        }
        self.retry_at = Some(Instant::now() + self.backoff.next());
        let surplus: Vec<u64> = self.ended_keys().skip(MAX_WAITING_RINGS).collect();
        for key in surplus {
            self.give_up(key);
        }
        let surplus = self.unopened.len().saturating_sub(MAX_UNOPENED);
        self.unopened.drain(..surplus);
    }

    fn remove(&mut self, key: u64) {
        self.unopened.retain(|(_, tap, _)| tap.key != key);
        if let Some(mut output) = self.outputs.remove(&key) {
            if let Some(at) = output.timer {
                self.timers.remove(&(at, key));
            }
            output.tap.stop_waiting();
            output.release_lease(self.shared);
        }
        // A burst of short processes leaves a large table.
        if self.outputs.len() < self.outputs.capacity() / 8 {
            self.outputs.shrink_to_fit();
        }
    }

    // ---- the end ----

    fn close(&mut self, closing: Closing) {
        if closing == Closing::Shutdown {
            let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
            for output in self.outputs.values_mut() {
                let mut take_turn = || output.take_turn(self.shared, self.store, &mut self.buffer);
                while Instant::now() < deadline && matches!(take_turn(), Ok(TurnEnd::More)) {}
            }
        }
        for output in self.outputs.values_mut() {
            output.tap.stop_waiting();
            output.abandon_lease();
        }
    }
}
