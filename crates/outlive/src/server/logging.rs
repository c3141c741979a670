//! Structured logs on stderr, without ever waiting for whoever reads them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use tracing_subscriber::EnvFilter;

/// Lines that may wait for stderr; more are dropped and counted.
const MAX_LINES: usize = 1024;

static DROPPED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Lines(SyncSender<Vec<u8>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(line.to_vec()).is_err() {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn start(level: &str, json: bool) {
    let (sender, lines) = sync_channel::<Vec<u8>>(MAX_LINES);
    // A thread of its own: a full pipe behind stderr stops this thread and nothing else.
    std::thread::spawn(move || {
        for line in lines {
            let mut stderr = io::stderr().lock();
            let _ = stderr.write_all(&line);
            match DROPPED.swap(0, Relaxed) {
                0 => {}
                count => drop(writeln!(stderr, "outlive: {count} log lines were dropped")),
            }
        }
    });
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = Lines(sender);
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(move || writer.clone());
    if json {
        builder.json().init();
    } else {
        builder.init();
    }
}
