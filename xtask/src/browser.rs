//! The `browser` stage: a real browser against live servers.
//!
//! `browser/` is a package whose entry, `run.mjs`, is given the binary, starts servers of its own and ends with
//! `N passed, M failed`, like a conformance suite. It takes Chromium from the path; where there is none, root gets
//! Debian's.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::conformance;
use crate::repo::{self, Repo};
use crate::run;
use crate::tally::Tally;

/// The same names in the same order as in `browser/chromium.mjs`.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Some hundred megabytes over a slow network.
const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Measured: less than three minutes on two cores that were busy compiling.
const SUITE_LIMIT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn exists(repo: &Repo) -> bool {
    repo.path("browser/package.json").is_file()
}

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    if !exists(repo) {
        return Ok(Tally::skipped("browser/ is no package"));
    }
    let is_there = PROGRAMS.iter().any(|program| repo::in_path(program).is_some());
    match Browser::of(is_there, is_root(), repo::in_path("apt-get").is_some()) {
        Browser::Ready => {}
        Browser::CanBeInstalled => install()?,
        Browser::Missing => {
            let names = PROGRAMS.join(", ");
            let why = format!("there is none of {names}: install Chromium, or run this as root on Debian");
            return Ok(Tally::failed(why));
        }
    }
    let folder = repo.path("browser");
    conformance::set_up(&folder)?;
    let mut suite = Command::new("node");
    suite.args(["run.mjs", "--binary"]).arg(repo.debug_binary()).current_dir(folder);
    Ok(Tally::of_suite(&run::capture(&mut suite, SUITE_LIMIT)?))
}

#[derive(Debug, PartialEq, Eq)]
enum Browser {
    Ready,
    CanBeInstalled,
    Missing,
}

impl Browser {
    fn of(is_there: bool, is_root: bool, has_apt: bool) -> Self {
        match (is_there, is_root && has_apt) {
            (true, _) => Self::Ready,
            (false, true) => Self::CanBeInstalled,
            (false, false) => Self::Missing,
        }
    }
}

fn install() -> Result<()> {
    println!("installing chromium, which takes a minute once");
    for arguments in [&["update"][..], &["install", "-y", "chromium"]] {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::check(&mut apt, INSTALL_LIMIT)?;
    }
    Ok(())
}

/// A process owns its own folder in /proc.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_is_there_is_taken() {
        for (is_root, has_apt) in [(false, false), (true, true)] {
            assert_eq!(Browser::of(true, is_root, has_apt), Browser::Ready);
        }
    }

    #[test]
    fn only_root_on_debian_gets_one_installed() {
        assert_eq!(Browser::of(false, true, true), Browser::CanBeInstalled);
        assert_eq!(Browser::of(false, false, true), Browser::Missing);
        assert_eq!(Browser::of(false, true, false), Browser::Missing);
    }

    #[test]
    fn the_suite_looks_for_the_same_programs() {
        let suite = include_str!("../../browser/chromium.mjs");
        let names = PROGRAMS.map(|name| format!("'{name}'")).join(", ");
        assert!(suite.contains(&format!("[{names}]")), "browser/chromium.mjs has another list");
    }
}
