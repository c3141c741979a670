//! Output to stdout and stderr.
//!
//! A separate thread prints program output, so that a pipe or terminal that does not read (`| less`, Ctrl-S) blocks
//! neither signals nor the connection.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::follow::{FollowEvent, Follower};
use super::error::Result;

/// Chunks (of up to 64 KiB) that wait to be printed.
const MAX_QUEUED_CHUNKS: usize = 4;
/// Printed bytes are acknowledged after this delay, or earlier when there are many.
const ACK_DELAY: Duration = Duration::from_millis(20);

pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

pub(crate) fn print_text(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

pub(crate) fn print_line(line: impl AsRef<str>) -> Result<()> {
    print_text(&format!("{}\n", line.as_ref()))
}

pub(crate) fn print_json(value: &serde_json::Value) -> Result<()> {
    print_line(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Prints one line to stderr. Errors are ignored: there is no other place to report them.
pub(crate) fn print_error(message: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "outlive: {message}");
}

/// Prints a notice in brackets between the output of a program. In raw mode a line needs `\r\n`.
pub(crate) fn print_notice(message: impl std::fmt::Display) {
    let end = if io::stderr().is_terminal() { "\r\n" } else { "\n" };
    let _ = write!(io::stderr(), "[{message}]{end}");
}

/// Writes control sequences to the terminal.
pub(crate) fn write_terminal(bytes: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes.as_bytes()).and_then(|()| out.flush());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Stdout,
    Stderr,
    Discard,
}

struct PrintJob {
    sink: Sink,
    bytes: Bytes,
    /// Bytes of the log that count as printed afterwards.
    log_bytes: usize,
}

/// Writes program output at once, without the printing thread.
pub(crate) fn write_to(sink: Sink, bytes: &[u8]) -> Result<()> {
    match sink {
        Sink::Stdout => write_all(io::stdout(), bytes)?,
        Sink::Stderr => write_all(io::stderr(), bytes)?,
        Sink::Discard => {}
    }
    Ok(())
}

/// The printing thread.
struct Printer {
    jobs: std::sync::mpsc::Sender<PrintJob>,
    done: mpsc::UnboundedReceiver<io::Result<usize>>,
    queued: usize,
}

impl Printer {
    fn start() -> Self {
        let (jobs, queue) = std::sync::mpsc::channel::<PrintJob>();
        let (report, done) = mpsc::unbounded_channel();
        // Not a blocking task of the runtime: the runtime would wait for it on shutdown.
        std::thread::spawn(move || {
            for job in queue {
                let printed = match job.sink {
                    Sink::Stdout => write_all(io::stdout(), &job.bytes),
                    Sink::Stderr => write_all(io::stderr(), &job.bytes),
                    Sink::Discard => Ok(()),
                };
                if report.send(printed.map(|()| job.log_bytes)).is_err() {
                    return;
                }
            }
        });
        Self { jobs, done, queued: 0 }
    }

    fn print(&mut self, job: PrintJob) {
        if self.jobs.send(job).is_ok() {
            self.queued += 1;
        }
    }

    /// Waits until the next chunk is printed. Returns its log bytes. Cancel safe.
    async fn next_printed(&mut self) -> Result<usize> {
        let done = self.done.recv().await;
        self.queued -= 1;
        Ok(done.unwrap_or_else(|| Err(io::Error::other("the printing thread ended")))?)
    }
}

fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // Another process that shares the descriptor made it non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Follows a process and prints its output. Acknowledges to the server what was printed.
pub(crate) struct FollowPrinter {
    pub(crate) follower: Follower,
    printer: Printer,
    acknowledge_at: Option<Instant>,
}

impl FollowPrinter {
    pub(crate) fn new(follower: Follower) -> Self {
        Self { follower, printer: Printer::start(), acknowledge_at: None }
    }

    /// Returns the next event. Prints and acknowledges meanwhile. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<FollowEvent> {
        loop {
            let has_room = self.printer.queued < MAX_QUEUED_CHUNKS;
            let is_printing = self.printer.queued > 0;
            tokio::select! {
                biased;
                printed = self.printer.next_printed(), if is_printing => self.on_printed(printed?),
                () = sleep_until(self.acknowledge_at), if self.acknowledge_at.is_some() => {
                    self.acknowledge_at = None;
                    self.follower.acknowledge(true);
                }
                event = self.follower.next(), if has_room => return event,
            }
        }
    }

    fn on_printed(&mut self, log_bytes: usize) {
        self.follower.position.on_printed(log_bytes);
        self.follower.acknowledge(false);
        if self.acknowledge_at.is_none() && self.follower.position.has_unacknowledged() {
            self.acknowledge_at = Some(Instant::now() + ACK_DELAY);
        }
    }

    /// Prints `bytes`, which represent `log_bytes` bytes of the log.
    pub(crate) fn print(&mut self, sink: Sink, bytes: Bytes, log_bytes: usize) {
        self.printer.print(PrintJob { sink, bytes, log_bytes });
    }

    /// Waits until all queued output is printed.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        while self.printer.queued > 0 {
            let log_bytes = self.printer.next_printed().await?;
            self.on_printed(log_bytes);
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        self.follower.close().await;
    }
}

pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
