//! The `browser` stage: the web client in a real browser against a live server.
//!
//! It exists as soon as `web/` is a package. The package's script `test:browser` takes `--base-url
//! URL` and ends with `N passed, M failed`, like a conformance suite.

use std::process::Command;

use crate::Result;
use crate::conformance;
use crate::repo::Repo;
use crate::tally::Tally;

pub(crate) fn exists(repo: &Repo) -> bool {
    repo.path("web/package.json").is_file()
}

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    if !exists(repo) {
        return Ok(Tally::skipped("web/ is no package yet"));
    }
    let folder = repo.path("web");
    conformance::set_up(&folder)?;
    let mut suite = Command::new("npm");
    suite.args(["run", "--silent", "test:browser", "--"]).current_dir(folder);
    conformance::against_server(repo, suite)
}
