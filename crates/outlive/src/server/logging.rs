//! Structured logs on stderr, without ever waiting for whoever reads them.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// Lines that may wait for stderr; more are dropped and counted.
const MAX_LINES: usize = 1024;

/// A line that comes first is written at once; those that follow within this time share a write, and whoever says them
/// need not wake us.
const GATHER: Duration = Duration::from_millis(10);

static DROPPED: AtomicU64 = AtomicU64::new(0);

static QUEUE: OnceLock<SyncSender<Line>> = OnceLock::new();

enum Line {
    Text(Vec<u8>),
    /// Say so when everything before it has been written.
    Flush(SyncSender<()>),
}

#[derive(Clone)]
struct Lines(SyncSender<Line>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Line::Text(line.to_vec())).is_err() {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn start(level: &str, json: bool) -> io::Result<()> {
    let (sender, lines) = sync_channel(MAX_LINES);
    let _ = QUEUE.set(sender.clone());
    // A thread of its own: a full pipe behind stderr stops this thread and nothing else.
    std::thread::Builder::new().name("log".into()).spawn(move || write_all(&lines))?;
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = Lines(sender);
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(move || writer.clone());
    if json {
        builder.json().init();
    } else {
        builder.init();
    }
    Ok(())
}

/// The last words before this process ends.
pub(super) fn flush() {
    const WITHIN: Duration = Duration::from_millis(500);
    let (done, written) = sync_channel(1);
    if let Some(queue) = QUEUE.get()
        && queue.try_send(Line::Flush(done)).is_ok()
    {
        // Whoever reads stderr may have stopped doing so.
        let _ = written.recv_timeout(WITHIN);
    }
}

fn write_all(lines: &Receiver<Line>) {
    while let Ok(first) = lines.recv() {
        let mut text = Vec::new();
        let mut flushed = Vec::new();
        for line in std::iter::once(first).chain(lines.try_iter().take(MAX_LINES)) {
            match line {
                Line::Text(line) => text.extend_from_slice(&line),
                Line::Flush(done) => flushed.push(done),
            }
        }
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(&text);
        match DROPPED.swap(0, Relaxed) {
            0 => {}
            count => drop(writeln!(stderr, "outlive: {count} log lines were dropped")),
        }
        drop(stderr);
        for done in flushed {
            let _ = done.try_send(());
        }
        std::thread::sleep(GATHER);
    }
}
