//! Everything that leaves through stdout and stderr.
//!
//! Program output goes through a thread of its own, so that a reader who does not read (`| less`, a stopped
//! terminal) keeps neither signals nor the connection waiting.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::failure::{Failure, Result};
use super::wire::follow::{Follower, Item};

/// Pieces (of up to 64 KiB) between arriving and being printed.
const MOST_WAITING: usize = 4;
/// The server is told of the last printed bytes after this pause; of much, at once.
const ACKNOWLEDGE_AFTER: std::time::Duration = std::time::Duration::from_millis(20);

pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Prints text as it is.
pub(crate) fn text(text: &str) -> Result<()> {
    bytes(text.as_bytes())
}

pub(crate) fn line(line: impl AsRef<str>) -> Result<()> {
    text(&format!("{}\n", line.as_ref()))
}

pub(crate) fn json(value: &serde_json::Value) -> Result<()> {
    line(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// One line on stderr. If that is closed there is nobody to tell.
pub(crate) fn complain(message: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "outlive: {message}");
}

/// A remark between the output of a program, in raw mode too.
pub(crate) fn remark(message: impl std::fmt::Display) {
    let end = if io::stderr().is_terminal() { "\r\n" } else { "\n" };
    let _ = write!(io::stderr(), "[{message}]{end}");
}

/// Raw bytes to the terminal.
pub(crate) fn terminal(bytes: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes.as_bytes()).and_then(|()| out.flush());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Stdout,
    Stderr,
    Nowhere,
}

struct Job {
    sink: Sink,
    bytes: Bytes,
    /// Bytes of the log that are dealt with when this is printed.
    weight: usize,
}

struct Printer {
    jobs: std::sync::mpsc::Sender<Job>,
    done: mpsc::UnboundedReceiver<io::Result<usize>>,
    waiting: usize,
}

impl Printer {
    fn start() -> Self {
        let (jobs, waiting) = std::sync::mpsc::channel::<Job>();
        let (tell, done) = mpsc::unbounded_channel();
        // Not one of the runtime's threads: those would be waited for at the end.
        std::thread::spawn(move || {
            for job in waiting {
                let printed = match job.sink {
                    Sink::Stdout => write_all(io::stdout(), &job.bytes),
                    Sink::Stderr => write_all(io::stderr(), &job.bytes),
                    Sink::Nowhere => Ok(()),
                };
                if tell.send(printed.map(|()| job.weight)).is_err() {
                    return;
                }
            }
        });
        Self { jobs, done, waiting: 0 }
    }

    fn print(&mut self, job: Job) {
        if self.jobs.send(job).is_ok() {
            self.waiting += 1;
        }
    }

    /// Waits for the next piece to be printed.
    async fn printed(&mut self) -> Result<usize> {
        let done = self.done.recv().await;
        self.waiting -= 1;
        Ok(done.unwrap_or_else(|| Err(io::Error::other("the printing thread has ended")))?)
    }
}

fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // Somebody who shares the descriptor made it non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A followed process whose output is printed; acknowledges as it prints.
pub(crate) struct Show {
    pub(crate) follower: Follower,
    printer: Printer,
    acknowledge_at: Option<tokio::time::Instant>,
}

impl Show {
    pub(crate) fn new(follower: Follower) -> Self {
        Self { follower, printer: Printer::start(), acknowledge_at: None }
    }

    /// The next thing to decide about; prints and acknowledges meanwhile. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Item> {
        loop {
            let has_room = self.printer.waiting < MOST_WAITING;
            let is_printing = self.printer.waiting > 0;
            tokio::select! {
                biased;
                printed = self.printer.printed(), if is_printing => self.printed(printed?),
                () = pause_until(self.acknowledge_at), if self.acknowledge_at.is_some() => {
                    self.acknowledge_at = None;
                    self.follower.acknowledge(true);
                }
                item = self.follower.next(), if has_room => return item,
            }
        }
    }

    fn printed(&mut self, weight: usize) {
        self.follower.position.printed(weight);
        self.follower.acknowledge(false);
        if self.acknowledge_at.is_none() && self.follower.position.is_unacknowledged() {
            self.acknowledge_at = Some(tokio::time::Instant::now() + ACKNOWLEDGE_AFTER);
        }
    }

    /// Prints `bytes`, which stand for `weight` bytes of the log.
    pub(crate) fn print(&mut self, sink: Sink, bytes: Bytes, weight: usize) {
        self.printer.print(Job { sink, bytes, weight });
    }

    /// Waits until everything is printed.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        while self.printer.waiting > 0 {
            let weight = self.printer.printed().await?;
            self.printed(weight);
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        self.follower.close().await;
    }
}

async fn pause_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// True for a failure that only means that nobody reads us any more.
pub(crate) fn is_closed(failure: &Failure) -> bool {
    matches!(failure, Failure::OutputClosed)
}
