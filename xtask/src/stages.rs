//! `cargo xtask test`: the list of stages, in the order in which they are worth knowing.
//!
//! A stage that fails does not stop the later ones: one run tells everything. Only the stages that
//! need the binary are not run when it could not be built, and count as failed. The last line of
//! the output is always `N passed, M failed`; CI reads it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::repo::Repo;
use crate::tally::Tally;
use crate::{Result, browser, conformance, deny, dist, run, suites, web};

/// A cold build of the whole workspace on two slow cores takes a few minutes.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

const BUILD: &str = "build";

struct Stage {
    name: &'static str,
    needs_binary: bool,
    /// Part of `--quick`.
    quick: bool,
    /// Whether there is anything to run; a stage without is listed only when it was asked for.
    exists: fn(&Repo) -> bool,
    run: fn(&Repo, quick: bool) -> Result<Tally>,
}

const STAGES: &[Stage] = &[
    stage("format", false, true, |repo, _| cargo(repo, &["fmt", "--all", "--check"])),
    stage("clippy", false, true, |repo, _| {
        cargo(repo, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    // Also the tests and examples, once: what they need switches on features that the libraries would be built with a second time.
    stage(BUILD, false, true, |repo, _| cargo(repo, &["build", "--workspace", "--all-targets"])),
    stage("deny", false, true, deny::stage),
    stage("unit", false, true, |repo, _| suites::unit(repo)),
    stage("integration", true, true, |repo, _| suites::integration(repo)),
    stage("crash", true, false, |repo, _| suites::crash(repo)),
    stage("dist", true, true, |repo, _| dist::stage(repo)),
    stage("conformance", true, false, |repo, _| conformance::stage(repo)),
    stage("web", true, false, |repo, _| web::stage(repo)),
    Stage { exists: browser::exists, ..stage("browser", true, false, |repo, _| browser::stage(repo)) },
];

const fn stage(name: &'static str, needs_binary: bool, quick: bool, run: fn(&Repo, bool) -> Result<Tally>) -> Stage {
    Stage { name, needs_binary, quick, exists: |_| true, run }
}

fn cargo(repo: &Repo, arguments: &[&str]) -> Result<Tally> {
    run::check(&mut repo.cargo(arguments.iter().copied()), BUILD_LIMIT)?;
    Ok(Tally::passed())
}

pub(crate) fn names() -> Vec<&'static str> {
    STAGES.iter().map(|stage| stage.name).collect()
}

/// What the developer asked for.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) quick: bool,
    pub(crate) only: Vec<String>,
}

impl Choice {
    pub(crate) fn add_only(&mut self, name: &str) -> Result<()> {
        if !names().contains(&name) {
            let known = names().join(", ");
            return Err(format!("no stage `{name}`; there are: {known}").into());
        }
        self.only.push(name.to_owned());
        Ok(())
    }

    /// Naming a stage that needs the binary brings the build along.
    fn wants(&self, stage: &Stage) -> bool {
        let needed = |other: &Stage| other.needs_binary && self.names(other);
        self.only.is_empty() || self.names(stage) || (stage.name == BUILD && STAGES.iter().any(needed))
    }

    fn names(&self, stage: &Stage) -> bool {
        self.only.iter().any(|name| name == stage.name)
    }

    fn leaves_out(&self, stage: &Stage) -> bool {
        self.quick && !stage.quick && self.only.is_empty()
    }
}

struct Row {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

pub(crate) fn run(repo: &Repo, choice: &Choice) -> ExitCode {
    let started = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    let mut binary_is_there = true;
    for stage in STAGES.iter().filter(|stage| choice.wants(stage)) {
        if !(stage.exists)(repo) && !choice.names(stage) {
            continue;
        }
        println!("\n=== {}", stage.name);
        let started = Instant::now();
        let tally = if choice.leaves_out(stage) {
            Tally::skipped("not part of --quick")
        } else if stage.needs_binary && !binary_is_there {
            Tally::failed("not run: the build failed")
        } else {
            (stage.run)(repo, choice.quick).unwrap_or_else(|error| Tally::failed(error.to_string()))
        };
        let row = Row { name: stage.name, tally, time: started.elapsed() };
        println!("=== {}: {}, {}{}", row.name, row.tally.word(), seconds(row.time), remarks(&row.tally));
        if stage.name == BUILD && row.tally.failed > 0 {
            binary_is_there = false;
        }
        rows.push(row);
    }
    summarize(&rows, started.elapsed())
}

fn summarize(rows: &[Row], time: Duration) -> ExitCode {
    println!("\n{:<12} {:>7} {:>7} {:>10}", "stage", "passed", "failed", "time");
    let mut total = Tally::default();
    for Row { name, tally, time } in rows {
        let (passed, failed) = if tally.skipped {
            ("-".to_owned(), "-".to_owned())
        } else {
            (tally.passed.to_string(), tally.failed.to_string())
        };
        println!("{name:<12} {passed:>7} {failed:>7} {:>10}{}", seconds(*time), remarks(tally));
        total += tally.clone();
    }
    println!("{:<12} {:>7} {:>7} {:>10}", "all", total.passed, total.failed, seconds(time));
    println!("\n{} passed, {} failed", total.passed, total.failed);
    // A run in which everything was skipped has shown nothing.
    if total.failed == 0 && total.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn remarks(tally: &Tally) -> String {
    if tally.notes.is_empty() { String::new() } else { format!("  {}", tally.notes.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(choice: &Choice) -> Vec<&'static str> {
        let wanted = STAGES.iter().filter(|stage| choice.wants(stage) && !choice.leaves_out(stage));
        wanted.map(|stage| stage.name).collect()
    }

    fn only(names: &[&str], quick: bool) -> Choice {
        let mut choice = Choice { quick, ..Choice::default() };
        for name in names {
            choice.add_only(name).unwrap();
        }
        choice
    }

    #[test]
    fn without_a_choice_everything_runs() {
        assert_eq!(wanted(&only(&[], false)), names());
    }

    #[test]
    fn quick_leaves_out_the_slow_ones() {
        let quick = wanted(&only(&[], true));
        for slow in ["crash", "conformance", "web", "browser"] {
            assert!(!quick.contains(&slow), "{slow}");
        }
        assert!(quick.contains(&"integration"));
    }

    #[test]
    fn a_named_stage_runs_even_when_quick_and_brings_the_build_when_it_needs_it() {
        assert_eq!(wanted(&only(&["crash"], true)), ["build", "crash"]);
        assert_eq!(wanted(&only(&["format"], false)), ["format"]);
    }
}
