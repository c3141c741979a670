//! The programs that are run and measured: `outlive-bench child NAME …`.
//!
//! Each is as small as possible, and the same one runs below the kernel's own interfaces and below every server.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::pattern::{Kind, Pattern};

/// Written when a program on a terminal has set its mode: from now on nothing but its output comes out.
pub const READY: u8 = b'!';
/// Written by `fill` behind its bytes.
pub const FILLED: u8 = b'\n';

const CHUNK_BYTES: usize = 64 * 1024;

pub fn main(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["echo"] => echo(),
        ["print", kind, bytes] => print(kind_named(kind)?, bytes.parse()?),
        ["print-on-terminal", kind, bytes] => print_on_terminal(kind_named(kind)?, bytes.parse()?),
        ["print-when-told", kind, bytes] => {
            wait_for_byte()?;
            print(kind_named(kind)?, bytes.parse()?)
        }
        ["fill", bytes] => {
            print(Kind::Raw, bytes.parse()?)?;
            io::stdout().write_all(&[FILLED])?;
            io::stdout().flush()?;
            thread::sleep(Duration::from_hours(1));
            Ok(())
        }
        ["drip", count, bytes] => drip(count.parse()?, bytes.parse()?),
        ["under-callgrind", folder, program, ref arguments @ ..] => {
            crate::guard::execute_under_callgrind(folder, program, arguments)
        }
        _ => Err(format!("no such program: {}", words.join(" ")).into()),
    }
}

fn kind_named(name: &str) -> Result<Kind> {
    Kind::by_name(name).ok_or_else(|| format!("no such kind of output: {name}").into())
}

/// Answers every byte with the next one. So an answer cannot be mistaken for the kernel's own echo.
fn echo() -> Result<()> {
    set_terminal(Mode::Raw)?;
    let (mut input, mut output) = (io::stdin().lock(), Unbuffered);
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

fn print(kind: Kind, bytes: u64) -> Result<()> {
    Ok(Pattern::written(kind).write(bytes, CHUNK_BYTES, &mut Unbuffered)?)
}

/// So many pieces, each on its own.
fn drip(count: usize, bytes: u64) -> Result<()> {
    for _ in 0..count {
        print(Kind::Raw, bytes)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn print_on_terminal(kind: Kind, bytes: u64) -> Result<()> {
    set_terminal(match kind {
        Kind::Raw => Mode::Raw,
        Kind::Lines => Mode::Cooked,
    })?;
    Unbuffered.write_all(&[READY])?;
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
struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the pointer and the length are those of a slice.
        let count = unsafe { libc::write(1, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
