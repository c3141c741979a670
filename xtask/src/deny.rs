//! The `deny` stage: licences, sources and known vulnerabilities of the dependencies.
//!
//! The tool is taken from the path or from `target/tools`, and installed there when it is missing
//! (about four minutes on two cores; `--quick` does not wait for that). The vulnerability database
//! lives on the network: when it cannot be fetched, the stage reports that check as skipped.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::Result;
use crate::repo::{self, Repo};
use crate::run;
use crate::tally::Tally;

const VERSION: &str = "0.20.2";

/// Measured: 3 min 20 s on two cores.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(12 * 60);

/// A check takes a second; the rest is for fetching the registry's index.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3 * 60);

/// The database is small. A network that drops packets must not hold up the run.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn stage(repo: &Repo, quick: bool) -> Result<Tally> {
    let tool = match find(repo) {
        Some(tool) => tool,
        None if quick => {
            return Ok(Tally::skipped("cargo-deny is not installed; a run without --quick installs it"));
        }
        None => install(repo)?,
    };
    let mut tally = check(repo, &tool, &["bans", "licenses", "sources"]);
    let mut fetch = repo.command(&tool);
    fetch.args(["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null());
    if run::check(&mut fetch, FETCH_TIMEOUT).is_ok() {
        tally += check(repo, &tool, &["advisories"]);
        return Ok(tally);
    }
    Ok(tally.note("advisories skipped: their database cannot be fetched"))
}

fn check(repo: &Repo, tool: &PathBuf, checks: &[&str]) -> Tally {
    let mut command = repo.command(tool);
    command.args(["check", "--hide-inclusion-graph"]).args(checks);
    match run::check(&mut command, CHECK_TIMEOUT) {
        Ok(()) => Tally::passed(),
        Err(error) => Tally::failed(error.to_string()),
    }
}

fn find(repo: &Repo) -> Option<PathBuf> {
    let own = installed(repo);
    if own.is_file() { Some(own) } else { repo::in_path("cargo-deny") }
}

fn install(repo: &Repo) -> Result<PathBuf> {
    println!("installing cargo-deny {VERSION}, which takes some minutes once");
    let mut cargo = repo.cargo(["install", "cargo-deny", "--version", VERSION, "--locked", "--quiet", "--debug"]);
    cargo.arg("--root").arg(repo.target("tools"));
    // A debug build without symbols is the fastest to make, and the tool runs for seconds.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    // Without this variable cargo builds in a temporary directory and removes it.
    cargo.env_remove("CARGO_TARGET_DIR");
    run::check(&mut cargo, INSTALL_TIMEOUT)?;
    Ok(installed(repo))
}

fn installed(repo: &Repo) -> PathBuf {
    repo.target("tools/bin/cargo-deny")
}
