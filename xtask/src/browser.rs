//! The `browser` stage: a real browser against live servers.
//!
//! `browser/` is a package whose entry, `run.mjs`, is given the binary, starts servers of its own and ends with
//! `N passed, M failed`, like a conformance suite. It takes Chromium from the path.

use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::debian::Package;
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

/// The same names in the same order as in `browser/chromium.mjs`.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

pub(crate) const CHROMIUM: &[Package] = &[Package { name: "chromium", programs: &PROGRAMS }];

/// Measured: six minutes on two cores that were busy compiling.
const SUITE_TIMEOUT: Duration = Duration::from_secs(12 * 60);

pub(crate) fn exists(repo: &Repo) -> bool {
    repo.path("browser/package.json").is_file()
}

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    if !exists(repo) {
        return Ok(Tally::skipped("browser/ has no package.json"));
    }
    let directory = repo.path("browser");
    conformance::set_up(&directory)?;
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary()).current_dir(directory);
    Ok(Tally::from_suite(&run::capture(&mut suite, SUITE_TIMEOUT)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_and_this_stage_search_for_the_same_programs() {
        let suite = include_str!("../../browser/chromium.mjs");
        let names = PROGRAMS.map(|name| format!("'{name}'")).join(", ");
        assert!(suite.contains(&format!("[{names}]")), "browser/chromium.mjs has another list");
    }
}
