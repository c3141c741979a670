//! Following a log entry by entry, without losing one.

use std::sync::Arc;

use outlive_holder::log::Exit;

use super::entries::{Entries, Entry, Walk};
use super::{Cursor, Flow, Log, Start, StreamFilter};

/// What a walk along the entries comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryItem {
    Entry(Entry),
    /// Sequences from `from` to before `to` are gone.
    Gap {
        from: u64,
        to: u64,
    },
    /// Too slow for too long: from here on the program does not wait.
    BecameLive,
    /// Every entry before the exit has been given out.
    Exit(Exit),
}

/// Entries for what to read, a cursor for the hold that keeps them there.
pub struct EntryCursor {
    entries: Entries,
    cursor: Cursor,
    exit_seen: u32,
}

impl EntryCursor {
    /// Entries with a sequence greater than `after`, at most the last `tail` of those there are now.
    pub fn new(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter) -> Self {
        Self::with(log, after, tail, filter, Flow::Lossless)
    }

    /// The same, but the program does not wait for who reads.
    pub fn live(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter) -> Self {
        Self::with(log, after, tail, filter, Flow::Live)
    }

    fn with(log: Arc<Log>, after: u64, tail: Option<u64>, filter: StreamFilter, flow: Flow) -> Self {
        let entries = match tail {
            Some(count) => Entries::tail(&log, after, count, filter),
            None => Entries::after(after, filter),
        };
        let first = log.source.mark(entries.position()).map_or_else(
            || if entries.position() < log.source.marks().start { log.tail() } else { log.head() },
            |mark| mark.offset,
        );
        let cursor = Cursor::new(log, Start::At(first), flow, filter);
        Self { entries, cursor, exit_seen: 0 }
    }

    /// The next item; waits for one.
    pub async fn next(&mut self) -> EntryItem {
        loop {
            if let Some(item) = self.try_next() {
                return item;
            }
            let log = Arc::clone(self.cursor.log());
            let (position, exit_seen) = (self.entries.position(), self.exit_seen);
            log.until(|| {
                let more = log.source.mark(position).is_some_and(|mark| mark.offset < log.head())
                    || log.source.marks().start > position;
                let exit = log.exit().is_some_and(|exit| exit.generation != exit_seen);
                (more || exit || log.successor().is_some()).then_some(())
            })
            .await;
        }
    }

    /// The next item if there is one now.
    pub fn try_next(&mut self) -> Option<EntryItem> {
        if self.cursor.take_became_live() {
            return Some(EntryItem::BecameLive);
        }
        let log = Arc::clone(self.cursor.log());
        // The exit and the head first: what was recorded before them is then surely in view.
        let head = log.head();
        let exit = log.exit().filter(|exit| exit.generation != self.exit_seen);
        match self.entries.next(&log) {
            Some(Walk::Entry(entry)) => {
                let end = entry.offset + entry.bytes.len() as u64;
                self.cursor.skip_to(end);
                if let Some(exit) = exit
                    && entry.offset >= exit.offset
                {
                    // Step back: the exit stands before this entry.
                    self.exit_seen = exit.generation;
                    self.entries = Entries::after(entry.sequence - 1, self.entries.filter());
                    return Some(EntryItem::Exit(exit));
                }
                Some(EntryItem::Entry(entry))
            }
            Some(Walk::Gap { from, to }) => Some(EntryItem::Gap { from, to }),
            None => {
                // Entries of other streams were passed over: they need not be held either.
                let next = log.source.mark(self.entries.position());
                self.cursor.skip_to(next.map_or(head, |mark| mark.offset));
                match exit {
                    Some(exit) => {
                        self.exit_seen = exit.generation;
                        Some(EntryItem::Exit(exit))
                    }
                    // Moves at most once per start of the process.
                    None if self.cursor.move_on() => self.try_next(),
                    None => None,
                }
            }
        }
    }

    /// How the program ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.cursor.log().exit()
    }

    /// The next entry that is there now.
    pub fn next_entry(&mut self) -> Option<Entry> {
        let log = Arc::clone(self.cursor.log());
        loop {
            match self.entries.next(&log)? {
                Walk::Entry(entry) => return Some(entry),
                Walk::Gap { .. } => {}
            }
        }
    }
}
