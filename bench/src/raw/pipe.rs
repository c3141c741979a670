//! A pipe with a program at its other end.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::pattern::{Check, Kind, Pattern};

const BUFFER_BYTES: usize = 256 * 1024;
/// As large as an ordinary user may make it.
const PIPE_BYTES: libc::c_int = 1024 * 1024;

fn start(arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// Bytes per second that a reader gets out of a pipe.
pub fn stream(bytes: u64) -> Result<f64> {
    let mut child = start(&["print-when-told", Kind::Raw.name(), &bytes.to_string()])?;
    let mut output = child.stdout.take().ok_or("no output")?;
    // SAFETY: an open descriptor. Where it is refused the pipe stays as it is.
    unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    let pattern = Pattern::written(Kind::Raw);
    let mut check = Check::new(&pattern);
    let mut buffer = vec![0; BUFFER_BYTES];
    let started = Instant::now();
    child.stdin.take().ok_or("no input")?.write_all(b"g")?;
    loop {
        let count = output.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        check.take(&buffer[..count]);
    }
    let time = started.elapsed();
    child.wait()?;
    if check.received != bytes || check.wrong_at.is_some() {
        return Err("the raw pipe gave something else than was written".into());
    }
    Ok(bytes as f64 / time.as_secs_f64())
}

/// From the start of a program to its first byte.
pub fn first_byte(program: &str, argument: &str) -> Result<Duration> {
    let started = Instant::now();
    let mut child = Command::new(program).arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or("no output")?;
    output.read_exact(&mut [0])?;
    let time = started.elapsed();
    child.wait()?;
    Ok(time)
}

/// Starts a program that prints `bytes` and reads it all, as `run` does.
pub fn run_printing(bytes: u64) -> Result<Duration> {
    let started = Instant::now();
    let mut child = start(&["print", Kind::Raw.name(), &bytes.to_string()])?;
    let mut all = Vec::new();
    child.stdout.take().ok_or("no output")?.read_to_end(&mut all)?;
    child.wait()?;
    let time = started.elapsed();
    if all.len() as u64 == bytes { Ok(time) } else { Err("the raw pipe lost something".into()) }
}
