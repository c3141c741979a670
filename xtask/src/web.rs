//! The `web` stage: the TypeScript packages, built and tested against live servers.

use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

const SUITE_LIMIT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let folder = repo.path("web");
    conformance::set_up(&folder)?;
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary()).current_dir(folder);
    Ok(Tally::of_suite(&run::capture(&mut suite, SUITE_LIMIT)?))
}
