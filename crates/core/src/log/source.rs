//! Where the bytes of a log are: in the ring that the holder writes, or in the archive.
//!
//! Readers ask the same questions of both. An archived log is final, so nothing about it ever moves, and what
//! exists to pace a writer (holds, wake-ups) is granted and means nothing.

use std::ops::Range;

use outlive_holder::log::hold::Token;
use outlive_holder::log::{Exit, Gone, LogReader, Mark};

use super::archived::ArchivedLog;

pub(crate) enum Source {
    Ring(LogReader),
    Archived(ArchivedLog),
}

impl Source {
    pub(super) fn head(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.head(),
            Self::Archived(log) => log.head(),
        }
    }

    pub(super) fn tail(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.tail(),
            Self::Archived(log) => log.tail(),
        }
    }

    pub(super) fn marks(&self) -> Range<u64> {
        match self {
            Self::Ring(ring) => ring.marks(),
            Self::Archived(log) => log.marks(),
        }
    }

    pub(super) fn mark(&self, number: u64) -> Option<Mark> {
        match self {
            Self::Ring(ring) => ring.mark(number),
            Self::Archived(log) => log.mark(number),
        }
    }

    pub(super) fn mark_of(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Ring(ring) => ring.mark_of(offset),
            Self::Archived(log) => log.mark_of(offset),
        }
    }

    /// Appends at most `most` bytes from `offset` on; `Ok(0)` at the head.
    pub(super) fn read_at(&self, offset: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Gone> {
        match self {
            Self::Ring(ring) => ring.read_at(offset, most, out),
            Self::Archived(log) => log.read_at(offset, most, out),
        }
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        match self {
            Self::Ring(ring) => ring.exit(),
            Self::Archived(log) => Some(log.exit()),
        }
    }

    pub(super) fn generation(&self) -> u32 {
        match self {
            Self::Ring(ring) => ring.generation(),
            Self::Archived(log) => log.place().generation,
        }
    }

    pub(super) fn input_offset(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.input_offset(),
            Self::Archived(log) => log.place().input_offset,
        }
    }

    pub(super) fn resume_offset(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.resume_offset(),
            Self::Archived(log) => log.resume_offset(),
        }
    }

    pub(super) fn raise_resume_offset(&self, offset: u64) {
        match self {
            Self::Ring(ring) => ring.raise_resume_offset(offset),
            Self::Archived(log) => log.raise_resume_offset(offset),
        }
    }

    pub(super) fn add_input(&self, count: usize) {
        match self {
            Self::Ring(ring) => ring.add_input(count),
            Self::Archived(_) => {}
        }
    }

    pub(super) fn last_output_at_ms(&self) -> Option<u64> {
        match self {
            Self::Ring(ring) => {
                ring.marks().end.checked_sub(1).and_then(|newest| ring.mark(newest)).map(|mark| mark.at_ms)
            }
            Self::Archived(log) => log.place().last_output_at_ms,
        }
    }

    /// How far the program may run ahead of a hold; nothing runs ahead in an archive.
    pub(super) fn window(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.window(),
            Self::Archived(_) => u64::MAX / 2,
        }
    }

    pub(super) fn half_behind(&self, offset: u64) -> u64 {
        match self {
            Self::Ring(ring) => ring.half_behind(offset),
            Self::Archived(_) => offset,
        }
    }

    pub(super) fn hold_step(&self) -> u64 {
        match self {
            Self::Ring(ring) => ring.hold_step(),
            // Nothing depends on how often a hold moves that is one in name only.
            Self::Archived(_) => u64::MAX >> 1,
        }
    }

    pub(super) fn want_wake(&self) {
        match self {
            Self::Ring(ring) => ring.want_wake(),
            Self::Archived(_) => {}
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.is_blocked(),
            Self::Archived(_) => false,
        }
    }

    pub(super) fn take_hold(&self, token: Token, offset: u64, comes_back: bool) -> Option<bool> {
        match self {
            Self::Ring(ring) => ring.take_hold(token, offset, comes_back),
            Self::Archived(_) => Some(false),
        }
    }

    pub(super) fn advance_hold(&self, token: Token, offset: u64, reached: u64) -> Option<bool> {
        match self {
            Self::Ring(ring) => ring.advance_hold(token, offset, reached),
            Self::Archived(_) => Some(false),
        }
    }

    pub(super) fn holds(&self, token: Token) -> bool {
        match self {
            Self::Ring(ring) => ring.holds(token),
            Self::Archived(_) => true,
        }
    }

    pub(super) fn free_hold(&self, token: Token) -> bool {
        match self {
            Self::Ring(ring) => ring.free_hold(token),
            Self::Archived(_) => false,
        }
    }

    pub(super) fn leave_hold(&self, token: Token) {
        match self {
            Self::Ring(ring) => ring.leave_hold(token),
            Self::Archived(_) => {}
        }
    }
}
