//! The repository's own tool: `cargo xtask COMMAND`.
//!
//! It owns the order in which everything is checked and the way the shipped binary is built. It
//! depends on the standard library alone, so that it builds in seconds on a machine that has
//! nothing but Rust.
//!
//! `main` reads the command line, `stages` runs the checks one after the other, and every other
//! module knows one subject: a stage, a file format, or how to start a process and surely end it.
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
use crate::stages::Choice;

/// Every failure ends as one line for a developer: no caller tells them apart.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The command line or the repository does not allow what was asked for.
const EXIT_USAGE: u8 = 2;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--quick] [--only STAGE]...   run all checks, or the named stages
  dist                               build the static binary into dist/
  bench [ARGS...]                    measure a release build; `bench --help` says how
  openapi                            write openapi.json from the binary
  fuzz [--seconds N] [TARGET]...     feed the parsers with garbage, each target for a minute

--quick leaves out the slow stages and installs no tools but missing shells;
a stage named by --only is never left out.";

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
        "test" => match choose(rest) {
            Ok(choice) => Ok(stages::run(repo, &choice)),
            Err(error) => Ok(refuse(&error.to_string())),
        },
        "bench" => bench::run(repo, rest),
        "fuzz" => match fuzz::wish(rest) {
            Ok(wish) => fuzz::run(repo, &wish),
            Err(error) => Ok(refuse(&error.to_string())),
        },
        "dist" | "openapi" if !rest.is_empty() => Ok(refuse(&format!("`{command}` takes no arguments"))),
        "dist" => dist::build(repo).map(|_| ExitCode::SUCCESS),
        "openapi" => openapi::write(repo).map(|()| ExitCode::SUCCESS),
        "help" | "--help" | "-h" => {
            println!("{USAGE}\n\nstages: {}", stages::names().join(", "));
            Ok(ExitCode::SUCCESS)
        }
        other => Ok(refuse(&format!("unknown command `{other}`"))),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("error: {why}\n\n{USAGE}");
    ExitCode::from(EXIT_USAGE)
}

fn choose(words: &[&str]) -> Result<Choice> {
    let mut choice = Choice::default();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => choice.quick = true,
            "--only" => {
                let name = *words.next().ok_or("--only needs the name of a stage")?;
                choice.add_only(name)?;
            }
            other => match other.strip_prefix("--only=") {
                Some(name) => choice.add_only(name)?,
                None => return Err(format!("unknown argument `{other}`").into()),
            },
        }
    }
    Ok(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_only_are_understood() {
        let choice = choose(&["--quick", "--only", "unit", "--only=deny"]).unwrap();
        assert!(choice.quick);
        assert_eq!(choice.only, ["unit", "deny"]);
    }

    #[test]
    fn an_unknown_stage_is_named_together_with_the_known_ones() {
        let error = choose(&["--only", "nonsense"]).unwrap_err().to_string();
        assert!(error.contains("`nonsense`"), "{error}");
        assert!(error.contains("clippy"), "{error}");
    }

    #[test]
    fn bad_arguments_are_refused() {
        assert!(choose(&["--only"]).is_err());
        assert!(choose(&["--fast"]).is_err());
    }
}
