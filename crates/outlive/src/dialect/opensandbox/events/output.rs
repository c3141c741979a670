//! What a command prints, as events; the same for a process and for a command of a session.

use outlive_core::log::{Cursor, Exit, Item, Stream};

use super::event::Event;
use super::lines::{Part, Shape, Splitter};

/// Read at once.
const READ_BYTES: usize = 32 * 1024;
/// As many events as are there go out in one piece, up to this.
pub(in super::super) const PIECE_BYTES: usize = 64 * 1024;
/// Numbers of events rise with the offset; the last ones at an offset are told apart by what is below.
const PER_OFFSET: u64 = 4;

pub(in super::super) struct Output {
    cursor: Option<Cursor>,
    /// stdout, or a terminal; and stderr.
    streams: [Splitter; 2],
    /// All of it is told as stdout.
    merged: bool,
    /// Up to this event everything was told before.
    after: u64,
}

/// What follows.
pub(in super::super) enum Told {
    More,
    Exited(Exit),
    /// This cannot go on, and why.
    Lost(String),
}

impl Output {
    pub(in super::super) fn new(cursor: Cursor, shape: Shape, after: u64) -> Self {
        Self { cursor: Some(cursor), streams: [Splitter::new(shape), Splitter::new(shape)], merged: false, after }
    }

    /// stdout and stderr told as one.
    pub(in super::super) fn merged(cursor: Cursor) -> Self {
        Self { merged: true, ..Self::new(cursor, Shape::Lines, 0) }
    }

    /// Waits for something to tell. For ever, once it was told how it ended.
    pub(in super::super) async fn next(&mut self) -> Item {
        match &mut self.cursor {
            Some(cursor) => cursor.next(READ_BYTES).await,
            None => std::future::pending().await,
        }
    }

    pub(in super::super) fn try_next(&mut self) -> Option<Item> {
        self.cursor.as_mut()?.try_next(READ_BYTES)
    }

    /// Where an event ended.
    pub(in super::super) fn offset_of(eid: u64) -> u64 {
        eid / PER_OFFSET
    }

    /// Whether nothing is missing between an event and what this cursor will give.
    pub(in super::super) fn covers(cursor: &Cursor, eid: u64) -> bool {
        cursor.offset() <= Self::offset_of(eid)
    }

    /// The number of the event that tells the end.
    pub(in super::super) fn last_eid(exit: &Exit) -> u64 {
        exit.offset * PER_OFFSET + PER_OFFSET - 1
    }

    pub(in super::super) fn tell(&mut self, item: Item, piece: &mut Vec<u8>) -> Told {
        match item {
            Item::Bytes { offset, stream, bytes } => {
                let (number, kind) = self.kind(stream);
                let after = self.after;
                self.streams[number].feed(&bytes, offset, |part| append(kind, &part, 0, after, piece));
                Told::More
            }
            // The protocol has no word for it, and to go on as if nothing had happened would be a lie.
            Item::Gap { from, to } => {
                self.close();
                Told::Lost(format!("output was not read in time: bytes {from} to {to} are gone"))
            }
            Item::BecameLive => Told::More,
            Item::Exit(exit) => {
                for (number, kind) in [(0, "stdout"), (1, if self.merged { "stdout" } else { "stderr" })] {
                    let after = self.after;
                    let place = number as u64 + 1;
                    self.streams[number].finish(exit.offset, |part| append(kind, &part, place, after, piece));
                }
                self.close();
                Told::Exited(exit)
            }
        }
    }

    fn kind(&self, stream: Stream) -> (usize, &'static str) {
        match stream {
            Stream::Stderr if self.merged => (1, "stdout"),
            Stream::Stderr => (1, "stderr"),
            _ => (0, "stdout"),
        }
    }

    /// The reader needs nothing more.
    fn close(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            cursor.close();
        }
    }
}

fn append(kind: &'static str, part: &Part<'_>, place: u64, after: u64, piece: &mut Vec<u8>) {
    let eid = part.end * PER_OFFSET + place;
    if eid > after {
        Event { kind, text: Some(part.text), eid, partial: part.partial, ..Event::default() }.append(piece);
    }
}
