//! The `web` stage: the TypeScript packages, built and tested against live servers, and repaints, measured against xterm.js.

use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

/// Two minutes, half of them for the repaints.
const SUITE_LIMIT: Duration = Duration::from_secs(8 * 60);

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let folder = repo.path("web");
    conformance::set_up(&folder)?;
    let repaints = repo.debug_binary().with_file_name("examples").join("repaint");
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary());
    suite.arg("--repaints").arg(repaints).current_dir(folder);
    Ok(Tally::of_suite(&run::capture(&mut suite, SUITE_LIMIT)?))
}
