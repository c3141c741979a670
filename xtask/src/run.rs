//! Running a command to its end, within a time limit.
//!
//! Its output goes to the terminal as it comes and, where the caller wants to read it, into memory
//! as well. A command that exceeds its limit is killed with all its descendants: a hanging test must
//! cost one stage, not the run.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::tree::{Running, TICK};

/// How long output may still come after the command has ended. Only a process left behind keeps it
/// open for longer, and that one must not hang us.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) lines: Vec<String>,
    /// Another process holds the output open although the command has ended.
    pub(crate) left_behind: bool,
}

/// Runs with the output shown. Fails unless the command succeeds.
pub(crate) fn check(command: &mut Command, limit: Duration) -> Result<()> {
    let mut running = Running::start(command.stdin(Stdio::null()))?;
    match running.wait(limit)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{} ended with {status}", describe(command)).into()),
        None => Err(timed_out(command, limit)),
    }
}

/// Runs with the output shown, and returns what went to stdout.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Finished> {
    collect(command, limit, true)
}

/// Runs without showing stdout. Fails unless the command succeeds.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let finished = collect(command, limit, false)?;
    if finished.status.success() {
        Ok(finished.lines.join("\n"))
    } else {
        Err(format!("{} ended with {}", describe(command), finished.status).into())
    }
}

fn collect(command: &mut Command, limit: Duration, show: bool) -> Result<Finished> {
    let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let incoming = read_lines(running.take_stdout().ok_or("the output was not piped")?);
    let deadline = Instant::now() + limit;
    let mut drain_until = None;
    let mut lines = Vec::new();
    let mut open = true;
    loop {
        match incoming.recv_timeout(TICK) {
            Ok(line) => {
                if show {
                    println!("{line}");
                }
                lines.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                open = false;
                thread::sleep(TICK);
            }
        }
        if let Some(status) = running.poll()? {
            let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_TIMEOUT);
            if !open || Instant::now() >= until {
                return Ok(Finished { status, lines, left_behind: open });
            }
        } else if Instant::now() >= deadline {
            // Dropping it kills the tree.
            return Err(timed_out(command, limit));
        }
    }
}

/// On a thread, because the caller must be able to stop waiting for a pipe that another process keeps
/// open.
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { break };
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receive
}

fn timed_out(command: &Command, limit: Duration) -> Box<dyn std::error::Error> {
    format!("{} was killed after {} s", describe(command), limit.as_secs()).into()
}

/// The command for a message: program and arguments, the program without its directory.
fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn capture_returns_all_lines_and_the_status() {
        let finished = capture(&mut shell("echo one; printf two; exit 4"), LONG).unwrap();
        assert_eq!(finished.lines, ["one", "two"]);
        assert_eq!(finished.status.code(), Some(4));
        assert!(!finished.left_behind);
    }

    #[test]
    fn a_command_that_closes_its_output_early_is_awaited() {
        let finished = capture(&mut shell("echo one; exec >&-; sleep 0.2; exit 5"), LONG).unwrap();
        assert_eq!(finished.status.code(), Some(5));
    }

    #[test]
    fn a_process_left_behind_does_not_hang_the_run() {
        let started = Instant::now();
        let mut finished = capture(&mut shell("sleep 600 & echo $!"), LONG).unwrap();
        assert!(finished.left_behind);
        assert!(started.elapsed() < LONG);
        let pid = finished.lines.remove(0);
        check(shell("kill \"$0\"").arg(pid), LONG).unwrap();
    }

    #[test]
    fn a_command_that_exceeds_its_limit_is_killed_and_named() {
        let error = check(&mut shell("sleep 600"), TICK).unwrap_err().to_string();
        assert!(error.contains("`sh -c sleep 600` was killed"), "{error}");
        assert!(output(&mut shell("sleep 600"), TICK).is_err());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = check(&mut Command::new("no-such-program"), LONG).unwrap_err();
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
    }
}
