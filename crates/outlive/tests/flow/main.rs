//! Flow: every byte for those who want every byte, and nobody held up for longer than promised.
//!
//! Programs print consecutive numbers of nine digits, so that every byte follows from its offset.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod acknowledged;
mod behind;
mod counting;
mod cut_off;
mod every_byte;
#[path = "../harness/mod.rs"]
mod harness;
mod meanwhile;
mod not_held_up;
