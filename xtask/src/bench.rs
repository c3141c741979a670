//! `cargo xtask bench`: runs the `bench/` package against the binary that is shipped (dist.rs), whose path it gets in
//! `OUTLIVE_BIN`. Whoever has set that variable is taken at his word, and nothing is built.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use crate::repo::Repo;
use crate::{EXIT_USAGE, Result};
use crate::{conformance, dist, run};

/// Somebody is watching; this only ends a run that was forgotten.
const BENCH_LIMIT: Duration = Duration::from_secs(2 * 3600);

pub(crate) fn run(repo: &Repo, arguments: &[&str]) -> Result<ExitCode> {
    if !repo.path("bench/Cargo.toml").is_file() {
        eprintln!("there are no benchmarks yet: no package in bench/");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let binary = if let Some(chosen) = env::var_os("OUTLIVE_BIN") {
        // The package runs at the root of the repository, its user may stand elsewhere.
        env::current_dir()?.join(chosen)
    } else {
        dist::build(repo)?
    };
    // The guard counts outlive alone.
    if !arguments.contains(&"--guard")
        && let Err(error) = conformance::set_up(&repo.path("bench/peer"))
    {
        // Somebody without a network still learns how far from the kernel we are.
        eprintln!("warning: the peers are left out: {error}");
    }
    let mut bench = repo.cargo(["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]);
    bench.args(arguments).env("OUTLIVE_BIN", binary);
    run::check(&mut bench, BENCH_LIMIT)?;
    Ok(ExitCode::SUCCESS)
}
