//! Access control: tokens, scopes, tickets, the origin policy, network limits, and secrets that must not leak.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod console_assets;
#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod limits;
mod long_lived_tickets;
mod origin_policy;
mod routes;
mod secrets;
mod tickets;
mod tls;
mod token_cli;
mod tokens;
mod unix_socket;
