//! A program on a pseudoterminal that this process reads and writes directly.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::Result;
use crate::child::READY;
use crate::daemon::signal;
use crate::pattern::{OutputKind, Pattern, PatternCheck, terminal_bytes};
use crate::raw::spawn::{SpawnPlan, wait};

const BUFFER_BYTES: usize = 64 * 1024;

pub struct Terminal {
    master: File,
    pid: i32,
}

impl Terminal {
    /// Starts one of the programs in `child.rs`.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let (master, slave) = open_pair()?;
        let program = std::env::current_exe()?;
        let arguments: Vec<&str> = std::iter::once("child").chain(arguments.iter().copied()).collect();
        let pid = SpawnPlan::new(program.as_os_str(), &arguments, Some(slave.as_raw_fd()))?.start()?;
        Ok(Self { master: File::from(master), pid })
    }

    /// Writes one byte and reads until the next byte value, which the `echo` program replies with.
    pub fn echo(&mut self, byte: u8) -> Result<()> {
        self.master.write_all(&[byte])?;
        let mut reply = [0];
        // Skips what the kernel echoed before the program had switched the echo off.
        while reply[0] != byte.wrapping_add(1) {
            self.master.read_exact(&mut reply)?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        signal(self.pid, libc::SIGKILL);
        let _ = wait(self.pid);
    }
}

/// The time of each of `count` echoes.
pub fn echo_times(count: usize) -> Result<Vec<Duration>> {
    let mut terminal = Terminal::start(&["echo"])?;
    for _ in 0..=count / 10 {
        terminal.echo(b'a')?;
    }
    let mut times = Vec::with_capacity(count);
    for turn in 0..count {
        let byte = b'a' + (turn % 20) as u8;
        let started = Instant::now();
        terminal.echo(byte)?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// Bytes per second that a reader gets out of a terminal.
pub fn stream(kind: OutputKind, bytes: u64) -> Result<f64> {
    let mut terminal = Terminal::start(&["print-on-terminal", kind.name(), &bytes.to_string()])?;
    let mut ready = [0];
    terminal.master.read_exact(&mut ready)?;
    if ready[0] != READY {
        return Err("the program on the terminal did not send its ready byte".into());
    }
    let pattern = Pattern::on_terminal(kind);
    let mut check = PatternCheck::new(&pattern);
    let expected = terminal_bytes(kind, bytes);
    let mut buffer = vec![0; BUFFER_BYTES];
    let started = Instant::now();
    terminal.master.write_all(b"g")?;
    while check.received < expected {
        // EIO at the end of the terminal is an error here, because bytes are still missing.
        let count = terminal.master.read(&mut buffer)?;
        check.feed(&buffer[..count]);
    }
    let time = started.elapsed();
    if let Some(at) = check.first_mismatch {
        return Err(format!("the raw terminal returned wrong bytes at offset {at}").into());
    }
    Ok(expected as f64 / time.as_secs_f64())
}

fn open_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are to locals, or NULL where `openpty` allows it.
    let result = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `openpty` has just opened both, and no one else owns them.
    let pair = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // A program that inherited the master of its own terminal would never see a hang-up.
    // SAFETY: the descriptors are open.
    unsafe {
        libc::fcntl(pair.0.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(pair.1.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
    }
    Ok(pair)
}
