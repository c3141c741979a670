//! The `conformance` stage: the official clients of other platforms against a live server.
//!
//! Every folder below `conformance/` is a suite (one whose name begins with `_` or `.` is shared
//! code). It is set up from its lock file, gets a fresh server, and is run by its entry, `run.mjs`,
//! `run.py` or `run.sh`, with `--base-url URL`. Its last line must be `N passed, M failed`. A suite that
//! needs a server with other flags (a token, an address of a dialect's own) starts one itself: the variable
//! `OUTLIVE_BINARY` says what.

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
const SETUP_LIMIT: Duration = Duration::from_secs(5 * 60);

/// A suite takes seconds. One that hangs must leave time for the others.
const SUITE_LIMIT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn stage(repo: &Repo) -> Result<Tally> {
    let suites = discover(&repo.path("conformance"))?;
    if suites.is_empty() {
        return Ok(Tally::skipped("there are no suites"));
    }
    // While a suite runs, what the next ones need is downloaded.
    let (ready, next) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for folder in suites {
                let set_up = set_up(&folder).map_err(|error| error.to_string());
                if ready.send((folder, set_up)).is_err() {
                    return;
                }
            }
        });
        let tallies = next.into_iter().map(|(folder, set_up)| run_suite(repo, &folder, set_up));
        Ok(tallies.fold(Tally::default(), |mut total, tally| {
            total += tally;
            total
        }))
    })
}

fn run_suite(repo: &Repo, folder: &Path, set_up: std::result::Result<(), String>) -> Tally {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    println!("--- {name}");
    let run = || -> Result<Tally> {
        set_up?;
        against_server(repo, entry(folder)?)
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
    let mut tally = match run::capture(&mut suite, SUITE_LIMIT) {
        Ok(finished) => Tally::of_suite(&finished),
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
    let mut folders = Vec::new();
    for item in fs::read_dir(conformance)? {
        let item = item?;
        let name = item.file_name();
        let is_shared = name.to_string_lossy().starts_with(['_', '.']) || name == "node_modules";
        if item.path().is_dir() && !is_shared {
            folders.push(item.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn entry(folder: &Path) -> Result<Command> {
    let python = folder.join(".venv/bin/python");
    let python = if python.is_file() { python } else { PathBuf::from("python3") };
    let runners = [("run.mjs", Path::new("node")), ("run.py", &python), ("run.sh", Path::new("bash"))];
    for (file, program) in runners {
        if folder.join(file).is_file() {
            let mut command = Command::new(program);
            command.arg(file).current_dir(folder);
            return Ok(command);
        }
    }
    Err("it has no run.mjs, run.py or run.sh".into())
}

/// Installs what the lock files name, unless exactly that is installed already.
pub(crate) fn set_up(folder: &Path) -> Result<()> {
    let lock = folder.join("package-lock.json");
    if lock.is_file() {
        installed_once(&lock, &folder.join("node_modules"), || {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(folder);
            run::check(&mut npm, SETUP_LIMIT)
        })?;
    }
    let lock = folder.join("requirements.lock");
    if lock.is_file() {
        let environment = folder.join(".venv");
        installed_once(&lock, &environment, || {
            let mut make = Command::new("python3");
            make.args(["-m", "venv", "--clear"]).arg(&environment);
            run::check(&mut make, SETUP_LIMIT)?;
            let mut pip = Command::new(environment.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
            run::check(pip.arg(&lock), SETUP_LIMIT)
        })?;
    }
    Ok(())
}

/// A copy of the lock file in the installed folder says what is in there. It is written last, so
/// that an installation broken off is not taken for a whole one.
fn installed_once(lock: &Path, into: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted = fs::read(lock)?;
    let stamp = into.join(".installed-from");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install()?;
    // npm makes no folder when there is nothing to put in.
    fs::create_dir_all(into)?;
    Ok(fs::write(stamp, wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn suites_are_the_folders_that_are_not_shared_code() {
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
    fn a_folder_without_an_entry_is_an_error() {
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
        assert!(installed_once(&lock, &into, || Err("no network".into())).is_err());
        for content in ["1", "1", "2"] {
            fs::write(&lock, content).unwrap();
            installed_once(&lock, &into, || {
                times += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(times, 2);
    }
}
