//! `cargo xtask test`: the list of stages, cheapest first.
//!
//! A failed stage does not stop the later ones, so one run reports everything. Stages that need the
//! binary count as failed without being run when the build failed. The last line of
//! the output is always `N passed, M failed`; CI reads it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::debian::{self, Package};
use crate::repo::Repo;
use crate::tally::Tally;
use crate::{Result, browser, conformance, deny, dist, fuzz, run, suites, web};

/// A cold build of the whole workspace on two slow cores takes a few minutes.
pub(crate) const BUILD_TIMEOUT: Duration = Duration::from_secs(20 * 60);

const BUILD: &str = "build";

struct Stage {
    name: &'static str,
    needs_binary: bool,
    /// Part of `--quick`.
    quick: bool,
    /// Installed before the stage runs.
    packages: &'static [Package],
    /// Whether there is anything to run; an empty stage is listed only when named by `--only`.
    exists: fn(&Repo) -> bool,
    run: fn(&Repo, quick: bool) -> Result<Tally>,
}

const STAGES: &[Stage] = &[
    stage("format", false, true, |repo, _| cargo(repo, &["fmt", "--all", "--check"])),
    stage("clippy", false, true, |repo, _| {
        cargo(repo, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    // All targets at once: tests enable features of dependencies, which would otherwise be built twice.
    stage(BUILD, false, true, |repo, _| cargo(repo, &["build", "--workspace", "--all-targets"])),
    stage("deny", false, true, deny::stage),
    stage("features", false, false, |repo, _| features(repo)),
    stage("fuzz", false, false, |repo, _| fuzz::check(repo)),
    stage("unit", false, true, |repo, _| suites::unit(repo)),
    Stage { packages: suites::SHELLS, ..stage("integration", true, true, |repo, _| suites::integration(repo)) },
    Stage { packages: suites::SHELLS, ..stage("crash", true, false, |repo, _| suites::crash(repo)) },
    stage("dist", true, true, |repo, _| dist::stage(repo)),
    stage("conformance", true, false, |repo, _| conformance::stage(repo)),
    stage("web", true, false, |repo, _| web::stage(repo)),
    Stage {
        packages: browser::CHROMIUM,
        exists: browser::exists,
        ..stage("browser", true, false, |repo, _| browser::stage(repo))
    },
];

const fn stage(name: &'static str, needs_binary: bool, quick: bool, run: fn(&Repo, bool) -> Result<Tally>) -> Stage {
    Stage { name, needs_binary, quick, packages: &[], exists: |_| true, run }
}

fn cargo(repo: &Repo, arguments: &[&str]) -> Result<Tally> {
    run::check(&mut repo.cargo(arguments.iter().copied()), BUILD_TIMEOUT)?;
    Ok(Tally::passed())
}

/// Without any feature, and with all of them: the dialects must not need each other.
fn features(repo: &Repo) -> Result<Tally> {
    cargo(repo, &["check", "--package", "outlive", "--no-default-features"])?;
    cargo(repo, &["check", "--package", "outlive", "--all-features"])
}

pub(crate) fn names() -> Vec<&'static str> {
    STAGES.iter().map(|stage| stage.name).collect()
}

/// The stages that the command line selects.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) quick: bool,
    pub(crate) only: Vec<String>,
}

impl Selection {
    pub(crate) fn add_only(&mut self, name: &str) -> Result<()> {
        if !names().contains(&name) {
            let known = names().join(", ");
            return Err(format!("no stage `{name}`; there are: {known}").into());
        }
        self.only.push(name.to_owned());
        Ok(())
    }

    /// Naming a stage that needs the binary selects the build too.
    fn includes(&self, stage: &Stage) -> bool {
        let needed = |other: &Stage| other.needs_binary && self.names(other);
        self.only.is_empty() || self.names(stage) || (stage.name == BUILD && STAGES.iter().any(needed))
    }

    fn names(&self, stage: &Stage) -> bool {
        self.only.iter().any(|name| name == stage.name)
    }

    /// Whether the stage will really run, not only be listed.
    fn runs(&self, repo: &Repo, stage: &Stage) -> bool {
        self.includes(stage) && !self.skips(stage) && (stage.exists)(repo)
    }

    fn skips(&self, stage: &Stage) -> bool {
        self.quick && !stage.quick && self.only.is_empty()
    }
}

struct Row {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

pub(crate) fn run(repo: &Repo, selection: &Selection) -> ExitCode {
    let started = Instant::now();
    let packages = STAGES.iter().filter(|stage| selection.runs(repo, stage)).flat_map(|stage| stage.packages);
    if let Some(line) = debian::announcement(&debian::missing(packages)) {
        println!("{line}");
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut binary_built = true;
    for stage in STAGES.iter().filter(|stage| selection.includes(stage)) {
        if !(stage.exists)(repo) && !selection.names(stage) {
            continue;
        }
        println!("\n=== {}", stage.name);
        let started = Instant::now();
        let tally = if selection.skips(stage) {
            Tally::skipped("not part of --quick")
        } else if stage.needs_binary && !binary_built {
            Tally::failed("not run: the build failed")
        } else {
            let run = || {
                debian::provide(stage.packages)?;
                (stage.run)(repo, selection.quick)
            };
            run().unwrap_or_else(|error| Tally::failed(error.to_string()))
        };
        let row = Row { name: stage.name, tally, time: started.elapsed() };
        println!("=== {}: {}, {}{}", row.name, row.tally.verdict(), seconds(row.time), remarks(&row.tally));
        if stage.name == BUILD && row.tally.failed > 0 {
            binary_built = false;
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
    // A run in which everything was skipped has checked nothing.
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

    fn selected(selection: &Selection) -> Vec<&'static str> {
        let stages = STAGES.iter().filter(|stage| selection.includes(stage) && !selection.skips(stage));
        stages.map(|stage| stage.name).collect()
    }

    fn only(names: &[&str], quick: bool) -> Selection {
        let mut selection = Selection { quick, ..Selection::default() };
        for name in names {
            selection.add_only(name).unwrap();
        }
        selection
    }

    #[test]
    fn without_a_selection_everything_runs() {
        assert_eq!(selected(&only(&[], false)), names());
    }

    #[test]
    fn quick_skips_the_slow_stages() {
        let quick = selected(&only(&[], true));
        for slow in ["crash", "conformance", "web", "browser"] {
            assert!(!quick.contains(&slow), "{slow}");
        }
        assert!(quick.contains(&"integration"));
    }

    #[test]
    fn a_named_stage_runs_even_when_quick_and_includes_the_build_it_needs() {
        assert_eq!(selected(&only(&["crash"], true)), ["build", "crash"]);
        assert_eq!(selected(&only(&["format"], false)), ["format"]);
    }
}
