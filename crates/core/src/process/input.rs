//! Writing to a program's stdin or terminal.
//!
//! Writers take turns; the queue is bounded in bytes. A program that does not read delays only those who
//! write to it, and they get a clear answer in time.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use rustix::termios::Winsize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::attach::Size;
use crate::log::Log;
use crate::{Error, Result, lock};

#[derive(Default)]
pub(super) struct Input {
    end: Mutex<Option<Arc<End>>>,
    turn: tokio::sync::Mutex<()>,
    queued: AtomicU64,
}

/// Our copy of the writing end. Joins the runtime's poller only when a write has to wait.
struct End {
    fd: Arc<OwnedFd>,
    polled: Mutex<Option<Arc<AsyncFd<Arc<OwnedFd>>>>>,
}

impl Input {
    pub(super) fn open(&self, fd: Option<OwnedFd>) {
        *lock(&self.end) = fd.map(|fd| Arc::new(End { fd: Arc::new(fd), polled: Mutex::default() }));
    }

    /// Closes our copy; the holder closes its own when told.
    pub(super) fn close(&self) -> bool {
        lock(&self.end).take().is_some()
    }

    fn end(&self) -> Result<Arc<End>> {
        lock(&self.end)
            .clone()
            .ok_or_else(|| Error::conflict("no_stdin", "process does not accept stdin: it is closed or was never open"))
    }

    pub(super) async fn write(&self, log: &Log, bytes: &[u8], limits: Limits) -> Result<()> {
        let end = self.end()?;
        let waiting = Queued::enter(&self.queued, bytes.len() as u64, limits.most_queued)?;
        let mut written = 0;
        let work = async {
            let _turn = self.turn.lock().await;
            while written < bytes.len() {
                let count = end.write(&bytes[written..]).await?;
                written += count;
                log.add_input(count);
            }
            Ok(())
        };
        let result = tokio::select! {
            done = tokio::time::timeout(limits.patience, work) => done.unwrap_or(Err(None)),
            _ = log.until_exit() => return Err(Error::conflict("not_running", "process is not running")),
        };
        drop(waiting);
        result.map_err(|refused: Option<Errno>| match refused {
            None => Error::InputNotRead { written: written as u64 },
            Some(_) => Error::conflict("stdin_closed", "the program has closed its stdin"),
        })
    }

    pub(super) fn resize(&self, size: Size) -> Result<()> {
        let end = self.end().map_err(|_| Error::conflict("not_running", "PTY resize handle unavailable"))?;
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&*end.fd, size)
            .map_err(|_| Error::conflict("not_a_terminal", "process is not running in tty mode"))
    }
}

impl Input {
    /// By the terminal, which knows who is in its foreground.
    pub(super) fn signal_foreground(&self, signal: u8) -> Result<()> {
        let refused = || Error::conflict("not_a_terminal", "process is not running in tty mode");
        let end = self.end().map_err(|_| refused())?;
        let group = rustix::termios::tcgetpgrp(&*end.fd).map_err(|_| refused())?;
        let number = rustix::process::Signal::from_named_raw(i32::from(signal))
            .ok_or_else(|| Error::invalid("signal", "a signal that has a name", signal))?;
        if group.is_init() {
            return Err(refused());
        }
        // Whoever has just ended needs no signal.
        let _ = rustix::process::kill_process_group(group, number);
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) most_queued: u64,
    pub(super) patience: Duration,
}

impl End {
    /// `Err(None)` never comes from here; it stands for lost patience in `Input::write`.
    async fn write(&self, bytes: &[u8]) -> std::result::Result<usize, Option<Errno>> {
        // Almost always there is room, and then the poller need not know of this descriptor.
        match write(&self.fd, bytes) {
            Err(Errno::AGAIN) => {}
            other => return other.map_err(Some),
        }
        let polled = self.polled().map_err(Some)?;
        loop {
            let mut ready = polled.writable().await.map_err(|_| Some(Errno::IO))?;
            match write(&self.fd, bytes) {
                // A terminal without a user stays full for ever, and "hung up" is never cleared.
                Err(Errno::AGAIN) if ready.ready().is_write_closed() => return Err(Some(Errno::PIPE)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                other => return other.map_err(Some),
            }
        }
    }

    fn polled(&self) -> std::result::Result<Arc<AsyncFd<Arc<OwnedFd>>>, Errno> {
        let mut polled = lock(&self.polled);
        if let Some(polled) = &*polled {
            return Ok(Arc::clone(polled));
        }
        let new = crate::polled::poll(Arc::clone(&self.fd), Interest::WRITABLE).map_err(|_| Errno::NOMEM)?;
        Ok(Arc::clone(polled.insert(Arc::new(new))))
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

/// A place in the queue, given back when dropped.
struct Queued<'a> {
    queued: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Queued<'a> {
    fn enter(queued: &'a AtomicU64, bytes: u64, most: u64) -> Result<Self> {
        let before = queued.fetch_add(bytes, SeqCst);
        let place = Self { queued, bytes };
        // A single large write is fine as long as nobody waits before it.
        if before > 0 && before + bytes > most {
            return Err(Error::Exhausted {
                code: "input_queue_full",
                message: "the program does not read its stdin and the input queue is full; try again later".into(),
            });
        }
        Ok(place)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.bytes, SeqCst);
    }
}
