//! Sessions: the cases of the specification in every shell, and what does not depend on the shell.
//!
//! All four shells must be installed (Debian: bash, dash, zsh, busybox); `cargo xtask test` installs missing ones.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod api;
mod association;
mod cancel;
mod cleanup;
mod cli;
mod exit_policy;
#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod processes;
mod shells;
mod side_effects;
mod spec;
mod spec_commands;
mod spec_concurrency;

use shells::Shell;

#[test]
fn bash_behaves_as_specified() {
    spec::run(Shell::Bash);
}

#[test]
fn dash_behaves_as_specified() {
    spec::run(Shell::Dash);
}

#[test]
fn zsh_behaves_as_specified() {
    spec::run(Shell::Zsh);
}

#[test]
fn busybox_behaves_as_specified() {
    spec::run(Shell::Ash);
}
