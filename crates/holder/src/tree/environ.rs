//! Finds members by OUTLIVE_PROCESS_ID in their environment, where the tree tag could not be set.
//!
//! Reading an environment takes the lock of that process's memory, and hangs while the process is stuck in the kernel.
//! Therefore each search runs on a thread of its own. A thread that hangs is abandoned, and the process that blocked it
//! is skipped from then on. After [`MAX_STUCK_THREADS`] hung threads no further search is made.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::scan::ScannedProcess;

/// Set in the environment of every managed process.
pub const VARIABLE: &str = "OUTLIVE_PROCESS_ID";

const MAX_STUCK_THREADS: usize = 4;

/// How long a search may delay a pass.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(200);

/// The kernel limits environments to a quarter of the stack limit. Our variable is near the start or the end.
const MAX_ENVIRON_BYTES: u64 = 4 * 1024 * 1024;

/// Enough to read one file.
const STACK_BYTES: usize = 64 * 1024;

/// One environment search per pass, for all trees that need it.
#[derive(Default)]
pub(super) struct EnvironSearch {
    stuck_threads: Arc<AtomicUsize>,
    /// (pid, start time) of processes that blocked a search.
    skipped: Vec<(i32, u64)>,
}

impl EnvironSearch {
    /// For each process with one of the ids: its pid, and the index of the id.
    pub(super) fn run(&mut self, ids: &[String], processes: &[ScannedProcess]) -> Vec<(i32, usize)> {
        if ids.is_empty() || self.stuck_threads.load(Ordering::Relaxed) >= MAX_STUCK_THREADS {
            return Vec::new();
        }
        let candidates: Vec<ScannedProcess> = processes
            .iter()
            .filter(|process| !process.is_dead() && !self.skipped.contains(&(process.pid, process.start_time)))
            .copied()
            .collect();
        let reading = Arc::new(AtomicI32::new(0));
        let (sender, receiver) = mpsc::channel();
        let task = SearchTask {
            ids: ids.to_vec(),
            pids: candidates.iter().map(|process| process.pid).collect(),
            reading: Arc::clone(&reading),
            found: sender,
        };
        let stuck_threads = Arc::clone(&self.stuck_threads);
        // Counted as stuck until it has finished.
        stuck_threads.fetch_add(1, Ordering::Relaxed);
        let body = move || {
            task.run();
            stuck_threads.fetch_sub(1, Ordering::Relaxed);
        };
        let builder = thread::Builder::new().name("environ".into()).stack_size(STACK_BYTES);
        if builder.spawn(body).is_err() {
            self.stuck_threads.fetch_sub(1, Ordering::Relaxed);
            return Vec::new();
        }
        let (found, complete) = collect(&receiver, Instant::now() + SEARCH_TIMEOUT);
        if !complete {
            let pid = reading.load(Ordering::Relaxed);
            let blocking = candidates.iter().filter(|process| process.pid == pid);
            self.skipped.extend(blocking.map(|process| (pid, process.start_time)));
        }
        found
    }
}

/// Returns the results so far, and whether the search has finished.
fn collect(receiver: &mpsc::Receiver<(i32, usize)>, deadline: Instant) -> (Vec<(i32, usize)>, bool) {
    let mut found = Vec::new();
    loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => found.push(result),
            Err(RecvTimeoutError::Disconnected) => return (found, true),
            Err(RecvTimeoutError::Timeout) => return (found, false),
        }
    }
}

struct SearchTask {
    ids: Vec<String>,
    pids: Vec<i32>,
    /// The pid whose environment is being read.
    reading: Arc<AtomicI32>,
    found: mpsc::Sender<(i32, usize)>,
}

impl SearchTask {
    fn run(self) {
        for pid in self.pids {
            self.reading.store(pid, Ordering::Relaxed);
            let Some(value) = read_id(pid) else { continue };
            let Some(index) = self.ids.iter().position(|id| id.as_bytes() == value) else {
                continue;
            };
            // The receiver is dropped when the search has timed out.
            if self.found.send((pid, index)).is_err() {
                return;
            }
        }
    }
}

/// The pids of processes whose environment contains `id`. May block, so it must not be called in the holder.
pub fn processes_with_id(id: &str, processes: &[ScannedProcess]) -> Vec<i32> {
    let living = processes.iter().filter(|process| !process.is_dead());
    living.map(|process| process.pid).filter(|pid| read_id(*pid).as_deref() == Some(id.as_bytes())).collect()
}

fn read_id(pid: i32) -> Option<Vec<u8>> {
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
    fn only_an_entry_with_the_exact_name_matches() {
        assert_eq!(parse(b"A=1\0OUTLIVE_PROCESS_ID=proc_1\0B=2\0"), Some(&b"proc_1"[..]));
        assert_eq!(parse(b"OUTLIVE_PROCESS_ID="), Some(&b""[..]));
        for environ in ["", "A=OUTLIVE_PROCESS_ID=x", "XOUTLIVE_PROCESS_ID=x", "OUTLIVE_PROCESS_IDS=x"] {
            assert_eq!(parse(environ.as_bytes()), None, "{environ}");
        }
    }
}
