//! Who is let in, to what, and what stays secret.

#![allow(clippy::unwrap_used, reason = "a test")]

mod files;
#[path = "../harness/mod.rs"]
mod harness;
mod limits;
mod pages;
mod routes;
mod secrets;
mod tickets;
mod tokens;
mod unix_socket;
