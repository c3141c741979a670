//! The Rust tests, in three stages.
//!
//! `unit` are the tests inside the crates. The files in `crates/*/tests` are
//! discovered, so a new file needs no entry anywhere: those whose name begins with `crash` kill
//! the server for minutes and are a stage of their own, all others are `integration`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Result;
use crate::debian::Package;
use crate::repo::Repo;
use crate::run;
use crate::tally::Tally;

/// Compiling the tests included. A stage that hangs must leave time for the others.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

const CRASH: &str = "crash";

/// The session tests run in each of these shells.
pub(crate) const SHELLS: &[Package] = &[
    Package { name: "bash", programs: &["bash"] },
    Package { name: "dash", programs: &["dash"] },
    Package { name: "zsh", programs: &["zsh"] },
    Package { name: "busybox", programs: &["busybox"] },
];

pub(crate) fn unit(repo: &Repo) -> Result<Tally> {
    test(repo, &["--lib", "--bins"])
}

pub(crate) fn integration(repo: &Repo) -> Result<Tally> {
    files(repo, |name| !name.starts_with(CRASH))
}

pub(crate) fn crash(repo: &Repo) -> Result<Tally> {
    files(repo, |name| name.starts_with(CRASH))
}

fn files(repo: &Repo, belongs: fn(&str) -> bool) -> Result<Tally> {
    let names = discover(&repo.path("crates"))?;
    let chosen: Vec<&str> = names.iter().map(String::as_str).filter(|name| belongs(name)).collect();
    if chosen.is_empty() {
        return Ok(Tally::skipped("there are no such test files"));
    }
    let arguments: Vec<&str> = chosen.into_iter().flat_map(|name| ["--test", name]).collect();
    test(repo, &arguments)
}

fn test(repo: &Repo, selection: &[&str]) -> Result<Tally> {
    let mut cargo = repo.cargo(["test", "--workspace", "--no-fail-fast"]);
    let finished = run::capture(cargo.args(selection), TIMEOUT)?;
    Ok(Tally::from_cargo_test(&finished))
}

/// The names of all integration tests, by cargo's rule: `tests/NAME.rs` and `tests/NAME/main.rs`.
fn discover(crates: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for package in fs::read_dir(crates)? {
        let directory = package?.path().join("tests");
        if !directory.is_dir() {
            continue;
        }
        for item in fs::read_dir(directory)? {
            let path = item?.path();
            let is_test = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
            if let (true, Some(name)) = (is_test, path.file_stem().and_then(|name| name.to_str())) {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn files_and_directories_with_a_main_are_tests_and_shared_code_is_not() {
        let scratch = Scratch::new().unwrap();
        let tests = scratch.path().join("one/tests");
        fs::create_dir_all(tests.join("harness")).unwrap();
        fs::create_dir_all(tests.join("crash_kill")).unwrap();
        fs::create_dir_all(scratch.path().join("two/src")).unwrap();
        for file in ["http.rs", "README.md", "harness/mod.rs", "crash_kill/main.rs"] {
            fs::write(tests.join(file), "").unwrap();
        }
        let names: Vec<String> = discover(scratch.path()).unwrap().into_iter().collect();
        assert_eq!(names, ["crash_kill", "http"]);
    }
}
