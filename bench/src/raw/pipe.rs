//! A program that prints to a pipe.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::pattern::{OutputKind, Pattern, PatternCheck};

const BUFFER_BYTES: usize = 256 * 1024;
/// The largest size that an unprivileged user may set.
const PIPE_BYTES: libc::c_int = 1024 * 1024;

fn start(arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// Bytes per second that a reader gets out of a pipe.
pub fn stream(bytes: u64) -> Result<f64> {
    let mut child = start(&["print-on-input", OutputKind::Raw.name(), &bytes.to_string()])?;
    let mut output = child.stdout.take().ok_or("the child has no stdout")?;
    // SAFETY: the descriptor is open. If the call fails, the pipe keeps its size.
    unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    let pattern = Pattern::as_written(OutputKind::Raw);
    let mut check = PatternCheck::new(&pattern);
    let mut buffer = vec![0; BUFFER_BYTES];
    let started = Instant::now();
    child.stdin.take().ok_or("the child has no stdin")?.write_all(b"g")?;
    loop {
        let count = output.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        check.feed(&buffer[..count]);
    }
    let time = started.elapsed();
    child.wait()?;
    if check.received != bytes || check.first_mismatch.is_some() {
        return Err("the bytes from the raw pipe differ from the written ones".into());
    }
    Ok(bytes as f64 / time.as_secs_f64())
}

/// From the start of a program to its first byte.
pub fn first_byte(program: &str, argument: &str) -> Result<Duration> {
    let started = Instant::now();
    let mut child = Command::new(program).arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or("the child has no stdout")?;
    output.read_exact(&mut [0])?;
    let time = started.elapsed();
    child.wait()?;
    Ok(time)
}

/// Starts a program that prints `bytes` and reads all of its output, like `POST /v1/processes/run`.
pub fn run_printing(bytes: u64) -> Result<Duration> {
    let started = Instant::now();
    let mut child = start(&["print", OutputKind::Raw.name(), &bytes.to_string()])?;
    let mut all = Vec::new();
    child.stdout.take().ok_or("the child has no stdout")?.read_to_end(&mut all)?;
    child.wait()?;
    let time = started.elapsed();
    if all.len() as u64 == bytes { Ok(time) } else { Err("the raw pipe lost bytes".into()) }
}
