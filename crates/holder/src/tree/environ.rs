//! Finding members by OUTLIVE_PROCESS_ID in their environment, where the mark could not be set.
//!
//! Reading an environment takes the lock of that process's memory and can hang for as long as the process
//! is stuck in the kernel. So it happens on a thread of its own that is left behind if it does not come
//! back, and the pid that held it is not asked again. At most [`MAX_STUCK`] threads are ever lost this way;
//! then this search is off.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::scan::Seen;

/// Put into the environment of every managed process.
pub const VARIABLE: &str = "OUTLIVE_PROCESS_ID";

const MAX_STUCK: usize = 4;

/// How long one search may hold up a pass.
const PATIENCE: Duration = Duration::from_millis(200);

/// Environments are bounded by the kernel at a quarter of the stack limit; ours is near the start or the
/// end of them.
const MAX_ENVIRON_BYTES: u64 = 4 * 1024 * 1024;

/// Enough for the buffers of one file read.
const STACK_BYTES: usize = 64 * 1024;

/// One environment search per pass, for all trees that need it.
#[derive(Default)]
pub(super) struct Search {
    stuck_threads: Arc<AtomicUsize>,
    /// (pid, start time) of processes that hung a search.
    avoid: Vec<(i32, u64)>,
}

impl Search {
    /// For each process among `seen` that has a wanted id: its pid and which one.
    pub(super) fn run(&mut self, ids: &[String], seen: &[Seen]) -> Vec<(i32, usize)> {
        if ids.is_empty() || self.stuck_threads.load(Ordering::Relaxed) >= MAX_STUCK {
            return Vec::new();
        }
        let asked: Vec<Seen> = seen
            .iter()
            .filter(|seen| !seen.is_dead() && !self.avoid.contains(&(seen.pid, seen.start_time)))
            .copied()
            .collect();
        let reading = Arc::new(AtomicI32::new(0));
        let (sender, receiver) = mpsc::channel();
        let work = Work {
            ids: ids.to_vec(),
            pids: asked.iter().map(|seen| seen.pid).collect(),
            reading: Arc::clone(&reading),
            found: sender,
        };
        let stuck_threads = Arc::clone(&self.stuck_threads);
        // Counted as stuck until it has come back.
        stuck_threads.fetch_add(1, Ordering::Relaxed);
        let body = move || {
            work.run();
            stuck_threads.fetch_sub(1, Ordering::Relaxed);
        };
        let builder = thread::Builder::new().name("environ".into()).stack_size(STACK_BYTES);
        if builder.spawn(body).is_err() {
            self.stuck_threads.fetch_sub(1, Ordering::Relaxed);
            return Vec::new();
        }
        let (found, complete) = collect(&receiver, Instant::now() + PATIENCE);
        if !complete {
            let pid = reading.load(Ordering::Relaxed);
            self.avoid.extend(asked.iter().filter(|seen| seen.pid == pid).map(|seen| (pid, seen.start_time)));
        }
        found
    }
}

fn collect(receiver: &mpsc::Receiver<(i32, usize)>, until: Instant) -> (Vec<(i32, usize)>, bool) {
    let mut found = Vec::new();
    loop {
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(hit) => found.push(hit),
            Err(RecvTimeoutError::Disconnected) => return (found, true),
            Err(RecvTimeoutError::Timeout) => return (found, false),
        }
    }
}

struct Work {
    ids: Vec<String>,
    pids: Vec<i32>,
    reading: Arc<AtomicI32>,
    found: mpsc::Sender<(i32, usize)>,
}

impl Work {
    fn run(self) {
        for pid in self.pids {
            self.reading.store(pid, Ordering::Relaxed);
            let Some(value) = value_of(pid) else { continue };
            let Some(at) = self.ids.iter().position(|id| id.as_bytes() == value) else {
                continue;
            };
            // Nobody waits any more: the pass went on without us.
            if self.found.send((pid, at)).is_err() {
                return;
            }
        }
    }
}

/// The pids among `seen` whose environment names `id`. Blocks: not for the holder, fine on a thread that
/// may wait.
pub fn carriers(id: &str, seen: &[Seen]) -> Vec<i32> {
    let living = seen.iter().filter(|seen| !seen.is_dead());
    living.map(|seen| seen.pid).filter(|pid| value_of(*pid).as_deref() == Some(id.as_bytes())).collect()
}

fn value_of(pid: i32) -> Option<Vec<u8>> {
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut text = Vec::new();
    file.take(MAX_ENVIRON_BYTES).read_to_end(&mut text).ok()?;
    parse(&text).map(<[u8]>::to_vec)
}

fn parse(environ: &[u8]) -> Option<&[u8]> {
    environ.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_at_the_start_of_an_entry_counts() {
        assert_eq!(parse(b"A=1\0OUTLIVE_PROCESS_ID=proc_1\0B=2\0"), Some(&b"proc_1"[..]));
        assert_eq!(parse(b"OUTLIVE_PROCESS_ID="), Some(&b""[..]));
        for environ in ["", "A=OUTLIVE_PROCESS_ID=x", "XOUTLIVE_PROCESS_ID=x", "OUTLIVE_PROCESS_IDS=x"] {
            assert_eq!(parse(environ.as_bytes()), None, "{environ}");
        }
    }
}
