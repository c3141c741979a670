//! A cursor that reads the log as numbered entries, one per recorded chunk.

use std::sync::Arc;

use bytes::Bytes;
use outlive_holder::log::{Exit, Stream};

use super::entries::{Entries, EntryStep};
use super::{Cursor, Flow, Log, Start, Step, StreamFilter};

/// One recorded chunk with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub sequence: u64,
    pub stream: Stream,
    pub at_ms: u64,
    pub offset: u64,
    pub bytes: Bytes,
}

/// What an entry cursor yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryItem {
    Entry(Entry),
    /// Bytes of the sequences from `from_sequence` to before `to_sequence` are neither in memory nor in the history. If the
    /// end of an entry may be missing, its start was yielded, and its sequence is in the gap too.
    Gap {
        from_sequence: u64,
        to_sequence: u64,
    },
    /// The reader was too slow for too long: from here on the program does not wait for it.
    BecameLive,
    /// The exit. Every entry before it has been yielded.
    Exit(Exit),
    /// Nothing follows, ever: the log [is stored only](Log::is_stored_only).
    End,
}

/// The entries say what to read; the byte cursor holds the lease that keeps them from being overwritten.
pub struct EntryCursor {
    entries: Entries,
    cursor: Cursor,
    /// Generation of the last exit that was yielded.
    exit_seen: u32,
    end_yielded: bool,
}

impl EntryCursor {
    /// Reads the entries with a sequence greater than `after`; of those there are now at most the last `tail`. The
    /// program waits for the reader.
    pub fn new(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter) -> Self {
        Self::with_flow(log, after, tail, filter, Flow::Lossless)
    }

    /// Like [`new`](Self::new), but the program does not wait for the reader.
    pub fn live(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter) -> Self {
        Self::with_flow(log, after, tail, filter, Flow::Live)
    }

    fn with_flow(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter, flow: Flow) -> Self {
        let entries = match tail {
            Some(count) => Entries::tail(&log, after, count, filter),
            None => Entries::after(after, filter),
        };
        let is_before_memory = entries.next < log.memory_marks().start;
        let first = log
            .mark(entries.next)
            .map_or_else(|| if is_before_memory { log.tail() } else { log.head() }, |mark| mark.offset);
        let cursor = Cursor::new(log, Start::At(first), flow, filter);
        Self { entries, cursor, exit_seen: 0, end_yielded: false }
    }

    /// Waits for the next item. Cancel safe.
    pub async fn next(&mut self) -> EntryItem {
        loop {
            match self.step() {
                Step::Item(item) => return item,
                Step::NeedsBlock => self.load_block().await,
                Step::AtHead if self.cursor.log().is_stored_only() => return EntryItem::End,
                Step::AtHead => self.wait_for_item().await,
            }
        }
    }

    /// The next item, if there is one now. Waits only for the history. Cancel safe.
    pub async fn next_now(&mut self) -> Option<EntryItem> {
        loop {
            match self.step() {
                Step::Item(item) => return Some(item),
                Step::NeedsBlock => self.load_block().await,
                Step::AtHead => return None,
            }
        }
    }

    /// The next item, if it is in memory. After `None`, `next` may still return one at once, from the history.
    pub fn try_next(&mut self) -> Option<EntryItem> {
        match self.step() {
            Step::Item(item) => Some(item),
            Step::NeedsBlock | Step::AtHead => None,
        }
    }

    pub fn exit(&self) -> Option<Exit> {
        self.cursor.log().exit()
    }

    async fn load_block(&mut self) {
        self.cursor.defer_lease();
        let log = Arc::clone(self.cursor.log());
        self.entries.load(&log).await;
    }

    async fn wait_for_item(&self) {
        let log = Arc::clone(self.cursor.log());
        let (next, exit_seen) = (self.entries.next, self.exit_seen);
        log.wait_for(|| {
            let has_entry =
                log.mark(next).is_some_and(|mark| mark.offset < log.head()) || log.memory_marks().start > next;
            let has_exit = log.exit().is_some_and(|exit| exit.generation != exit_seen);
            (has_entry || has_exit || log.successor().is_some()).then_some(())
        })
        .await;
    }

    fn step(&mut self) -> Step<EntryItem> {
        if self.cursor.take_became_live() {
            return Step::Item(EntryItem::BecameLive);
        }
        let log = Arc::clone(self.cursor.log());
        // Read the head and the exit first: the marks then cover everything that was recorded before them.
        let head = log.head();
        let exit = log.exit().filter(|exit| exit.generation != self.exit_seen);
        match self.entries.step(&log) {
            Step::Item(EntryStep::Entry(entry)) => {
                if let Some(exit) = exit
                    && entry.offset >= exit.offset
                {
                    // The exit comes before this entry.
                    self.exit_seen = exit.generation;
                    self.entries.put_back(entry);
                    return Step::Item(EntryItem::Exit(exit));
                }
                self.cursor.skip_to(entry.offset + entry.bytes.len() as u64);
                Step::Item(EntryItem::Entry(entry))
            }
            Step::Item(EntryStep::Gap { from_sequence, to_sequence }) => {
                Step::Item(EntryItem::Gap { from_sequence, to_sequence })
            }
            Step::NeedsBlock => Step::NeedsBlock,
            Step::AtHead => {
                // Entries of other streams were skipped and need no lease.
                let next = log.mark(self.entries.next);
                self.cursor.skip_to(next.map_or(head, |mark| mark.offset));
                self.step_at_head(exit)
            }
        }
    }

    fn step_at_head(&mut self, exit: Option<Exit>) -> Step<EntryItem> {
        if let Some(exit) = exit {
            self.exit_seen = exit.generation;
            return Step::Item(EntryItem::Exit(exit));
        }
        if self.cursor.move_to_successor() {
            // The recursion is bounded by the number of restarts of the process.
            return self.step();
        }
        if self.cursor.log().is_stored_only() && !std::mem::replace(&mut self.end_yielded, true) {
            return Step::Item(EntryItem::End);
        }
        Step::AtHead
    }
}
