//! The thread that signals and kills trees, so that no scan of /proc delays the event loop.
//!
//! ```text
//!   event loop ── submit(job) ──▶ inbox ──▶ worker: pass, pass, … ──▶ results ── notify ──▶ event loop: take_results()
//! ```
//!
//! Every pass over /proc serves all jobs, and the wait for one stubborn tree is a poll that a new job interrupts: no
//! tree delays another. Nothing here spawns, reaps or blocks on a file of a stuck process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::process::Signal;

use super::cgroup;
use super::environ::EnvironSearch;
use super::membership::{ProcessIndex, TreeRoot};
use super::scan::{ProcFs, ScannedProcess};
use super::tree_kill::{PinnedProcess, TreeKill, send_signal, signal_from_number};

/// Maximum number of pidfds to wait for exits with. Further processes are checked every [`RECHECK_INTERVAL`].
const MAX_PIDFDS: usize = 64;
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Pause after a failed pass (no memory).
const PASS_BACKOFF: Duration = Duration::from_millis(10);

const STACK_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends this signal once to every member. SIGTERM is followed by SIGCONT, so that stopped members can handle it.
    Signal(i32),
    /// Kills every member, and members that they fork in the meantime.
    Kill,
}

#[derive(Clone, Debug)]
pub struct Job {
    /// Returned in the result. The event loop gives each job a new id, also when the tree has another job already.
    pub id: u64,
    pub root: TreeRoot,
    pub cgroup: Option<PathBuf>,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobResult {
    pub id: u64,
    /// Processes that a signal was sent to.
    pub signalled: u32,
    /// After [`Action::Kill`]: processes that still run. After [`Action::Signal`]: processes that we may not signal.
    pub survivors: u32,
}

#[derive(Default)]
struct Inbox {
    jobs: Vec<Job>,
    exempt: Vec<i32>,
    closed: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    results: Mutex<Vec<JobResult>>,
    wake: OwnedFd,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn results(&self) -> MutexGuard<'_, Vec<JobResult>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the thread. After it is dropped, the thread finishes its jobs and exits.
pub struct Killer {
    shared: Arc<Shared>,
}

impl Killer {
    /// `notify` is an eventfd, written whenever there are results. Processes in `exempt` are never signalled.
    pub fn start(notify: OwnedFd, exempt: Vec<i32>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inbox = Mutex::new(Inbox { exempt, ..Inbox::default() });
        let shared = Arc::new(Shared { inbox, results: Mutex::default(), wake });
        let worker = Worker {
            shared: Arc::clone(&shared),
            notify,
            procfs: ProcFs::open()?,
            environ_search: EnvironSearch::default(),
            tree_signals: Vec::new(),
            tree_kills: Vec::new(),
        };
        let builder = thread::Builder::new().name("killer".into()).stack_size(STACK_BYTES);
        builder.spawn(move || worker.run())?;
        Ok(Self { shared })
    }

    pub fn submit(&self, job: Job) {
        self.shared.inbox().jobs.push(job);
        write_eventfd(&self.shared.wake);
    }

    /// Replaces the list: a restarted server has another pid, and its old pid may become that of a member.
    pub fn set_exempt(&self, exempt: Vec<i32>) {
        self.shared.inbox().exempt = exempt;
    }

    pub fn take_results(&self) -> Vec<JobResult> {
        std::mem::take(&mut *self.shared.results())
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.shared.inbox().closed = true;
        write_eventfd(&self.shared.wake);
    }
}

/// Fails only if the counter is full, and then the eventfd is readable already.
fn write_eventfd(eventfd: &OwnedFd) {
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

/// A signal to send to one tree in the next pass.
struct TreeSignal {
    job_id: u64,
    root: TreeRoot,
    cgroup: Option<PathBuf>,
    signal: i32,
}

struct Worker {
    shared: Arc<Shared>,
    notify: OwnedFd,
    procfs: ProcFs,
    environ_search: EnvironSearch,
    tree_signals: Vec<TreeSignal>,
    tree_kills: Vec<TreeKill>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let closed = self.accept_jobs();
            if self.tree_signals.is_empty() && self.tree_kills.is_empty() {
                if closed {
                    return;
                }
                self.sleep(&[], None);
            } else if !self.tree_signals.is_empty() || self.tree_kills.iter().any(TreeKill::needs_pass) {
                self.pass();
                self.publish_results();
            } else {
                self.wait_for_exits();
                self.publish_results();
            }
        }
    }

    /// Returns whether the handle was dropped.
    fn accept_jobs(&mut self) -> bool {
        let (jobs, closed) = {
            let mut inbox = self.shared.inbox();
            (std::mem::take(&mut inbox.jobs), inbox.closed)
        };
        for Job { id, root, cgroup, action } in jobs {
            match action {
                Action::Kill => {
                    if let Some(path) = &cgroup {
                        // Old kernels cannot; then the passes kill the processes of the cgroup.
                        let _ = cgroup::kill(path);
                    }
                    self.tree_kills.push(TreeKill::new(id, root, cgroup, Instant::now()));
                }
                Action::Signal(signal) => self.tree_signals.push(TreeSignal { job_id: id, root, cgroup, signal }),
            }
        }
        closed
    }

