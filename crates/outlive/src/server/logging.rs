//! Structured logs on stderr. A slow reader of stderr never blocks the server.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// Lines queued for stderr; more are dropped and counted.
const MAX_QUEUED_LINES: usize = 1024;

/// After a write, the lines of this time are gathered for the next one, so that their senders need not wake the thread.
const GATHER_INTERVAL: Duration = Duration::from_millis(10);

static DROPPED: AtomicU64 = AtomicU64::new(0);

static QUEUE: OnceLock<SyncSender<LogMessage>> = OnceLock::new();

enum LogMessage {
    Line(Vec<u8>),
    /// Replies when everything before it has been written.
    Flush(SyncSender<()>),
}

#[derive(Clone)]
struct LogWriter(SyncSender<LogMessage>);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(LogMessage::Line(line.to_vec())).is_err() {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn start(level: &str, json: bool) -> io::Result<()> {
    let (sender, messages) = sync_channel(MAX_QUEUED_LINES);
    let _ = QUEUE.set(sender.clone());
    // If the pipe behind stderr is full, only this thread blocks.
    std::thread::Builder::new().name("log".into()).spawn(move || write_messages(&messages))?;
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = LogWriter(sender);
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(move || writer.clone());
    if json {
        builder.json().init();
    } else {
        builder.init();
    }
    Ok(())
}

/// Writes queued lines before the process ends.
pub(super) fn flush() {
    const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
    let (done, written) = sync_channel(1);
    if let Some(queue) = QUEUE.get()
        && queue.try_send(LogMessage::Flush(done)).is_ok()
    {
        // The reader of stderr may have stopped reading.
        let _ = written.recv_timeout(FLUSH_TIMEOUT);
    }
}

fn write_messages(messages: &Receiver<LogMessage>) {
    while let Ok(first) = messages.recv() {
        let mut text = Vec::new();
        let mut flushes = Vec::new();
        for message in std::iter::once(first).chain(messages.try_iter().take(MAX_QUEUED_LINES)) {
            match message {
                LogMessage::Line(line) => text.extend_from_slice(&line),
                LogMessage::Flush(done) => flushes.push(done),
            }
        }
        let _ = io::stderr().write_all(&text);
        match DROPPED.swap(0, Relaxed) {
            0 => {}
            count => tracing::error!(count, "log lines were dropped"),
        }
        for done in flushes {
            let _ = done.try_send(());
        }
        std::thread::sleep(GATHER_INTERVAL);
    }
}
