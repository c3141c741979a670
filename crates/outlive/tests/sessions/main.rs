//! Persistent shells: the cases of the specification on every shell, and what they have in common.
//!
//! All four shells have to be there (Debian: bash, dash, zsh, busybox); `cargo xtask test` gets those that are missing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod association;
mod calls;
mod cases;
mod cases_of_time;
mod cli;
#[path = "../harness/mod.rs"]
mod harness;
mod interrupts;
mod leftovers;
mod policies;
mod remembered;
mod shells;
mod starts;
mod table;
mod trace;

use shells::Shell;

#[test]
fn bash_behaves_as_specified() {
    table::run(Shell::Bash);
}

#[test]
fn dash_behaves_as_specified() {
    table::run(Shell::Dash);
}

#[test]
fn zsh_behaves_as_specified() {
    table::run(Shell::Zsh);
}

#[test]
fn busybox_behaves_as_specified() {
    table::run(Shell::Ash);
}
