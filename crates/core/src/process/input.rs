//! Writing to a program's stdin or terminal.
//!
//! Writers take turns, and the bytes that wait are limited. A program that does not read delays only its own writers,
//! which get an error after a timeout.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_holder::clock;
use rustix::io::Errno;
use rustix::termios::Winsize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Process;
use super::state::Command;
use crate::attach::Size;
use crate::log::Log;
use crate::{Error, Result, lock};

impl Process {
    /// Writes all of `bytes`, however slowly the program reads, then closes its stdin.
    pub(crate) async fn write_whole_stdin(&self, bytes: &[u8]) {
        const WRITE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
        if let Ok(log) = self.log() {
            let limits = WriteLimits { max_queued_bytes: u64::MAX, timeout: WRITE_TIMEOUT };
            let _ = self.input.write(&log, bytes, limits).await;
            self.input.close();
            self.services.link.close_input(self.key);
        }
    }

    pub async fn input(&self, bytes: &[u8]) -> Result<()> {
        self.decide(Command::Input).await?;
        let log = self.log()?;
        let config = self.services.config();
        let limits = WriteLimits {
            max_queued_bytes: config.max_queued_input_bytes,
            timeout: Duration::from_millis(config.input_timeout_ms),
        };
        self.input.write(&log, bytes, limits).await?;
        self.lock().last_input_at_ms = Some(clock::wall_ms());
        Ok(())
    }

    /// Closes the stdin pipe, so that the program reads end of file.
    pub async fn close_input(&self) -> Result<()> {
        self.decide(Command::Input).await?;
        if self.is_terminal() {
            return Err(Error::conflict(
                "is_terminal",
                "a terminal has no stdin to close; send \\x04 (Ctrl-D) as input",
            ));
        }
        self.input.close();
        self.services.link.close_input(self.key);
        Ok(())
    }
}

/// The input of a process. Small while it is closed: exited processes have one too.
#[derive(Default)]
pub(super) struct Input {
    write_end: Mutex<Option<Arc<WriteEnd>>>,
}

/// The server's copy of the write end. Registered with tokio's poller only when a write has to wait.
struct WriteEnd {
    fd: Arc<OwnedFd>,
    async_fd: Mutex<Option<Arc<AsyncFd<Arc<OwnedFd>>>>>,
    /// Held while one writer's bytes are written, so that inputs do not interleave.
    write_turn: tokio::sync::Mutex<()>,
    queued_bytes: AtomicU64,
}

impl Input {
    pub(super) fn open(&self, fd: Option<OwnedFd>) {
        *lock(&self.write_end) = fd.map(|fd| Arc::new(WriteEnd::new(fd)));
    }

    /// Closes the server's copy; the holder closes its own on `CloseInput`.
    pub(super) fn close(&self) -> bool {
        lock(&self.write_end).take().is_some()
    }

    fn write_end(&self) -> Result<Arc<WriteEnd>> {
        lock(&self.write_end)
            .clone()
            .ok_or_else(|| Error::conflict("no_stdin", "process does not accept stdin: it is closed or was never open"))
    }

    pub(super) async fn write(&self, log: &Log, bytes: &[u8], limits: WriteLimits) -> Result<()> {
        let end = self.write_end()?;
        let _queued = QueuedBytes::reserve(&end.queued_bytes, bytes.len() as u64, limits.max_queued_bytes)?;
        let mut written = 0;
        let write_all = async {
            let _turn = end.write_turn.lock().await;
            while written < bytes.len() {
                let count = end.write(&bytes[written..]).await?;
                written += count;
                log.add_input(count);
            }
            Ok::<(), Errno>(())
        };
        let result = tokio::select! {
            result = tokio::time::timeout(limits.timeout, write_all) => result,
            _ = log.wait_exit() => return Err(Error::conflict("not_running", "process is not running")),
        };
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Error::conflict("stdin_closed", "the program has closed its stdin")),
            Err(_elapsed) => Err(Error::InputNotRead { written: written as u64 }),
        }
    }

    pub(super) fn resize(&self, size: Size) -> Result<()> {
        let end = self.write_end().map_err(|_| Error::conflict("not_running", "PTY resize handle unavailable"))?;
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&*end.fd, size)
            .map_err(|_| Error::conflict("not_a_terminal", "process is not running in tty mode"))
    }

    /// Signals the foreground process group, which the terminal knows.
    pub(super) fn signal_foreground(&self, signal: u8) -> Result<()> {
        let not_a_terminal = || Error::conflict("not_a_terminal", "process is not running in tty mode");
        let end = self.write_end().map_err(|_| not_a_terminal())?;
        let group = rustix::termios::tcgetpgrp(&*end.fd).map_err(|_| not_a_terminal())?;
        let number = rustix::process::Signal::from_named_raw(i32::from(signal))
            .ok_or_else(|| Error::invalid("signal", "a signal that has a name", signal))?;
        if group.is_init() {
            return Err(not_a_terminal());
        }
        // A group that has just exited needs no signal.
        let _ = rustix::process::kill_process_group(group, number);
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub(super) struct WriteLimits {
    pub(super) max_queued_bytes: u64,
    pub(super) timeout: Duration,
}

impl WriteEnd {
    fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Arc::new(fd),
            async_fd: Mutex::default(),
            write_turn: tokio::sync::Mutex::default(),
            queued_bytes: AtomicU64::new(0),
        }
    }

    async fn write(&self, bytes: &[u8]) -> std::result::Result<usize, Errno> {
        // The pipe almost always has room, and then the descriptor need not be registered.
        match write(&self.fd, bytes) {
            Err(Errno::AGAIN) => {}
            other => return other,
        }
        let async_fd = self.async_fd()?;
        loop {
            let mut ready = async_fd.writable().await.map_err(|_| Errno::IO)?;
            match write(&self.fd, bytes) {
                // A terminal without a reader stays full, and its hang-up state is never cleared.
                Err(Errno::AGAIN) if ready.ready().is_write_closed() => return Err(Errno::PIPE),
                Err(Errno::AGAIN) => ready.clear_ready(),
                other => return other,
            }
        }
    }

    fn async_fd(&self) -> std::result::Result<Arc<AsyncFd<Arc<OwnedFd>>>, Errno> {
        let mut async_fd = lock(&self.async_fd);
        if let Some(async_fd) = &*async_fd {
            return Ok(Arc::clone(async_fd));
        }
        let new = crate::async_fd::register(Arc::clone(&self.fd), Interest::WRITABLE).map_err(|_| Errno::NOMEM)?;
        Ok(Arc::clone(async_fd.insert(Arc::new(new))))
    }
}

fn write(fd: &OwnedFd, bytes: &[u8]) -> std::result::Result<usize, Errno> {
    loop {
        match rustix::io::write(fd, bytes) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Bytes counted as queued, until dropped.
struct QueuedBytes<'a> {
    queued: &'a AtomicU64,
    bytes: u64,
}

impl<'a> QueuedBytes<'a> {
    fn reserve(queued: &'a AtomicU64, bytes: u64, limit: u64) -> Result<Self> {
        let before = queued.fetch_add(bytes, SeqCst);
        let reserved = Self { queued, bytes };
        // A single write may exceed the limit if no other write is queued.
        if before > 0 && before + bytes > limit {
            return Err(Error::Exhausted {
                code: "input_queue_full",
                message: "the program does not read its stdin and the input queue is full; try again later".into(),
            });
        }
        Ok(reserved)
    }
}

impl Drop for QueuedBytes<'_> {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.bytes, SeqCst);
    }
}
