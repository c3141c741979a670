//! Flow control: lossless readers get every byte, and a slow reader blocks its program for a bounded time only.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod acknowledgements;
#[path = "../harness/mod.rs"]
mod harness;
mod lossless;
mod no_backpressure;
mod numbered_output;
mod reconnect;
mod slow_readers;
