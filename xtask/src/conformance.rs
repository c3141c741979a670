//! The `conformance` stage: the official clients of other platforms against a live server.
//!
//! Every directory below `conformance/` is a suite, unless its name begins with `_` or `.` (shared
//! code). It is set up from its lock file, gets a fresh server, and is run by its entry, `run.mjs`,
//! `run.py` or `run.sh`, with `--base-url URL`. Its last line must be `N passed, M failed`. A suite that
//! needs a server with other flags (a token, a dialect's own address) starts it itself from the binary
//! that the variable `OUTLIVE_BINARY` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::repo::Repo;
use crate::run;
use crate::server::Server;
use crate::tally::Tally;

/// Downloading clients over a slow network.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A suite takes seconds. One that hangs must leave time for the others.
const SUITE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let suites = discover(&repo.path("conformance"))?;
    if suites.is_empty() {
        return Ok(Tally::skipped("there are no suites"));
    }
    // While one suite runs, the next ones are downloaded.
    let (ready, next) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for directory in suites {
                let set_up = set_up(&directory).map_err(|error| error.to_string());
                if ready.send((directory, set_up)).is_err() {
                    return;
                }
            }
        });
        let tallies = next.into_iter().map(|(directory, set_up)| run_suite(repo, &directory, set_up));
        Ok(tallies.fold(Tally::default(), |mut total, tally| {
            total += tally;
            total
        }))
    })
}

fn run_suite(repo: &Repo, directory: &Path, set_up: std::result::Result<(), String>) -> Tally {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    println!("--- {name}");
    let run = || -> Result<Tally> {
        set_up?;
        against_server(repo, entry(directory)?)
    };
    let mut tally = run().unwrap_or_else(|error| Tally::failed(error.to_string()));
    println!("--- {name}: {} passed, {} failed", tally.passed, tally.failed);
    for note in &mut tally.notes {
        *note = format!("{name}: {note}");
    }
    tally
}

/// Runs a suite that takes `--base-url` against a server of its own.
pub(crate) fn against_server(repo: &Repo, mut suite: Command) -> Result<Tally> {
    let server = Server::start(&repo.debug_binary())?;
    suite.args(["--base-url", server.url()]).env("OUTLIVE_BINARY", repo.debug_binary());
    let mut tally = match run::capture(&mut suite, SUITE_TIMEOUT) {
        Ok(finished) => Tally::from_suite(&finished),
        Err(error) => Tally::failed(error.to_string()),
    };
    if tally.failed > 0 {
        server.print_log();
    }
    if let Err(error) = server.stop() {
        tally += Tally::failed(error.to_string());
    }
    Ok(tally)
}

fn discover(conformance: &Path) -> Result<Vec<PathBuf>> {
    if !conformance.is_dir() {
        return Ok(Vec::new());
    }
    let mut directories = Vec::new();
    for item in fs::read_dir(conformance)? {
        let item = item?;
        let name = item.file_name();
        let is_shared = name.to_string_lossy().starts_with(['_', '.']) || name == "node_modules";
        if item.path().is_dir() && !is_shared {
            directories.push(item.path());
        }
    }
    directories.sort();
    Ok(directories)
}

fn entry(directory: &Path) -> Result<Command> {
    let python = directory.join(".venv/bin/python");
    let python = if python.is_file() { python } else { PathBuf::from("python3") };
    let runners = [("run.mjs", Path::new("node")), ("run.py", &python), ("run.sh", Path::new("bash"))];
    for (file, program) in runners {
        if directory.join(file).is_file() {
            let mut command = Command::new(program);
            command.arg(file).current_dir(directory);
            return Ok(command);
        }
    }
    Err("the suite has no run.mjs, run.py or run.sh".into())
}

/// Installs what the lock files name, unless exactly that is installed already.
pub(crate) fn set_up(directory: &Path) -> Result<()> {
    let lock = directory.join("package-lock.json");
    if lock.is_file() {
        install_once(&lock, &directory.join("node_modules"), || {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(directory);
            run::check(&mut npm, SETUP_TIMEOUT)
        })?;
    }
    let lock = directory.join("requirements.lock");
    if lock.is_file() {
        let environment = directory.join(".venv");
        install_once(&lock, &environment, || {
            let mut make = Command::new("python3");
            make.args(["-m", "venv", "--clear"]).arg(&environment);
            run::check(&mut make, SETUP_TIMEOUT)?;
            let mut pip = Command::new(environment.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
            run::check(pip.arg(&lock), SETUP_TIMEOUT)
        })?;
    }
    Ok(())
}

/// A copy of the lock file in the installed directory records what was installed. It is written last, so
/// an interrupted installation is repeated.
fn install_once(lock: &Path, into: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let lock = fs::read(lock)?;
    let stamp = into.join(".installed-from");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    install()?;
    // npm creates no directory when there is nothing to install.
    fs::create_dir_all(into)?;
    Ok(fs::write(stamp, lock)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn suites_are_the_directories_that_are_not_shared_code() {
        let scratch = Scratch::new().unwrap();
        for name in ["e2b", "docker", "_shared", ".cache", "node_modules"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        fs::write(scratch.path().join("README.md"), "").unwrap();
        let found = discover(scratch.path()).unwrap();
        assert_eq!(found, [scratch.path().join("docker"), scratch.path().join("e2b")]);
        assert!(discover(&scratch.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn a_directory_without_an_entry_is_an_error() {
        let scratch = Scratch::new().unwrap();
        assert!(entry(scratch.path()).is_err());
        fs::write(scratch.path().join("run.sh"), "").unwrap();
        assert_eq!(entry(scratch.path()).unwrap().get_program(), "bash");
    }

    #[test]
    fn installs_again_only_when_the_lock_changes_or_the_last_time_failed() {
        let scratch = Scratch::new().unwrap();
        let (lock, into) = (scratch.path().join("lock"), scratch.path().join("into"));
        let mut times = 0;
        fs::write(&lock, "1").unwrap();
        assert!(install_once(&lock, &into, || Err("no network".into())).is_err());
        for content in ["1", "1", "2"] {
            fs::write(&lock, content).unwrap();
            install_once(&lock, &into, || {
                times += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(times, 2);
    }
}
