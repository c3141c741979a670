//! A terminal with a program on it, and nobody in between.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::Result;
use crate::child::READY;
use crate::daemon::signal;
use crate::pattern::{Check, Kind, Pattern, terminal_bytes};
use crate::raw::spawn::{Plan, wait};

const BUFFER_BYTES: usize = 64 * 1024;

pub struct Terminal {
    master: File,
    pid: i32,
}

impl Terminal {
    /// Starts one of our own programs (child.rs).
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let (master, slave) = open_pair()?;
        let program = std::env::current_exe()?;
        let arguments: Vec<&str> = std::iter::once("child").chain(arguments.iter().copied()).collect();
        let pid = Plan::new(program.as_os_str(), &arguments, Some(slave.as_raw_fd()))?.start()?;
        Ok(Self { master: File::from(master), pid })
    }

    /// One byte in, its successor out.
    pub fn echo(&mut self, byte: u8) -> Result<()> {
        self.master.write_all(&[byte])?;
        let mut answer = [0];
        // What the kernel echoed before the program had set its mode is passed over.
        while answer[0] != byte.wrapping_add(1) {
            self.master.read_exact(&mut answer)?;
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

/// The times of single echoes.
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
pub fn stream(kind: Kind, bytes: u64) -> Result<f64> {
    let mut terminal = Terminal::start(&["print-on-terminal", kind.name(), &bytes.to_string()])?;
    let mut ready = [0];
    terminal.master.read_exact(&mut ready)?;
    if ready[0] != READY {
        return Err("the program on the terminal did not say that it was ready".into());
    }
    let pattern = Pattern::on_terminal(kind);
    let mut check = Check::new(&pattern);
    let expected = terminal_bytes(kind, bytes);
    let mut buffer = vec![0; BUFFER_BYTES];
    let started = Instant::now();
    terminal.master.write_all(b"g")?;
    while check.received < expected {
        // At the end this is EIO, which is an error here: something is missing.
        let count = terminal.master.read(&mut buffer)?;
        check.take(&buffer[..count]);
    }
    let time = started.elapsed();
    if let Some(at) = check.wrong_at {
        return Err(format!("the raw terminal gave a wrong byte at {at}").into());
    }
    Ok(expected as f64 / time.as_secs_f64())
}

fn open_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: pointers to locals, and NULL where that is allowed.
    let result = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just opened and belong to nobody else.
    let pair = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // A program that held the master of its own terminal would never see a hang-up.
    // SAFETY: open descriptors.
    unsafe {
        libc::fcntl(pair.0.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(pair.1.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
    }
    Ok(pair)
}
