//! Holds: how a lossless reader keeps the writer from running away, and how that stays bounded.
//!
//! ```text
//!            take/adopt            clean close
//!   free ───────────────▶ held ───────────────▶ free
//!     ▲                     │ reader gone (socket cut, server died)
//!     │  deadline passed    ▼
//!     └─────────────────── left (for LEAVE_MS; a reader that comes back adopts it)
//! ```
//!
//! The writer looks at holds only when it would pass one. A hold that stops the program must move by half a
//! ring within [`STALL_MS`], else the writer voids it and its reader finds out at its next read.

use std::sync::atomic::Ordering::SeqCst;

use super::layout::{AT_HOLDS, HOLD_BYTES, HOLD_SLOTS};
use super::map::Map;

/// How long a reader that vanished is waited for.
pub const LEAVE_MS: u64 = 10_000;
/// A holding reader must consume half a ring within this time.
pub const STALL_MS: u64 = 10_000;

const TOKEN: usize = 0;
const OFFSET: usize = 8;
/// 0 while its reader lives; else the moment (boot clock) at which a left hold ends.
const DEADLINE: usize = 16;
/// Writer's bookkeeping of the stall rule; in the map so that it survives a re-exec of the holder.
const WINDOW_START: usize = 24;
const WINDOW_OFFSET: usize = 32;

/// Names one hold: the epoch of the server that took it, and a number that no other hold of it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    pub fn new(epoch: u32, serial: u32) -> Self {
        Self(u64::from(epoch) << 32 | u64::from(serial.max(1)))
    }

    fn epoch(raw: u64) -> u32 {
        (raw >> 32) as u32
    }
}

#[derive(Clone, Copy)]
pub(super) struct Slot<'m> {
    map: &'m Map,
    at: usize,
}

impl<'m> Slot<'m> {
    pub(super) fn all(map: &'m Map) -> impl Iterator<Item = Self> {
        (0..HOLD_SLOTS).map(move |index| Self { map, at: AT_HOLDS + index * HOLD_BYTES })
    }

    fn load(&self, field: usize) -> u64 {
        self.map.word(self.at + field).load(SeqCst)
    }

    fn store(&self, field: usize, value: u64) {
        self.map.word(self.at + field).store(value, SeqCst);
    }

    fn change_token(&self, from: u64, to: u64) -> bool {
        self.map.word(self.at + TOKEN).compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// The offset held, if the slot is taken.
    pub(super) fn held(&self) -> Option<u64> {
        (self.load(TOKEN) != 0).then(|| self.load(OFFSET))
    }

    /// Writer: is this hold still to be honoured now, given that it stops the program?
    /// Voids it when its reader stalled or did not come back.
    pub(super) fn honoured(&self, now: u64, half_ring: u64) -> bool {
        let token = self.load(TOKEN);
        if token == 0 {
            return false;
        }
        let deadline = self.load(DEADLINE);
        let over = if deadline != 0 {
            now >= deadline
        } else {
            let offset = self.load(OFFSET);
            if self.load(WINDOW_START) == 0 || offset >= self.load(WINDOW_OFFSET).saturating_add(half_ring) {
                self.store(WINDOW_START, now);
                self.store(WINDOW_OFFSET, offset);
            }
            now >= self.load(WINDOW_START) + STALL_MS
        };
        !(over && self.change_token(token, 0))
    }

    /// Writer: the reader has caught up, so the next stop begins a new window.
    pub(super) fn close_window(&self) {
        if self.load(WINDOW_START) != 0 {
            self.store(WINDOW_START, 0);
        }
    }

    /// Writer: the moment at which `honoured` may change by itself.
    pub(super) fn due(&self) -> Option<u64> {
        self.held()?;
        match (self.load(DEADLINE), self.load(WINDOW_START)) {
            (0, 0) => None,
            (0, start) => Some(start + STALL_MS),
            (deadline, _) => Some(deadline),
        }
    }
}

/// Takes over the hold that a vanished reader left at or before `offset`, or a free slot.
/// `None` when all slots are in use: the reader then has to be live.
pub(super) fn take(map: &Map, token: Token, offset: u64, now: u64) -> Option<()> {
    let left = Slot::all(map)
        .filter(|slot| slot.load(DEADLINE) != 0)
        .filter(|slot| slot.held().is_some_and(|held| held <= offset))
        .max_by_key(|slot| slot.load(OFFSET));
    for slot in left.into_iter().chain(Slot::all(map)) {
        let old = slot.load(TOKEN);
        let deadline = slot.load(DEADLINE);
        let usable = old == 0 || (deadline != 0 && (slot.load(OFFSET) <= offset || now >= deadline));
        if usable && slot.change_token(old, token.0) {
            slot.store(OFFSET, offset);
            slot.store(WINDOW_START, 0);
            slot.store(DEADLINE, 0);
            // The writer may have voided it by the old deadline in between.
            if slot.load(TOKEN) == token.0 {
                return Some(());
            }
        }
    }
    None
}

pub(super) fn find(map: &Map, token: Token) -> Option<Slot<'_>> {
    Slot::all(map).find(|slot| slot.load(TOKEN) == token.0)
}

impl Slot<'_> {
    pub(super) fn advance(&self, offset: u64) {
        if self.load(OFFSET) < offset {
            self.store(OFFSET, offset);
        }
        // Undoes a `leave` meant for an earlier owner of this slot.
        if self.load(DEADLINE) != 0 {
            self.store(DEADLINE, 0);
        }
    }

    pub(super) fn free(&self, token: Token) {
        self.change_token(token.0, 0);
    }

    pub(super) fn leave(&self, now: u64) {
        self.store(DEADLINE, now + LEAVE_MS);
    }
}

/// All holds of a server that died are left behind for their clients to come back to.
pub(super) fn leave_epoch(map: &Map, epoch: u32, now: u64) {
    for slot in Slot::all(map) {
        let token = slot.load(TOKEN);
        if token != 0 && Token::epoch(token) == epoch && slot.load(DEADLINE) == 0 {
            slot.leave(now);
        }
    }
}
