//! `cargo xtask fuzz`: runs the targets in `fuzz/` one after the other, each for a while.
//!
//! The targets are a package of their own, built by cargo-fuzz with a nightly compiler; a missing tool is named and
//! not installed. A target that fails leaves its input in `fuzz/artifacts/TARGET/`, and the next target runs. The
//! `fuzz` stage of `cargo xtask test` only compiles the targets, with the stable compiler.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::Result;
use crate::repo::Repo;
use crate::run;
use crate::stages::BUILD_TIMEOUT;
use crate::tally::Tally;

/// Long enough to pass through the seeds and find what is near them.
const DEFAULT_SECONDS: u64 = 60;

/// A target that needs more memory than this is a finding.
const MEMORY_LIMIT: &str = "-rss_limit_mb=2048";

/// An input that takes this many seconds is a finding.
const INPUT_TIMEOUT: &str = "-timeout=10";

/// Starting up, and minimizing a finding.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(120);

const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments of `cargo xtask fuzz`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    seconds: u64,
    /// Empty for all.
    targets: Vec<String>,
}

pub(crate) fn parse_arguments(words: &[&str]) -> Result<Arguments> {
    let mut arguments = Arguments { seconds: DEFAULT_SECONDS, targets: Vec::new() };
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
                arguments.seconds = number.ok_or_else(|| format!("`{text}` is not a number of seconds"))?;
            }
            None if word.starts_with('-') => return Err(format!("unknown argument `{word}`").into()),
            None => arguments.targets.push(word.to_owned()),
        }
    }
    Ok(arguments)
}

pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<ExitCode> {
    let known = targets(repo)?;
    if let Some(unknown) = arguments.targets.iter().find(|target| !known.contains(target)) {
        return Err(format!("no target `{unknown}`; there are: {}", known.join(", ")).into());
    }
    find_tools(repo)?;
    run::check(&mut cargo_fuzz(repo, &["build"]), BUILD_TIMEOUT)?;
    let chosen = if arguments.targets.is_empty() { &known } else { &arguments.targets };
    let mut failed = Vec::new();
    for target in chosen {
        println!("\n=== {target}");
        let time = format!("-max_total_time={}", arguments.seconds);
        let mut command =
            cargo_fuzz(repo, &["run", target, "--", &time, MEMORY_LIMIT, INPUT_TIMEOUT, "-print_final_stats=1"]);
        if let Err(error) = run::check(&mut command, Duration::from_secs(arguments.seconds) + EXTRA_TIMEOUT) {
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

/// Compiles every target, so that a change of what they call cannot go unnoticed.
pub(crate) fn check(repo: &Repo) -> Result<Tally> {
    let mut cargo = repo.cargo(["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"]);
    cargo.env("CARGO_TARGET_DIR", repo.target("fuzz")).env("RUSTFLAGS", "--cfg fuzzing");
    // Nothing is linked, so libFuzzer itself need not be compiled.
    cargo.env("CUSTOM_LIBFUZZER_PATH", "/nonexistent/libfuzzer.a");
    run::check(&mut cargo, BUILD_TIMEOUT)?;
    Ok(Tally::passed())
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
    let works = |command: &mut Command| run::output(command, VERSION_TIMEOUT).is_ok();
    if !works(nightly(repo).arg("--version")) {
        return Err("fuzzing needs a nightly compiler: rustup toolchain install nightly".into());
    }
    if !works(&mut cargo_fuzz(repo, &["--version"])) {
        return Err("fuzzing needs cargo-fuzz: cargo install cargo-fuzz --locked".into());
    }
    Ok(())
}

fn cargo_fuzz(repo: &Repo, arguments: &[&str]) -> Command {
    let mut command = nightly(repo);
    // A directory of its own: other flags would rebuild everything each time.
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

    fn parsed(words: &[&str]) -> (u64, Vec<String>) {
        let arguments = parse_arguments(words).unwrap();
        (arguments.seconds, arguments.targets)
    }

    #[test]
    fn seconds_and_targets_are_parsed() {
        assert_eq!(parsed(&[]), (DEFAULT_SECONDS, Vec::new()));
        assert_eq!(parsed(&["--seconds", "5", "origin_policy"]), (5, vec!["origin_policy".to_owned()]));
        assert_eq!(
            parsed(&["origin_policy", "sse", "--seconds=7"]),
            (7, vec!["origin_policy".to_owned(), "sse".to_owned()])
        );
    }

    #[test]
    fn bad_arguments_are_refused() {
        for words in [&["--seconds"][..], &["--seconds", "0"], &["--seconds=x"], &["--secondsx"], &["--all"]] {
            assert!(parse_arguments(words).is_err(), "{words:?}");
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
