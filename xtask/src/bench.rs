//! `cargo xtask bench`: runs the `bench/` package against a release build, whose path it gets in
//! `OUTLIVE_BIN`.

use std::process::ExitCode;
use std::time::Duration;

use crate::repo::Repo;
use crate::run;
use crate::stages::BUILD_LIMIT;
use crate::{EXIT_USAGE, Result};

/// Somebody is watching; this only ends a run that was forgotten.
const BENCH_LIMIT: Duration = Duration::from_secs(2 * 3600);

pub(crate) fn run(repo: &Repo, arguments: &[&str]) -> Result<ExitCode> {
    if !repo.path("bench/Cargo.toml").is_file() {
        eprintln!("there are no benchmarks yet: no package in bench/");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    run::check(&mut repo.cargo(["build", "--release", "--package", "outlive"]), BUILD_LIMIT)?;
    let mut bench = repo.cargo(["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]);
    bench.args(arguments).env("OUTLIVE_BIN", repo.target("release/outlive"));
    run::check(&mut bench, BENCH_LIMIT)?;
    Ok(ExitCode::SUCCESS)
}
