//! `cargo xtask dist`: the one static binary that we ship, and the stage that proves it is one.
//!
//! Two facts prove it: the file names no dynamic loader, and it runs in a root directory that
//! contains only itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::elf;
use crate::repo::Repo;
use crate::run;
use crate::scratch::Scratch;
use crate::stages::BUILD_TIMEOUT;
use crate::tally::Tally;

/// For commands that only print something.
const SHORT_TIMEOUT: Duration = Duration::from_secs(30);

const STATIC: &str = "-C target-feature=+crt-static -C relocation-model=static";

/// The history compresses with the fastest level only, so the code of zstd's other levels is left out. So are variants
/// that are slightly faster for some data or processors. Compression runs in the background, so small is better than fast.
const C_FLAGS: &str = "-Os -DZSTD_EXCLUDE_DFAST_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_GREEDY_BLOCK_COMPRESSOR \
     -DZSTD_EXCLUDE_LAZY_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_LAZY2_BLOCK_COMPRESSOR \
     -DZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR \
     -DZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR -DHUF_FORCE_DECOMPRESS_X1=1 \
     -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT=1 -DZSTD_STRIP_ERROR_STRINGS=1 -DDYNAMIC_BMI2=0";

/// Profile of the shipped binary.
const SHIPPED_PROFILE: &str = "dist";
/// Profile of the test: whether the binary is static does not depend on optimization.
const TEST_PROFILE: &str = "dist-proof";

/// Builds, copies to `dist/outlive` and prints size and hash.
pub(crate) fn build(repo: &Repo) -> Result<PathBuf> {
    let built = build_with(repo, SHIPPED_PROFILE)?;
    let binary = repo.path("dist/outlive");
    fs::create_dir_all(repo.path("dist"))?;
    // Renamed into place, because an older one may be running.
    let fresh = repo.path("dist/outlive.new");
    fs::copy(built, &fresh)?;
    fs::rename(&fresh, &binary)?;
    println!("dist/outlive: {}, {}", size(&binary)?, hash(repo));
    Ok(binary)
}

fn build_with(repo: &Repo, profile: &str) -> Result<PathBuf> {
    let triple = host_triple(repo)?;
    let mut cargo = repo.cargo(["build", "--profile", profile, "--package", "outlive", "--target", &triple]);
    // By target, so that build scripts and procedural macros, which run on the host, stay dynamic.
    // The general variables would win over it.
    cargo.env(rustflags_variable(&triple), STATIC);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env("CFLAGS", C_FLAGS);
    run::check(&mut cargo, BUILD_TIMEOUT)?;
    Ok(repo.target(&triple).join(profile).join("outlive"))
}

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let binary = build_with(repo, TEST_PROFILE)?;
    if let Some(loader) = elf::interpreter(&fs::read(&binary)?)? {
        return Err(format!("the binary is not static: it needs {loader}").into());
    }
    let version = run_in_empty_root(&binary)?;
    println!("in an empty root: {version}");
    Ok(Tally::passed())
}

fn run_in_empty_root(binary: &Path) -> Result<String> {
    let root = Scratch::new()?;
    fs::copy(binary, root.path().join("outlive"))?;
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let mut command = Command::new(if is_root { "chroot" } else { "unshare" });
    if !is_root {
        // A user namespace in which we may change the root.
        command.args(["--map-root-user", "chroot"]);
    }
    let version = run::output(command.arg(root.path()).args(["/outlive", "--version"]), SHORT_TIMEOUT)?;
    if version.starts_with("outlive ") {
        Ok(version)
    } else {
        Err(format!("in an empty root `outlive --version` printed {version:?}").into())
    }
}

fn host_triple(repo: &Repo) -> Result<String> {
    let text = run::output(repo.command("rustc").arg("-vV"), SHORT_TIMEOUT)?;
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.ok_or("rustc does not name its host")?.to_owned())
}

fn rustflags_variable(triple: &str) -> String {
    let name = triple.to_uppercase().replace(['-', '.'], "_");
    format!("CARGO_TARGET_{name}_RUSTFLAGS")
}

fn size(binary: &Path) -> Result<String> {
    let bytes = fs::metadata(binary)?.len();
    Ok(format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20)))
}

/// Printed for comparison; a machine without the tool is no reason to fail.
fn hash(repo: &Repo) -> String {
    run::output(repo.command("sha256sum").arg("dist/outlive"), SHORT_TIMEOUT)
        .ok()
        .and_then(|line| line.split(' ').next().map(|hash| format!("sha256 {hash}")))
        .unwrap_or_else(|| "sha256sum not found".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_spelled_as_cargo_reads_it() {
        assert_eq!(rustflags_variable("x86_64-unknown-linux-gnu"), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS");
    }
}