    /// Scans /proc once, and signals the members of all trees.
    fn pass(&mut self) {
        let exempt = self.shared.inbox().exempt.clone();
        let tree_kills = &mut self.tree_kills;
        let mut keys: Vec<(u64, usize)> = Vec::new();
        for (index, kill) in tree_kills.iter().enumerate().filter(|(_, kill)| kill.needs_pass()) {
            keys.extend(kill.keys().iter().map(|key| (*key, index)));
        }
        keys.sort_unstable();
        let scan = self.procfs.scan(&mut |pid, key| {
            let found = keys.binary_search_by_key(&key, |(key, _)| *key).ok();
            if let Some(at) = found.filter(|_| !exempt.contains(&pid)) {
                tree_kills[keys[at].1].on_tagged_process(pid, key);
            }
        });
        let Ok(scan) = scan else {
            self.tree_kills.iter_mut().for_each(TreeKill::on_pass_failed);
            self.sleep(&[], Some(PASS_BACKOFF));
            return;
        };
        let by_environ = self.search_environments(&scan.processes);
        let processes = ProcessIndex::new(&scan.processes, &exempt);
        for signal in std::mem::take(&mut self.tree_signals) {
            let known = known_pids(&signal.root, signal.cgroup.as_ref(), &by_environ);
            let result = self.send_to_all(&signal, &processes.members(&signal.root, &known));
            self.shared.results().push(result);
        }
        let now = Instant::now();
        for kill in self.tree_kills.iter_mut().filter(|kill| kill.needs_pass()) {
            let known = known_pids(&kill.root, kill.cgroup.as_ref(), &by_environ);
            let members = processes.members(&kill.root, &known);
            let keys = members.iter().map(|process| process.key);
            kill.add_keys(keys.filter(|key| processes.is_tag_unique_to_tree(*key)));
            kill.on_pass_done(&members, scan.incomplete, &self.procfs, now);
        }
    }

    /// Pids with their OUTLIVE_PROCESS_ID, for the trees without a confirmed tag.
    fn search_environments(&mut self, processes: &[ScannedProcess]) -> Vec<(i32, String)> {
        let killed = self.tree_kills.iter().map(|kill| &kill.root);
        let roots = self.tree_signals.iter().map(|signal| &signal.root).chain(killed);
        let ids: Vec<String> = roots.filter_map(|root| root.environ_id.clone()).collect();
        let found = self.environ_search.run(&ids, processes);
        found.into_iter().filter_map(|(pid, index)| Some((pid, ids.get(index)?.clone()))).collect()
    }

    fn send_to_all(&self, tree_signal: &TreeSignal, members: &[ScannedProcess]) -> JobResult {
        let mut result = JobResult { id: tree_signal.job_id, signalled: 0, survivors: 0 };
        let Some(signal) = signal_from_number(tree_signal.signal) else { return result };
        let mut signalled = Vec::with_capacity(members.len());
        for process in members {
            match send_signal(&self.procfs, process, signal) {
                Ok(()) => signalled.push(process),
                Err(Errno::PERM) => result.survivors += 1,
                Err(_) => {}
            }
        }
        result.signalled = signalled.len() as u32;
        if signal == Signal::TERM {
            for process in signalled {
                let _ = send_signal(&self.procfs, process, Signal::CONT);
            }
        }
        result
    }

    /// Moves the results of finished kills to the outbox, and notifies the event loop if there are any results.
    fn publish_results(&mut self) {
        let (procfs, now) = (&self.procfs, Instant::now());
        let mut finished = Vec::new();
        self.tree_kills.retain_mut(|kill| {
            let result = kill.result(procfs, now);
            finished.extend(result);
            result.is_none()
        });
        let mut results = self.shared.results();
        results.append(&mut finished);
        let has_results = !results.is_empty();
        drop(results);
        if has_results {
            write_eventfd(&self.notify);
        }
    }

    /// Sleeps until a killed process has exited or the next deadline.
    fn wait_for_exits(&self) {
        let mut pidfds = Vec::new();
        let mut all_pinned = true;
        for process in self.tree_kills.iter().flat_map(TreeKill::members) {
            if pidfds.len() == MAX_PIDFDS {
                all_pinned = false;
                break;
            }
            match PinnedProcess::find(&self.procfs, process) {
                // It has exited since the last check.
                None => return,
                Some(process) => match process.into_pidfd() {
                    Some(pidfd) => pidfds.push(pidfd),
                    None => all_pinned = false,
                },
            }
        }
        let deadline = self.tree_kills.iter().map(TreeKill::deadline).min();
        let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let recheck = remaining.map_or(RECHECK_INTERVAL, |remaining| remaining.min(RECHECK_INTERVAL));
        self.sleep(&pidfds, if all_pinned { remaining } else { Some(recheck) });
    }

    /// Sleeps until a job arrives, a process exits or the timeout passes.
    fn sleep(&self, pidfds: &[OwnedFd], timeout: Option<Duration>) {
        let wake = self.shared.wake.as_fd();
        let mut polled: Vec<PollFd<'_>> = std::iter::once(wake)
            .chain(pidfds.iter().map(AsFd::as_fd))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An interrupted poll counts as a wake-up: the loop checks everything again.
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
        let _ = rustix::io::read(&self.shared.wake, &mut [0_u8; 8]);
    }
}

/// Members that are known by other means than the scan: by cgroup or by environment.
fn known_pids(root: &TreeRoot, cgroup: Option<&PathBuf>, by_environ: &[(i32, String)]) -> Vec<i32> {
    let mut pids = cgroup.map(|path| cgroup::procs(path)).unwrap_or_default();
    if let Some(id) = &root.environ_id {
        pids.extend(by_environ.iter().filter(|(_, other)| other == id).map(|(pid, _)| *pid));
    }
    pids
}
