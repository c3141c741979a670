//! `cargo xtask bench`: runs the `bench/` package against the shipped binary (`dist.rs`), passing its path in
//! `OUTLIVE_BIN`. If that variable is set already, that binary is measured and nothing is built.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::repo::Repo;
use crate::{EXIT_USAGE, Result};
use crate::{conformance, dist, run};

/// A developer watches the run; this ends one that was forgotten.
const BENCH_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

pub(crate) fn run(repo: &Repo, arguments: &[&str]) -> Result<ExitCode> {
    if !repo.path("bench/Cargo.toml").is_file() {
        eprintln!("bench/ has no Cargo.toml");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let binary = measured_binary(repo)?;
    // The guard measures no peers.
    if !arguments.contains(&"--guard")
        && let Err(error) = conformance::set_up(&repo.path("bench/peer"))
    {
        // Without a network the ratios to the kernel are still worth printing.
        eprintln!("warning: the peers are left out: {error}");
    }
    run_package(repo, arguments, &binary)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one of the proofs that measure. Fails if a target is missed.
pub(crate) fn prove(repo: &Repo, name: &str) -> Result<()> {
    let binary = measured_binary(repo)?;
    run_package(repo, &["prove", name], &binary)
}

fn measured_binary(repo: &Repo) -> Result<PathBuf> {
    match env::var_os("OUTLIVE_BIN") {
        // The package runs at the root of the repository, the caller may be elsewhere.
        Some(chosen) => Ok(env::current_dir()?.join(chosen)),
        None => dist::build(repo),
    }
}

fn run_package(repo: &Repo, arguments: &[&str], binary: &Path) -> Result<()> {
    let mut bench = repo.cargo(["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]);
    bench.args(arguments).env("OUTLIVE_BIN", binary);
    run::check(&mut bench, BENCH_TIMEOUT)
}
