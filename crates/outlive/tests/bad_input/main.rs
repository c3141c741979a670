//! Bad input gets a clear answer: problem+json with a stable code, nothing half-made, never a 500, never a hang.

#![allow(clippy::unwrap_used, reason = "a test")]

mod addresses;
mod bodies;
mod garbage;
#[path = "../harness/mod.rs"]
mod harness;
mod impossible;
mod largest_numbers;
mod problem;
