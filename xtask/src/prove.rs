//! `cargo xtask prove NAME`: proofs that take too long for every run of the tests.
//!
//! Each proof has a reduced version in `cargo xtask test`, which takes seconds; [`Proof::reduced`] names it. A proof
//! prints what it does and ends with `proved: …`, or fails. Proofs that measure run the shipped binary through the
//! `bench/` package, which also compares the results with their targets. The others repeat a test more often.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::repo::Repo;
use crate::tally::Tally;
use crate::{Result, bench, fuzz, run};

/// How often a test repeats itself. Tests read it; without it they do the reduced number.
const ROUNDS_VARIABLE: &str = "OUTLIVE_PROVE_ROUNDS";

/// A developer watches a proof; this ends one that was forgotten.
const PROOF_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

struct Proof {
    name: &'static str,
    /// Completes `proved: `.
    claim: &'static str,
    /// The test of the default run that does the same with less.
    reduced: &'static str,
    method: Method,
}

enum Method {
    /// Repeats the tests whose name contains `filter` for this many rounds.
    Test { package: &'static str, target: &'static [&'static str], filter: &'static str, rounds: u32, release: bool },
    /// Runs `outlive-bench prove NAME` against the shipped binary.
    Measure,
}

const PROOFS: &[Proof] = &[
    Proof {
        name: "history-model",
        claim: "after random writes, faults and crashes the store equals a naive model or names the gap",
        reduced: "the tests `model` of outlive-history",
        method: Method::Test {
            package: "outlive-history",
            target: &["--test", "model"],
            filter: "",
            rounds: 10_000,
            release: true,
        },
    },
    Proof {
        name: "history-crash",
        claim: "after 100 power losses every process is listed once and its output is an exact prefix",
        reduced: "tests/crash, history::",
        method: Method::Test {
            package: "outlive",
            target: &["--test", "crash"],
            filter: "history::power_losses",
            rounds: 100,
            release: false,
        },
    },
    Proof {
        name: "history-speed",
        claim: "storing output keeps the program's rate, the memory, the disk and the read times within their targets",
        reduced: "tests/history, speed::",
        method: Method::Measure,
    },
    Proof {
        name: "history-flood",
        claim: "a flood keeps half of its rate, without a gap while the disk keeps up",
        reduced: "tests/history, speed::",
        method: Method::Measure,
    },
];

/// The arguments of `cargo xtask prove`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    List,
    Proof(&'static str),
    /// A fuzz target for this many minutes.
    Fuzz {
        target: String,
        minutes: u64,
    },
}

pub(crate) fn parse_arguments(words: &[&str]) -> Result<Arguments> {
    match words {
        ["--list"] => Ok(Arguments::List),
        ["fuzz", target, minutes] => {
            let minutes = minutes.parse().ok().filter(|minutes| *minutes > 0);
            let minutes = minutes.ok_or("`prove fuzz TARGET MINUTES` needs a number of minutes")?;
            Ok(Arguments::Fuzz { target: (*target).to_owned(), minutes })
        }
        [name] => match PROOFS.iter().find(|proof| proof.name == *name) {
            Some(proof) => Ok(Arguments::Proof(proof.name)),
            None => Err(format!("no proof `{name}`; there are: {}", names().join(", ")).into()),
        },
        _ => Err("`prove` needs the name of a proof, or --list".into()),
    }
}

fn names() -> Vec<&'static str> {
    PROOFS.iter().map(|proof| proof.name).chain(["fuzz TARGET MINUTES"]).collect()
}

pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let claim = match arguments {
        Arguments::List => {
            list();
            return Ok(ExitCode::SUCCESS);
        }
        Arguments::Fuzz { target, minutes } => {
            let seconds = (minutes * 60).to_string();
            if fuzz::run(repo, &fuzz::parse_arguments(&["--seconds", &seconds, target])?)? != ExitCode::SUCCESS {
                return Err(format!("`{target}` has a finding").into());
            }
            format!("{minutes} minutes of fuzzing `{target}` find nothing")
        }
        Arguments::Proof(name) => {
            let proof = PROOFS.iter().find(|proof| proof.name == *name).ok_or("the proof is not listed")?;
            match &proof.method {
                Method::Test { package, target, filter, rounds, release } => {
                    repeat_tests(repo, package, target, filter, *rounds, *release)?;
                }
                Method::Measure => bench::prove(repo, proof.name)?,
            }
            proof.claim.to_owned()
        }
    };
    println!("\nproved: {claim} ({:.0} s)", started.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn list() {
    for proof in PROOFS {
        println!("{:<20} {}\n{:<20} in every run: {}", proof.name, proof.claim, "", proof.reduced);
    }
    println!("{:<20} a fuzz target finds nothing in MINUTES\n{:<20} in every run: it compiles", "fuzz", "");
}

fn repeat_tests(repo: &Repo, package: &str, target: &[&str], filter: &str, rounds: u32, release: bool) -> Result<()> {
    let mut cargo: Command = repo.cargo(["test", "--package", package]);
    if release {
        cargo.arg("--release");
    }
    cargo.args(target).args(["--", "--nocapture", filter]).env(ROUNDS_VARIABLE, rounds.to_string());
    println!("{rounds} rounds of `{} {filter}` in {package}", target.join(" "));
    let tally = Tally::from_cargo_test(&run::capture(&mut cargo, PROOF_TIMEOUT)?);
    if tally.failed > 0 {
        return Err(format!("not proved: {}", tally.notes.join("; ")).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_fuzz_targets_and_the_list_are_parsed() {
        assert_eq!(parse_arguments(&["--list"]).unwrap(), Arguments::List);
        assert_eq!(parse_arguments(&["history-crash"]).unwrap(), Arguments::Proof("history-crash"));
        let fuzz = Arguments::Fuzz { target: "sse".to_owned(), minutes: 10 };
        assert_eq!(parse_arguments(&["fuzz", "sse", "10"]).unwrap(), fuzz);
    }

    #[test]
    fn an_unknown_proof_is_named_together_with_the_known_ones() {
        let error = parse_arguments(&["nonsense"]).unwrap_err().to_string();
        assert!(error.contains("`nonsense`") && error.contains("history-model"), "{error}");
        for words in [&[][..], &["fuzz", "sse"], &["fuzz", "sse", "0"], &["history-crash", "twice"]] {
            assert!(parse_arguments(words).is_err(), "{words:?}");
        }
    }
}
