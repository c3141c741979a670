//! The log as numbered entries, one per recorded chunk.

use bytes::Bytes;
use outlive_holder::log::Stream;

use super::{Log, StreamFilter};

/// One recorded chunk with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub sequence: u64,
    pub stream: Stream,
    pub at_ms: u64,
    pub offset: u64,
    pub bytes: Bytes,
}

/// Walks the entries after a sequence number.
pub struct Entries {
    /// Number (from 0) of the next mark to look at.
    next: u64,
    filter: StreamFilter,
    /// The reader is in the midst of the entries: what it does not get, it misses.
    under_way: bool,
}

/// What a walk comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk {
    Entry(Entry),
    /// Sequences from `from` to before `to` are gone.
    Gap {
        from: u64,
        to: u64,
    },
}

impl Entries {
    /// Entries with a sequence number greater than `after`.
    pub fn after(after: u64, filter: StreamFilter) -> Self {
        Self { next: after, filter, under_way: after > 0 }
    }

    pub fn filter(&self) -> StreamFilter {
        self.filter
    }

    /// The sequence before the next entry.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The last `count` entries of the wanted streams.
    pub fn tail(log: &Log, after: u64, count: u64, filter: StreamFilter) -> Self {
        let marks = log.source.marks();
        let first = marks.start.max(after);
        let mut next = marks.end;
        let mut found = 0;
        while next > first && found < count {
            next -= 1;
            if log.source.mark(next).is_some_and(|mark| filter.wants(mark.stream)) {
                found += 1;
            }
        }
        Self { next, filter, under_way: false }
    }

    /// The next entry that is there now.
    pub fn next(&mut self, log: &Log) -> Option<Walk> {
        loop {
            let head = log.head();
            let marks = log.source.marks();
            if self.next >= marks.end {
                return None;
            }
            if self.next < marks.start {
                let from = self.next + 1;
                self.next = marks.start;
                if self.under_way {
                    return Some(Walk::Gap { from, to: marks.start + 1 });
                }
            }
            let Some(mark) = log.source.mark(self.next) else { continue };
            if mark.offset >= head {
                return None;
            }
            if !self.filter.wants(mark.stream) {
                self.next += 1;
                continue;
            }
            let oldest = log.tail();
            if oldest > mark.offset && self.under_way {
                // Its first bytes are gone, and half an entry would look like a whole one.
                self.next += 1;
                return Some(Walk::Gap { from: mark.sequence, to: mark.sequence + 1 });
            }
            let end = log.source.mark(self.next + 1).map_or(head, |next| next.offset.min(head));
            if let Some((offset, bytes)) = read(log, mark.offset.max(oldest), end) {
                self.next += 1;
                self.under_way = true;
                return Some(Walk::Entry(Entry {
                    sequence: mark.sequence,
                    stream: mark.stream,
                    at_ms: mark.at_ms,
                    offset,
                    bytes,
                }));
            }
            // Overwritten while we looked.
            let from = mark.sequence;
            self.next = self.next.max(log.source.marks().start).max(mark.sequence);
            return Some(Walk::Gap { from, to: self.next + 1 });
        }
    }
}

fn read(log: &Log, offset: u64, end: u64) -> Option<(u64, Bytes)> {
    let wanted = usize::try_from(end.checked_sub(offset)?).ok()?;
    let mut bytes = Vec::new();
    while bytes.len() < wanted {
        let got = log.source.read_at(offset + bytes.len() as u64, wanted - bytes.len(), &mut bytes).ok()?;
        if got == 0 {
            break;
        }
    }
    (!bytes.is_empty()).then(|| (offset, bytes.into()))
}
