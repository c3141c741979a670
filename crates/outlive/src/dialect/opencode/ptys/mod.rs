//! OpenCode's terminals. Every process on a terminal is one, including those that another surface started.

pub(super) mod handlers;
mod info;
mod lifecycle;

use std::sync::Arc;

use outlive_core::Core;
use outlive_core::process::Process;

pub(super) use self::info::PtyInfo;
#[cfg(any(fuzzing, test))]
pub(super) use self::lifecycle::fuzz;
pub(super) use self::lifecycle::resume_removals;
use super::error::Failure;
use super::ids;
use super::location::Location;

/// Annotation: the directory that the client named at creation, by which lists are filtered.
const DIRECTORY: &str = "opencode.directory";
/// Annotation: a client has deleted the terminal. It is hidden from this dialect while its process tree is ended.
const DELETED: &str = "opencode.deleted";

/// V2 lists at most this many exited terminals, the latest ones.
const MAX_EXITED: usize = 25;

/// The terminal with this id, running or exited.
pub(super) fn find(core: &Core, location: &Location, id: &str) -> Result<Arc<Process>, Failure> {
    if !id.starts_with("pty") {
        return Err(Failure::invalid_id("ptyID", "pty", id));
    }
    let found = ids::process_id(id).and_then(|id| core.find(&id).ok());
    let found = found.filter(|process| {
        let info = PtyInfo::from_process(process);
        info.is_visible() && location.covers(&info.directory())
    });
    found.ok_or_else(|| Failure::pty_not_found(id))
}

fn find_running(core: &Core, location: &Location, id: &str) -> Result<Arc<Process>, Failure> {
    let process = find(core, location, id)?;
    if PtyInfo::from_process(&process).has_exited() { Err(Failure::pty_not_found(id)) } else { Ok(process) }
}

/// The terminals of a location in order of creation, with or without exited ones.
fn list(core: &Core, location: &Location, with_exited: bool) -> Vec<PtyInfo> {
    let terminals = core.list(false).into_iter().filter(|process| process.is_terminal());
    let mut infos: Vec<PtyInfo> = terminals.map(|process| PtyInfo::from_process(&process)).collect();
    infos.retain(|info| info.is_visible() && location.covers(&info.directory()));
    let exited = infos.iter().filter(|info| info.has_exited()).count();
    let mut surplus = if with_exited { exited.saturating_sub(MAX_EXITED) } else { exited };
    infos.retain(|info| {
        let is_dropped = info.has_exited() && surplus > 0;
        surplus -= usize::from(is_dropped);
        !is_dropped
    });
    infos
}
