//! One reader's place in a log.

use std::sync::Arc;

use bytes::Bytes;
use outlive_holder::log::hold::Token;
use outlive_holder::log::{Exit, Gone, Stream};

use super::Log;

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From this absolute offset.
    At(u64),
    /// This many bytes before the head (or the oldest byte there is).
    Tail(u64),
    /// Only what comes from now on.
    Head,
    /// The oldest byte there is.
    Oldest,
}

/// What happens when the reader is slower than the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The program waits, within bounds.
    Lossless,
    /// The program runs on; what was missed is announced.
    Live,
}

/// Which bytes a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFilter {
    All,
    Only(Stream),
}

impl StreamFilter {
    pub fn wants(self, stream: Stream) -> bool {
        match self {
            Self::All => true,
            Self::Only(only) => only == stream,
        }
    }
}

/// What a cursor comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Bytes of one stream, beginning at `offset`.
    Bytes { offset: u64, stream: Stream, bytes: Bytes },
    /// These offsets are gone; reading goes on at `to`.
    Gap { from: u64, to: u64 },
    /// Too slow for too long: from here on the program does not wait.
    BecameLive,
    /// Every byte before the exit has been given out.
    Exit(Exit),
}

pub struct Cursor {
    log: Arc<Log>,
    offset: u64,
    filter: StreamFilter,
    hold: Option<Token>,
    /// The reader acknowledges what it has got, so the hold need not guess.
    acknowledged: Option<u64>,
    /// Where the hold was last put, to move it only now and then.
    held_at: u64,
    /// How far the holder was last told that the reader has come.
    reached_at: u64,
    exit_seen: u32,
    /// Of a process that had already exited: its exit comes after everything that was there at the beginning,
    /// output of children that lived on included.
    exit_from: u64,
    /// Number of the mark that covers `offset`, as far as known.
    mark: Option<u64>,
    became_live: bool,
    clean: bool,
}

