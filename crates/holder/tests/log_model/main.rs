//! The log against a naive model, and its writer against readers on other threads.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod model;
mod pattern;
mod threads;
