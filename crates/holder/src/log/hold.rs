//! Holds: how a lossless reader keeps the writer from running away, and how that stays bounded.
//!
//! ```text
//!            take                  clean close
//!   free ───────────────▶ held ───────────────▶ free
//!     ▲                   ▲ │ reader gone (socket cut, server died)
//!     │     it comes back │ ▼
//!     └───────────────── left (for LEAVE_MS)
//!      deadline passed
//! ```
//!
//! The state is part of the token's word, so that each step is one compare-and-swap: whoever comes second sees it.
//!
//! The writer looks at holds only when it would pass one. The reader of a hold that stops the program must come
//! half a ring further within [`STALL_MS`], else the writer voids it and its reader finds out at its next read.

use std::sync::atomic::Ordering::SeqCst;

use super::layout::{AT_HOLDS, HOLD_BYTES, HOLD_SLOTS};
use super::map::Map;

/// How long a reader that vanished is waited for.
pub const LEAVE_MS: u64 = 10_000;
/// A holding reader must consume half a ring within this time.
pub const STALL_MS: u64 = 10_000;

/// Owner, and state in the two highest bits; 0 is free.
const TOKEN: usize = 0;
/// Bytes from here on are held.
const OFFSET: usize = 8;
/// Of a left hold: the moment (boot clock) at which it ends.
const DEADLINE: usize = 16;
/// Writer's bookkeeping of the stall rule; in the map so that it survives a re-exec of the holder.
const WINDOW_START: usize = 24;
const WINDOW_REACHED: usize = 32;
/// Whose window it is: a new owner of the slot begins a new one.
const WINDOW_TOKEN: usize = 40;
/// How far its reader has come; the hold may lag behind that.
const REACHED: usize = 48;

/// Its reader has gone and may come back.
const LEFT: u64 = 1 << 63;
/// Somebody is filling the slot in. Holds nothing yet, unless it takes over a left one.
const CLAIMED: u64 = 1 << 62;

/// Names one hold: the epoch of the server that took it, and a number that no other hold of it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    pub fn new(epoch: u32, serial: u32) -> Self {
        Self((u64::from(epoch) << 32 | u64::from(serial.max(1))) & !(LEFT | CLAIMED))
    }

    fn is_of(raw: u64, epoch: u32) -> bool {
        raw != 0 && (raw & !(LEFT | CLAIMED)) >> 32 == Self::new(epoch, 1).0 >> 32
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
        let token = self.load(TOKEN);
        (token != 0 && token & (CLAIMED | LEFT) != CLAIMED).then(|| self.load(OFFSET))
    }

    /// How far its reader has come.
    pub(super) fn reached(&self) -> u64 {
        self.load(REACHED)
    }

    /// Writer: is this hold still to be honoured now, given that it stops the program?
    /// Voids it when its reader stalled or did not come back.
    pub(super) fn honoured(&self, now: u64, half_ring: u64) -> bool {
        let token = self.load(TOKEN);
        if token & CLAIMED != 0 || token == 0 {
            return token & LEFT != 0;
        }
        let over = if token & LEFT != 0 {
            now >= self.load(DEADLINE)
        } else {
            let reached = self.load(REACHED);
            let further = reached >= self.load(WINDOW_REACHED).saturating_add(half_ring);
            if self.load(WINDOW_TOKEN) != token || further {
                self.store(WINDOW_START, now);
                self.store(WINDOW_REACHED, reached);
                self.store(WINDOW_TOKEN, token);
            }
            now >= self.load(WINDOW_START) + STALL_MS
        };
        !(over && self.change_token(token, 0))
    }

    /// Writer: the reader has caught up, so the next stop begins a new window.
    pub(super) fn close_window(&self) {
        if self.load(WINDOW_TOKEN) != 0 {
            self.store(WINDOW_TOKEN, 0);
        }
    }

    /// Writer: the moment at which `honoured` may change by itself.
    pub(super) fn due(&self) -> Option<u64> {
        let token = self.load(TOKEN);
        if token == 0 {
            None
        } else if token & LEFT != 0 {
            Some(self.load(DEADLINE))
        } else {
            (self.load(WINDOW_TOKEN) == token).then(|| self.load(WINDOW_START) + STALL_MS)
        }
    }

    /// Left by a reader that may have come to `offset`.
    fn may_be_of(&self, offset: u64) -> bool {
        self.load(TOKEN) & (LEFT | CLAIMED) == LEFT && self.load(OFFSET) <= offset
    }

    fn fill_in(&self, token: Token, offset: u64) {
        self.store(OFFSET, offset);
        self.store(REACHED, offset);
        self.store(TOKEN, token.0);
    }

    pub(super) fn advance(&self, offset: u64, reached: u64) {
        if self.load(OFFSET) < offset {
            self.store(OFFSET, offset);
        }
        self.store(REACHED, reached);
    }

    pub(super) fn free(&self, token: Token) {
        self.change_token(token.0, 0);
    }

    pub(super) fn leave(&self, token: Token, now: u64) {
        self.store(DEADLINE, now + LEAVE_MS);
        self.change_token(token.0, token.0 | LEFT);
    }
}

/// Puts a hold at `offset`. A reader that comes back takes over the one it left, so that nothing that it still
/// needs goes in between; a new one leaves those of others alone.
/// `None` when all slots are in use: the reader then has to be live.
pub(super) fn take(map: &Map, token: Token, offset: u64, comes_back: bool, now: u64) -> Option<()> {
    if comes_back {
        let own = Slot::all(map).filter(|slot| slot.may_be_of(offset)).max_by_key(|slot| slot.load(OFFSET));
        if let Some(slot) = own {
            let old = slot.load(TOKEN);
            if old & (LEFT | CLAIMED) == LEFT && slot.change_token(old, token.0 | CLAIMED | LEFT) {
                slot.fill_in(token, offset);
                return Some(());
            }
        }
    }
    let free = Slot::all(map).find(|slot| slot.load(TOKEN) == 0 && slot.change_token(0, token.0 | CLAIMED));
    let slot = free.or_else(|| {
        Slot::all(map).find(|slot| {
            let old = slot.load(TOKEN);
            let over = old & (LEFT | CLAIMED) == LEFT && now >= slot.load(DEADLINE);
            over && slot.change_token(old, token.0 | CLAIMED)
        })
    })?;
    slot.fill_in(token, offset);
    Some(())
}

/// Puts a hold for a reader that is not there yet, as if it had been and had left.
pub(super) fn expect(map: &Map, token: Token, offset: u64, now: u64) {
    if take(map, token, offset, false, now).is_some()
        && let Some(slot) = find(map, token)
    {
        slot.leave(token, now);
    }
}

pub(super) fn find(map: &Map, token: Token) -> Option<Slot<'_>> {
    Slot::all(map).find(|slot| slot.load(TOKEN) == token.0)
}

pub(super) fn is_there(map: &Map, token: Token) -> bool {
    Slot::all(map).any(|slot| slot.load(TOKEN) & !LEFT == token.0)
}

/// All holds of a server that died are left behind for their clients to come back to.
pub(super) fn leave_epoch(map: &Map, epoch: u32, now: u64) {
    for slot in Slot::all(map) {
        let token = slot.load(TOKEN);
        if !Token::is_of(token, epoch) {
            continue;
        }
        match token & (LEFT | CLAIMED) {
            0 => slot.leave(Token(token), now),
            // It died while it filled the slot in.
            CLAIMED => drop(slot.change_token(token, 0)),
            LEFT => {}
            _ => {
                slot.store(DEADLINE, now + LEAVE_MS);
                slot.change_token(token, token & !CLAIMED);
            }
        }
    }
}
