//! The repository's own tool: `cargo xtask COMMAND`.
//!
//! It owns the order in which everything is checked and the way the shipped binary is built. It
//! depends on the standard library alone, so that it builds in seconds on a machine that has
//! nothing but Rust.
//!
//! `main` parses the command line, `stages` runs the checks one after the other, and every other
//! module has one subject: a stage, a file format, or starting a process and making sure that it ends.
#![allow(clippy::print_stdout, reason = "a command line tool for developers: printing is its job")]

mod bench;
mod browser;
mod conformance;
mod debian;
mod deny;
mod dist;
mod elf;
mod fuzz;
mod openapi;
mod prove;
mod repo;
mod run;
mod scratch;
mod server;
mod stages;
mod suites;
mod tally;
mod tree;
mod web;

use std::error::Error;
use std::process::ExitCode;

use crate::repo::Repo;
use crate::stages::Selection;

/// Every failure is printed as one line for a developer; no caller distinguishes them.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Exit code of a bad command line.
const EXIT_USAGE: u8 = 2;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--quick] [--only STAGE]...   run all checks, or the named stages
  dist                               build the static binary into dist/
  bench [ARGS...]                    measure a release build; `bench --help` says how
  openapi                            write openapi.json from the binary
  fuzz [--seconds N] [TARGET]...     fuzz the parsers, each target for a minute
  prove NAME | prove --list          run a proof that takes minutes, or list them

--quick skips the slow stages and installs no tools but missing shells;
a stage named by --only is never skipped.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words = arguments.iter().map(String::as_str);
    let command = words.next().unwrap_or("help");
    let rest: Vec<&str> = words.collect();

    let done = Repo::find().and_then(|repo| dispatch(&repo, command, &rest));
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(repo: &Repo, command: &str, rest: &[&str]) -> Result<ExitCode> {
    match command {
        "test" => match parse_selection(rest) {
            Ok(selection) => Ok(stages::run(repo, &selection)),
            Err(error) => Ok(usage_error(&error.to_string())),
        },
        "bench" => bench::run(repo, rest),
        "fuzz" => match fuzz::parse_arguments(rest) {
            Ok(arguments) => fuzz::run(repo, &arguments),
            Err(error) => Ok(usage_error(&error.to_string())),
        },
        "prove" => match prove::parse_arguments(rest) {
            Ok(arguments) => prove::run(repo, &arguments),
            Err(error) => Ok(usage_error(&error.to_string())),
        },
        "dist" | "openapi" if !rest.is_empty() => Ok(usage_error(&format!("`{command}` takes no arguments"))),
        "dist" => dist::build(repo).map(|_| ExitCode::SUCCESS),
        "openapi" => openapi::write(repo).map(|()| ExitCode::SUCCESS),
        "help" | "--help" | "-h" => {
            println!("{USAGE}\n\nstages: {}", stages::names().join(", "));
            Ok(ExitCode::SUCCESS)
        }
        other => Ok(usage_error(&format!("unknown command `{other}`"))),
    }
}

fn usage_error(why: &str) -> ExitCode {
    eprintln!("error: {why}\n\n{USAGE}");
    ExitCode::from(EXIT_USAGE)
}

fn parse_selection(words: &[&str]) -> Result<Selection> {
    let mut selection = Selection::default();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => selection.quick = true,
            "--only" => {
                let name = *words.next().ok_or("--only needs the name of a stage")?;
                selection.add_only(name)?;
            }
            other => match other.strip_prefix("--only=") {
                Some(name) => selection.add_only(name)?,
                None => return Err(format!("unknown argument `{other}`").into()),
            },
        }
    }
    Ok(selection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_only_are_accepted() {
        let selection = parse_selection(&["--quick", "--only", "unit", "--only=deny"]).unwrap();
        assert!(selection.quick);
        assert_eq!(selection.only, ["unit", "deny"]);
    }

    #[test]
    fn an_unknown_stage_is_named_together_with_the_known_ones() {
        let error = parse_selection(&["--only", "nonsense"]).unwrap_err().to_string();
        assert!(error.contains("`nonsense`"), "{error}");
        assert!(error.contains("clippy"), "{error}");
    }

    #[test]
    fn bad_arguments_are_refused() {
        assert!(parse_selection(&["--only"]).is_err());
        assert!(parse_selection(&["--fast"]).is_err());
    }
}
