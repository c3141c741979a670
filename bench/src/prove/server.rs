//! outlive with its history on a real disk, or without history, and what the proofs ask it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::Result;
use crate::contenders::{Contender, Outlive};
use crate::daemon::Daemon;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory beside the benchmark's own binary, removed on drop.
pub struct DiskDirectory(PathBuf);

impl DiskDirectory {
    pub fn new() -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let program = std::env::current_exe()?;
        let parent = program.parent().ok_or("the benchmark binary has no directory")?;
        let path = parent.join(format!("prove-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DiskDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}

pub struct Server {
    // In drop order: first the daemon, then the directory that it uses.
    pub daemon: Daemon,
    directory: DiskDirectory,
}

impl Server {
    pub fn start(with_history: bool) -> Result<Self> {
        let directory = DiskDirectory::new()?;
        let history = directory.path().join("history");
        let value = if with_history { history.as_os_str() } else { OsStr::new("off") };
        let daemon = Outlive::launch_command(Command::new(Outlive.program()?), value)?;
        Outlive.raise_limits(&daemon)?;
        let server = Self { daemon, directory };
        if with_history {
            let status = server.history()?;
            if status["state"] != "on" {
                return Err(format!("history is not on: {status}").into());
            }
        }
        Ok(server)
    }

    /// `GET /v1/history`.
    pub fn history(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.daemon.connect()?.expect("GET", "/v1/history", None)?)?)
    }

    /// How often output was overwritten before it was stored. Fails if history is not on any more.
    pub fn gaps(&self) -> Result<u64> {
        let status = self.history()?;
        if status["state"] != "on" {
            return Err(format!("history stopped: {status}").into());
        }
        status["gaps"].as_u64().ok_or_else(|| "/v1/history has no gaps".into())
    }

    /// Compresses everything that is not compressed yet.
    pub fn collect_garbage(&self) -> Result<()> {
        self.daemon.connect()?.expect("POST", "/v1/history/gc", Some("{}")).map(|_| ())
    }

    /// Number and size on disk of the files of the history.
    pub fn disk_use(&self) -> Result<(usize, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for entry in fs::read_dir(self.directory.path().join("history"))? {
            bytes += entry?.metadata()?.blocks() * 512;
            files += 1;
        }
        Ok((files, bytes))
    }

    /// Starts one of the programs in `child.rs` and waits for its exit. Returns its id and how long it took.
    pub fn run_child(&self, arguments: &[&str]) -> Result<(String, f64)> {
        let program = std::env::current_exe()?;
        let all: Vec<&str> = std::iter::once("child").chain(arguments.iter().copied()).collect();
        self.run(program.to_str().ok_or("the path of the benchmark binary is not UTF-8")?, &all)
    }

    pub fn run(&self, command: &str, arguments: &[&str]) -> Result<(String, f64)> {
        let mut connection = self.daemon.connect()?;
        let started = Instant::now();
        let id = crate::api::create(&mut connection, command, arguments, false)?;
        loop {
            // Shorter than the timeout of the connection.
            let wait = json!({"for": "exit", "timeoutMs": 20_000}).to_string();
            let body = connection.expect("POST", &format!("/v1/processes/{id}/wait"), Some(&wait))?;
            let outcome: Value = serde_json::from_slice(&body)?;
            if outcome["outcome"] == "exited" {
                let seconds = started.elapsed().as_secs_f64();
                if outcome["process"]["exitCode"] != 0 {
                    return Err(format!("the program failed: {outcome}").into());
                }
                return Ok((id, seconds));
            }
        }
    }

    /// Reads `[from, to)` of a log.
    pub fn read(&self, id: &str, from: u64, to: u64) -> Result<Vec<u8>> {
        self.daemon.connect()?.expect("GET", &format!("/v1/processes/{id}/output?from={from}&to={to}"), None)
    }
}

/// The rate at which the disk takes large writes one after the other, in MB/s.
pub fn sequential_write_rate(bytes: usize) -> Result<f64> {
    use std::io::Write;
    let directory = DiskDirectory::new()?;
    let mut file = fs::File::create(directory.path().join("file"))?;
    let block: Vec<u8> = (0..4_usize << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let started = Instant::now();
    for _ in 0..bytes / block.len() {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok((bytes / block.len() * block.len()) as f64 / 1e6 / started.elapsed().as_secs_f64())
}
