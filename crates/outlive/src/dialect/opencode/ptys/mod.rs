//! Terminals: every process on a terminal is one, wherever it was started.

mod create;
mod remove;
pub(super) mod rest;
mod seen;
mod shells;
mod update;

use std::sync::Arc;

use outlive_core::process::Process;

pub(super) use self::remove::go_on_removing;
pub(super) use self::seen::Seen;
pub(super) use self::shells::{default_shell, name as shell_name, shells};
use super::error::Failure;
use super::id;
use super::location::Location;
use crate::api::App;

/// The folder that its client named, by which it is found.
const DIRECTORY: &str = "opencode.directory";
/// Its client has deleted it: nobody finds it here any more, and its tree is being ended.
const DELETED: &str = "opencode.deleted";

/// Of terminals that have ended, as many are listed below `/api`, the latest.
const MOST_EXITED: usize = 25;

/// The terminal with this id, also one that has ended.
pub(super) fn find(app: &App, location: &Location, id: &str) -> Result<Arc<Process>, Failure> {
    if !id.starts_with("pty") {
        return Err(Failure::no_id("ptyID", "pty", id));
    }
    let found = id::to_process(id).and_then(|id| app.core.find(&id).ok());
    let found = found.filter(|process| {
        let seen = Seen::of(process);
        seen.is_shown() && location.covers(&seen.directory())
    });
    found.ok_or_else(|| Failure::no_terminal(id))
}

/// As `find`, but only one that runs.
fn find_running(app: &App, location: &Location, id: &str) -> Result<Arc<Process>, Failure> {
    find(app, location, id)
        .and_then(|process| if Seen::of(&process).has_ended() { Err(Failure::no_terminal(id)) } else { Ok(process) })
}

/// All of them in the order of their making; with those that ended, or without.
fn list(app: &App, location: &Location, with_exited: bool) -> Vec<Seen> {
    let all = app.core.list(false).into_iter().filter(|process| process.is_terminal());
    let mut all: Vec<Seen> = all.map(|process| Seen::of(&process)).collect();
    all.retain(|seen| seen.is_shown() && location.covers(&seen.directory()));
    let ended = all.iter().filter(|seen| seen.has_ended()).count();
    let mut surplus = if with_exited { ended.saturating_sub(MOST_EXITED) } else { ended };
    all.retain(|seen| {
        let dropped = seen.has_ended() && surplus > 0;
        surplus -= usize::from(dropped);
        !dropped
    });
    all
}
