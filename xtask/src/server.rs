//! A live server for a suite: on a free port, with its own state directory and log.
//!
//! It is ready when it prints a line with `listening on http://ADDRESS:PORT` on either output. SIGTERM to its
//! pid ends it, and every process it started must end too; dropping it without that kills the whole tree.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::scratch::Scratch;
use crate::tree::{self, Running, TICK};

/// It listens within milliseconds; the rest is for a machine that is busy compiling.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The server gives its processes 5 s between SIGTERM and SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Processes that the server killed may take a moment to disappear.
const TREE_TIMEOUT: Duration = Duration::from_secs(1);

/// Enough of the log to see why a suite failed.
const MAX_LOG_LINES: usize = 40;

const ANNOUNCEMENT: &str = "listening on http://";

pub(crate) struct Server {
    // In drop order: first the processes, then the directory they use.
    running: Running,
    url: String,
    scratch: Scratch,
}

impl Server {
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        let scratch = Scratch::new()?;
        let state = scratch.path().join("state");
        // A file and not a pipe: it needs no reader, and programs that the server starts may inherit it.
        let log = OpenOptions::new().create(true).append(true).open(log_path(&scratch))?;
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--no-token", "--state-dir"])
            .arg(&state)
            .arg("--history")
            .arg(scratch.path().join("history"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // The developer's own settings must not affect a test.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OUTLIVE_") {
                command.env_remove(name);
            }
        }
        let mut running = Running::start(&mut command)?;
        let url = wait_for_announcement(&mut running, &scratch)?;
        Ok(Self { running, url, scratch })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn print_log(&self) {
        eprintln!("--- end of the server's log\n{}---", tail(&self.scratch));
    }

    /// Fails when the server does not end, ends with an error, or leaves a process behind.
    pub(crate) fn stop(mut self) -> Result<()> {
        let below = tree::descendants(self.running.pid());
        self.running.terminate()?;
        let Some(status) = self.running.wait(STOP_TIMEOUT)? else {
            let limit = STOP_TIMEOUT.as_secs();
            return Err(format!("the server did not end within {limit} s of SIGTERM").into());
        };
        let left = tree::wait_until_gone(below, TREE_TIMEOUT);
        if !left.is_empty() {
            tree::signal("KILL", &left);
            return Err(format!("the server ended and left {} processes", left.len()).into());
        }
        if !status.success() {
            return Err(format!("the server ended with {status}").into());
        }
        Ok(())
    }
}

fn wait_for_announcement(running: &mut Running, scratch: &Scratch) -> Result<String> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        // Polled before the log is read, so that the log of an ended server is complete.
        let status = running.poll()?;
        let log = fs::read(log_path(scratch))?;
        if let Some(url) = announced(&String::from_utf8_lossy(&log)) {
            return Ok(url);
        }
        let problem = match status {
            Some(status) => format!("the server ended with {status} before it listened"),
            None if Instant::now() >= deadline => {
                format!("the server did not print `{ANNOUNCEMENT}…` within {} s", START_TIMEOUT.as_secs())
            }
            None => {
                thread::sleep(TICK);
                continue;
            }
        };
        eprint!("{}", tail(scratch));
        return Err(problem.into());
    }
}

/// Reads only complete lines, so that no port is cut short.
fn announced(log: &str) -> Option<String> {
    let complete = &log[..=log.rfind('\n')?];
    let (_, after) = complete.split_once(ANNOUNCEMENT)?;
    let address = after.split(|c: char| c.is_whitespace() || c.is_control() || c == '/').next()?;
    Some(format!("http://{address}"))
}

fn log_path(scratch: &Scratch) -> PathBuf {
    scratch.path().join("server.log")
}

fn tail(scratch: &Scratch) -> String {
    let log = fs::read(log_path(scratch)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let skip = log.lines().count().saturating_sub(MAX_LOG_LINES);
    log.lines().skip(skip).fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for the binary that does what the script says.
    fn fake(scratch: &Scratch, script: &str) -> PathBuf {
        let path = scratch.path().join("fake");
        // By another process: a file that we hold open for writing while a parallel test forks
        // could not be executed.
        let status = Command::new("sh")
            .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod +x "$0""#])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(status.unwrap().success());
        path
    }

    fn start(scratch: &Scratch, script: &str) -> Result<Server> {
        Server::start(&fake(scratch, script))
    }

    #[test]
    fn the_announcement_is_read_once_its_line_is_complete() {
        assert_eq!(announced("listening on http://127.0.0.1:80"), None);
        let log = "INFO listening on http://127.0.0.1:8080/#token=x\nlistening on http://other:1\n";
        assert_eq!(announced(log).as_deref(), Some("http://127.0.0.1:8080"));
    }

    #[test]
    fn a_server_that_ends_cleanly_passes() {
        let scratch = Scratch::new().unwrap();
        // KILL, because a shell that has just forked can lose a TERM before its exec.
        let script = "trap 'kill -KILL $!; exit 0' TERM
            sleep 600 & echo 'listening on http://127.0.0.1:1' >&2; wait";
        let server = start(&scratch, script).unwrap();
        assert_eq!(server.url(), "http://127.0.0.1:1");
        server.stop().unwrap();
    }

    #[test]
    fn a_process_left_behind_is_killed_and_fails_the_stop() {
        let scratch = Scratch::new().unwrap();
        let script = "trap 'exit 0' TERM; sleep 600 & echo 'listening on http://127.0.0.1:1'; wait";
        let server = start(&scratch, script).unwrap();
        let below = tree::descendants(server.running.pid());
        let error = server.stop().unwrap_err().to_string();
        assert!(error.contains("left 1 processes"), "{error}");
        assert_eq!(tree::wait_until_gone(below, START_TIMEOUT), []);
    }

    #[test]
    fn a_server_that_dies_at_once_is_reported_at_once() {
        let scratch = Scratch::new().unwrap();
        let error = start(&scratch, "echo broken >&2; exit 7").err().unwrap().to_string();
        assert!(error.contains("before it listened"), "{error}");
    }
}