impl Cursor {
    pub fn new(log: Arc<Log>, start: Start, flow: Flow, filter: StreamFilter) -> Self {
        let wanted = |log: &Log| match start {
            Start::At(offset) => offset.min(log.head()),
            Start::Tail(bytes) => log.head().saturating_sub(bytes).max(log.tail()),
            Start::Head => log.head(),
            Start::Oldest => log.tail(),
        };
        let mut offset = wanted(&log);
        let hold = if flow == Flow::Lossless { log.take_hold(offset, matches!(start, Start::At(_))) } else { None };
        if hold.is_some() && !matches!(start, Start::At(_)) {
            // Nothing moves away under a hold, so now the choice is final.
            offset = offset.max(log.tail());
        }
        let became_live = flow == Flow::Lossless && hold.is_none();
        let exit_from = if log.exit().is_some() { log.head() } else { 0 };
        Self {
            log,
            offset,
            filter,
            hold,
            acknowledged: None,
            held_at: offset,
            reached_at: offset,
            exit_seen: 0,
            exit_from,
            mark: None,
            became_live,
            clean: false,
        }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub fn is_lossless(&self) -> bool {
        self.hold.is_some()
    }

    /// The reader has everything before `offset`.
    pub fn acknowledge(&mut self, offset: u64) {
        let offset = offset.min(self.offset);
        if self.acknowledged.is_none_or(|before| offset > before) {
            self.acknowledged = Some(offset);
        }
        self.move_hold();
    }

    /// From now on the hold follows what the reader acknowledges, not what it was given.
    pub fn expect_acknowledgements(&mut self) {
        self.acknowledged.get_or_insert(self.offset);
    }

    /// The reader got everything before `offset` by another way.
    pub fn skip_to(&mut self, offset: u64) {
        self.offset = self.offset.max(offset);
        self.mark = None;
        self.acknowledged = self.acknowledged.map(|before| before.max(self.offset));
        self.move_hold();
    }

    pub(super) fn take_became_live(&mut self) -> bool {
        self.move_hold();
        std::mem::take(&mut self.became_live)
    }

    /// The reader will not come back: its hold ends with it.
    pub fn close(mut self) {
        self.clean = true;
    }

    fn move_hold(&mut self) {
        let Some(token) = self.hold else { return };
        // Without acknowledgements, what is handed to a socket may still be lost with it: the hold stays behind.
        let target = self.acknowledged.unwrap_or_else(|| self.log.source.half_behind(self.offset));
        let reached = self.acknowledged.unwrap_or(self.offset);
        let step = self.log.source.hold_step();
        if target < self.held_at + step && reached < self.reached_at + step && self.log.source.holds(token) {
            return;
        }
        self.held_at = target.max(self.held_at);
        self.reached_at = reached;
        if !self.log.advance_hold(token, self.held_at, reached) {
            self.hold = None;
            self.became_live = true;
        }
    }

    /// The next item, at most `most` bytes; waits for one.
    pub async fn next(&mut self, most: usize) -> Item {
        loop {
            if let Some(item) = self.try_next(most) {
                return item;
            }
            // While we sleep at the head, the hold should be there too: nothing is unread.
            let log = Arc::clone(&self.log);
            let (offset, exit_seen) = (self.offset, self.exit_seen);
            let news = || log.head() > offset || has_new_exit(&log, exit_seen, offset) || log.successor().is_some();
            log.until(|| news().then_some(())).await;
        }
    }

    /// The next item if there is one now.
    pub fn try_next(&mut self, most: usize) -> Option<Item> {
        loop {
            self.move_hold();
            if std::mem::take(&mut self.became_live) {
                return Some(Item::BecameLive);
            }
            // Look at the exit before the head: what was written before it is then surely in view.
            let exit = self.log.exit().filter(|exit| exit.offset.max(self.exit_from) <= self.offset);
            if let Some(exit) = exit
                && self.exit_seen != exit.generation
            {
                self.exit_seen = exit.generation;
                return Some(Item::Exit(exit));
            }
            if self.offset >= self.log.head() {
                if self.move_on() {
                    continue;
                }
                return None;
            }
            match self.read(most) {
                Ok(Some(item)) => return Some(item),
                Ok(None) => {}
                Err(Gone { oldest }) => {
                    let from = std::mem::replace(&mut self.offset, oldest);
                    self.mark = None;
                    return Some(Item::Gap { from, to: oldest });
                }
            }
        }
    }

    /// At the end of an archived log whose process runs again: goes on in its new log.
    pub(super) fn move_on(&mut self) -> bool {
        let Some(next) = self.log.successor().cloned() else { return false };
        self.log = next;
        self.mark = None;
        self.offset = self.offset.max(self.log.tail());
        if self.hold.is_some() {
            // The old hold was one in name only; nothing there has to be freed.
            self.hold = self.log.take_hold(self.offset, false);
            (self.held_at, self.reached_at) = (self.offset, self.offset);
            self.became_live = self.hold.is_none();
        }
        true
    }

    /// Reads within the chunk at the cursor; `None` when it belongs to an unwanted stream.
    fn read(&mut self, most: usize) -> Result<Option<Item>, Gone> {
        let (stream, end) = self.chunk()?;
        let until_exit = self.log.exit().map_or(u64::MAX, |exit| {
            // The exit stands between the bytes before it and those of late children.
            if exit.offset > self.offset { exit.offset } else { u64::MAX }
        });
        let end = end.min(until_exit);
        let offset = self.offset;
        if !self.filter.wants(stream) {
            let oldest = self.log.source.tail();
            if oldest > offset {
                // The marks went away while we looked at them: what there was, nobody knows.
                return Err(Gone { oldest });
            }
            self.offset = end;
            return Ok(None);
        }
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(most);
        let mut bytes = Vec::new();
        let got = self.log.source.read_at(offset, wanted, &mut bytes)?;
        self.offset += got as u64;
        Ok(Some(Item::Bytes { offset, stream, bytes: bytes.into() }))
    }

    /// The stream at the cursor, and how far bytes of the same stream go on.
    fn chunk(&mut self) -> Result<(Stream, u64), Gone> {
        let reader = &self.log.source;
        let gone = || Gone { oldest: reader.tail().max(self.offset) };
        // The head first: every byte before it has its mark.
        let head = reader.head();
        // The chunk of the last read may be gone although the one at the cursor is not.
        let start = match self.mark.filter(|number| reader.mark(*number).is_some()) {
            Some(number) => number,
            None => reader.mark_of(self.offset).ok_or_else(gone)?,
        };
        let mut number = start;
        let mut current = reader.mark(number).ok_or_else(gone)?;
        loop {
            match reader.mark(number + 1) {
                Some(next) if next.offset <= self.offset => {
                    number += 1;
                    current = next;
                }
                Some(next) if next.offset < head => {
                    self.mark = Some(number);
                    if next.stream != current.stream {
                        return Ok((current.stream, next.offset));
                    }
                    return Ok((current.stream, self.same_stream_until(number + 1, current.stream, head)));
                }
                _ => {
                    self.mark = Some(number);
                    return Ok((current.stream, head));
                }
            }
        }
    }

    /// Chunks of one stream are given out together; the look ahead is bounded.
    fn same_stream_until(&self, from: u64, stream: Stream, head: u64) -> u64 {
        const LOOK_AHEAD: u64 = 64;
        let mut end = head;
        for number in from..from + LOOK_AHEAD {
            match self.log.source.mark(number) {
                Some(mark) if mark.offset >= head => return head,
                Some(mark) => {
                    end = mark.offset;
                    if mark.stream != stream {
                        return end;
                    }
                }
                None => return head,
            }
        }
        end
    }
}

fn has_new_exit(log: &Log, exit_seen: u32, offset: u64) -> bool {
    log.exit().is_some_and(|exit| exit.offset <= offset && exit.generation != exit_seen)
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if let Some(token) = self.hold {
            if self.clean || self.offset >= self.log.head() && self.log.exit().is_some() {
                self.log.free_hold(token);
            } else {
                self.log.source.leave_hold(token);
            }
        }
    }
}
