//! The programs that the workloads run: `outlive-bench child NAME …`.
//!
//! Each is as small as possible. The raw baseline and every server run the same ones.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::build_log;
use crate::pattern::{OutputKind, Pattern};

/// Written once a program has set its terminal's mode. Everything after this byte is the program's output.
pub const READY: u8 = b'!';
/// Written by `fill` after its bytes.
pub const FILLED: u8 = b'\n';

const CHUNK_BYTES: usize = 64 * 1024;

pub fn main(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["echo"] => echo(),
        ["print", kind, bytes] => print(parse_kind(kind)?, bytes.parse()?),
        ["print-on-terminal", kind, bytes] => print_on_terminal(parse_kind(kind)?, bytes.parse()?),
        ["print-on-input", kind, bytes] => {
            wait_for_byte()?;
            print(parse_kind(kind)?, bytes.parse()?)
        }
        ["fill", bytes] => {
            print(OutputKind::Raw, bytes.parse()?)?;
            io::stdout().write_all(&[FILLED])?;
            io::stdout().flush()?;
            thread::sleep(Duration::from_hours(1));
            Ok(())
        }
        ["build-log-flood", bytes] => Ok(build_log::flood(bytes.parse()?, &mut UnbufferedStdout)?),
        ["build-log", bytes, rate] => Ok(build_log::print(bytes.parse()?, Some(rate.parse()?), &mut UnbufferedStdout)?),
        ["drip", count, bytes] => drip(count.parse()?, bytes.parse()?),
        ["under-callgrind", directory, program, ref program_arguments @ ..] => {
            crate::guard::execute_under_callgrind(directory, program, program_arguments)
        }
        _ => Err(format!("unknown child program `{}`", arguments.join(" ")).into()),
    }
}

fn parse_kind(name: &str) -> Result<OutputKind> {
    OutputKind::from_name(name).ok_or_else(|| format!("unknown kind of output `{name}`").into())
}

/// Replies to every byte with the next byte value, so that a reply differs from the terminal's own echo.
fn echo() -> Result<()> {
    set_terminal(Mode::Raw)?;
    let (mut input, mut output) = (io::stdin().lock(), UnbufferedStdout);
    let mut bytes = [0; 4096];
    loop {
        let count = input.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        bytes[..count].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        output.write_all(&bytes[..count])?;
    }
}

fn print(kind: OutputKind, bytes: u64) -> Result<()> {
    Ok(Pattern::as_written(kind).write(bytes, CHUNK_BYTES, &mut UnbufferedStdout)?)
}

/// Prints `count` chunks of `bytes` bytes, one millisecond apart.
fn drip(count: usize, bytes: u64) -> Result<()> {
    for _ in 0..count {
        print(OutputKind::Raw, bytes)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn print_on_terminal(kind: OutputKind, bytes: u64) -> Result<()> {
    set_terminal(match kind {
        OutputKind::Raw => Mode::Raw,
        OutputKind::Lines => Mode::Cooked,
    })?;
    UnbufferedStdout.write_all(&[READY])?;
    wait_for_byte()?;
    print(kind, bytes)
}

fn wait_for_byte() -> Result<()> {
    Ok(io::stdin().lock().read_exact(&mut [0])?)
}

enum Mode {
    Raw,
    /// Newlines become CR LF, but input is neither echoed nor collected into lines.
    Cooked,
}

fn set_terminal(mode: Mode) -> io::Result<()> {
    let fd = io::stdin().as_raw_fd();
    // SAFETY: `termios` is plain data that the call fills in.
    let mut termios: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the pointer is to a local.
    if unsafe { libc::tcgetattr(fd, &raw mut termios) } != 0 {
        return Err(io::Error::last_os_error());
    }
    match mode {
        // SAFETY: only changes the local.
        Mode::Raw => unsafe { libc::cfmakeraw(&raw mut termios) },
        Mode::Cooked => termios.c_lflag &= !(libc::ECHO | libc::ICANON),
    }
    // SAFETY: as above.
    if unsafe { libc::tcsetattr(fd, libc::TCSANOW, &raw const termios) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Standard output without std's line buffer: one write is one system call.
struct UnbufferedStdout;

impl Write for UnbufferedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the pointer and the length are those of a slice.
        let count = unsafe { libc::write(1, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
