//! `cargo xtask fuzz`: runs the targets in `fuzz/` one after the other, each for a while.
//!
//! They are a package of their own, built by cargo-fuzz with a nightly compiler; what is missing of these is named and
//! not installed. A target that finds something leaves it in `fuzz/artifacts/TARGET/`, and the next one is run.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::Result;
use crate::repo::Repo;
use crate::run;
use crate::stages::BUILD_LIMIT;

/// Long enough to pass through the seeds and find what is near them.
const DEFAULT_SECONDS: u64 = 60;

/// A target that needs more memory than this has found a way to fill it.
const MEMORY: &str = "-rss_limit_mb=2048";

/// An input that takes this many seconds is a finding.
const SLOW: &str = "-timeout=10";

/// Starting up, and minimizing what was found.
const SLACK: Duration = Duration::from_secs(120);

const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// What the developer asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    seconds: u64,
    /// Empty for all.
    targets: Vec<String>,
}

pub(crate) fn wish(words: &[&str]) -> Result<Wish> {
    let mut wish = Wish { seconds: DEFAULT_SECONDS, targets: Vec::new() };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let seconds = match word.strip_prefix("--seconds") {
            Some("") => Some(*words.next().ok_or("--seconds needs a number")?),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        match seconds {
            Some(text) => {
                let number = text.parse().ok().filter(|number| *number > 0);
                wish.seconds = number.ok_or_else(|| format!("`{text}` is not a number of seconds"))?;
            }
            None if word.starts_with('-') => return Err(format!("unknown argument `{word}`").into()),
            None => wish.targets.push(word.to_owned()),
        }
    }
    Ok(wish)
}

pub(crate) fn run(repo: &Repo, wish: &Wish) -> Result<ExitCode> {
    let known = targets(repo)?;
    if let Some(unknown) = wish.targets.iter().find(|target| !known.contains(target)) {
        return Err(format!("no target `{unknown}`; there are: {}", known.join(", ")).into());
    }
    find_tools(repo)?;
    run::check(&mut cargo_fuzz(repo, &["build"]), BUILD_LIMIT)?;
    let chosen = if wish.targets.is_empty() { &known } else { &wish.targets };
    let mut failed = Vec::new();
    for target in chosen {
        println!("\n=== {target}");
        let time = format!("-max_total_time={}", wish.seconds);
        let mut command = cargo_fuzz(repo, &["run", target, "--", &time, MEMORY, SLOW, "-print_final_stats=1"]);
        if let Err(error) = run::check(&mut command, Duration::from_secs(wish.seconds) + SLACK) {
            println!("=== {target}: {error}");
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        println!("\nfound something: {}; see fuzz/artifacts/", failed.join(", "));
    }
    println!("\n{} passed, {} failed", chosen.len() - failed.len(), failed.len());
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One per file.
fn targets(repo: &Repo) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for item in fs::read_dir(repo.path("fuzz/fuzz_targets"))? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn find_tools(repo: &Repo) -> Result<()> {
    let answers = |command: &mut Command| run::output(command, VERSION_LIMIT).is_ok();
    if !answers(nightly(repo).arg("--version")) {
        return Err("fuzzing needs a nightly compiler: rustup toolchain install nightly".into());
    }
    if !answers(&mut cargo_fuzz(repo, &["--version"])) {
        return Err("fuzzing needs cargo-fuzz: cargo install cargo-fuzz --locked".into());
    }
    Ok(())
}

fn cargo_fuzz(repo: &Repo, arguments: &[&str]) -> Command {
    let mut command = nightly(repo);
    // Not among the other builds: everything is compiled in another way.
    command.arg("fuzz").args(arguments).env("CARGO_TARGET_DIR", repo.target("fuzz"));
    command
}

/// The `cargo` that runs us belongs to one toolchain and knows no `+nightly`.
fn nightly(repo: &Repo) -> Command {
    let mut command = repo.command("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(words: &[&str]) -> (u64, Vec<String>) {
        let wish = wish(words).unwrap();
        (wish.seconds, wish.targets)
    }

    #[test]
    fn seconds_and_targets_are_understood() {
        assert_eq!(wished(&[]), (DEFAULT_SECONDS, Vec::new()));
        assert_eq!(wished(&["--seconds", "5", "door"]), (5, vec!["door".to_owned()]));
        assert_eq!(wished(&["door", "sse", "--seconds=7"]), (7, vec!["door".to_owned(), "sse".to_owned()]));
    }

    #[test]
    fn bad_arguments_are_refused() {
        for words in [&["--seconds"][..], &["--seconds", "0"], &["--seconds=x"], &["--secondsx"], &["--all"]] {
            assert!(wish(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn every_target_has_seeds_and_an_entry() {
        let repo = Repo::find().unwrap();
        let manifest = fs::read_to_string(repo.path("fuzz/Cargo.toml")).unwrap();
        for target in targets(&repo).unwrap() {
            assert!(repo.path("fuzz/corpus").join(&target).is_dir(), "{target} has no seeds");
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in fuzz/Cargo.toml");
        }
    }
}
