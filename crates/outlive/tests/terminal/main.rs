//! Sockets: terminals and pipes, several clients, sizes, resumption, and how they end.

#![allow(clippy::unwrap_used, reason = "a test")]

mod attached;
mod bytes;
mod ends;
mod foreground;
#[path = "../harness/mod.rs"]
mod harness;
mod resumption;
mod sandbox_agent;
mod several_clients;
mod sizes;
