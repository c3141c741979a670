//! The `browser` stage: a real browser against live servers.
//!
//! `browser/` is a package whose entry, `run.mjs`, is given the binary, starts servers of its own and ends with
//! `N passed, M failed`, like a conformance suite. It takes Chromium from the path (`debian` gets it there).

use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::debian::{self, Need};
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

/// The same names in the same order as in `browser/chromium.mjs`.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Measured on two cores that were busy compiling: less than four minutes for `shown`, of which some checks look at half a minute
/// each, and less than three for the others.
const SUITE_LIMIT: Duration = Duration::from_secs(12 * 60);

pub(crate) fn exists(repo: &Repo) -> bool {
    repo.path("browser/package.json").is_file()
}

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    if !exists(repo) {
        return Ok(Tally::skipped("browser/ is no package"));
    }
    debian::provide(&[Need { package: "chromium", programs: &PROGRAMS }])?;
    let folder = repo.path("browser");
    conformance::set_up(&folder)?;
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary()).current_dir(folder);
    Ok(Tally::of_suite(&run::capture(&mut suite, SUITE_LIMIT)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_looks_for_the_same_programs() {
        let suite = include_str!("../../browser/chromium.mjs");
        let names = PROGRAMS.map(|name| format!("'{name}'")).join(", ");
        assert!(suite.contains(&format!("[{names}]")), "browser/chromium.mjs has another list");
    }
}
