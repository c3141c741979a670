//! The `web` stage: builds the TypeScript packages, tests them against live servers, and compares repaints with
//! xterm.js.

use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

/// Two minutes, half of them for the repaints.
const SUITE_TIMEOUT: Duration = Duration::from_secs(8 * 60);

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let directory = repo.path("web");
    conformance::set_up(&directory)?;
    let repaints = repo.debug_binary().with_file_name("examples").join("repaint");
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary());
    suite.arg("--repaints").arg(repaints).current_dir(directory);
    Ok(Tally::from_suite(&run::capture(&mut suite, SUITE_TIMEOUT)?))
}
