//! Trees of tagged processes, and a killer for them.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, Job, JobResult, Killer, ScannedProcess, TreeRoot, scan, tag};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn new_key() -> u64 {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
    tag::new_key(u64::from_ne_bytes(random))
}

pub(crate) fn set_tag(key: u64) -> std::io::Result<()> {
    let value = Some(tag::rlimit_value(key));
    Ok(setrlimit(Resource::Rttime, Rlimit { current: value, maximum: value })?)
}

/// A shell command started like a managed process: own session, tree tag, OUTLIVE_PROCESS_ID.
pub(crate) struct Tree {
    pub(crate) child: Child,
    pub(crate) key: u64,
    pub(crate) root: TreeRoot,
}

impl Tree {
    pub(crate) fn start(line: &str) -> Self {
        let key = new_key();
        Self::start_with(line, key, move || set_tag(key))
    }

    /// As on a kernel that refuses the tag.
    pub(crate) fn start_untagged(line: &str) -> Self {
        Self::start_with(line, new_key(), || Ok(()))
    }

    /// Untagged, in the cgroup of this `cgroup.procs`.
    pub(crate) fn start_in_cgroup(procs: OwnedFd, line: &str) -> Self {
        Self::start_with(line, new_key(), move || Ok(rustix::io::write(&procs, b"0").map(drop)?))
    }

    fn start_with(
        line: &str,
        key: u64,
        mut before_exec: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line]).env("OUTLIVE_PROCESS_ID", id_of(key));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: only makes system calls.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                before_exec()
            });
        }
        let child = command.spawn().expect("bash starts");
        let root = TreeRoot::from_running(child.id() as i32, key, &id_of(key));
        Self { child, key, root }
    }

    pub(crate) fn running(&self) -> Vec<ScannedProcess> {
        tagged(self.key)
    }

    pub(crate) fn wait_for_count(&self, count: usize) -> &Self {
        wait_until(&format!("{count} tagged processes"), || self.running().len() >= count);
        self
    }

    pub(crate) fn reap(&mut self) {
        self.child.wait().expect("the root is our child");
    }
}

/// A failed test must not leave processes behind.
impl Drop for Tree {
    fn drop(&mut self) {
        kill_tagged(self.key);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill_tagged(key: u64) {
    for _ in 0..1000 {
        let remaining = tagged(key);
        if remaining.is_empty() {
            return;
        }
        for process in remaining {
            if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(crate) fn id_of(key: u64) -> String {
    format!("proc_test_{key}")
}

/// The living processes with this tag.
pub(crate) fn tagged(key: u64) -> Vec<ScannedProcess> {
    let processes = scan::all().expect("/proc can be read");
    processes.into_iter().filter(|process| process.key == key && !process.is_dead()).collect()
}

pub(crate) fn is_running(pid: i32) -> bool {
    let processes = scan::all().expect("/proc can be read");
    processes.iter().any(|process| process.pid == pid && !process.is_dead())
}

pub(crate) fn wait_until(description: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {description}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) struct TestKiller {
    pub(crate) killer: Killer,
    notify: OwnedFd,
    last_job_id: Cell<u64>,
}

impl TestKiller {
    pub(crate) fn start() -> Self {
        Self::start_with_exempt(Vec::new())
    }

    pub(crate) fn start_with_exempt(exempt: Vec<i32>) -> Self {
        let notify = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let killers_notify = notify.try_clone().expect("a descriptor");
        let killer = Killer::start(killers_notify, exempt).expect("the killer starts");
        Self { killer, notify, last_job_id: Cell::new(0) }
    }

    /// Returns the id of the job: a new one each time, as in the event loop.
    pub(crate) fn submit(&self, root: &TreeRoot, cgroup: Option<PathBuf>, action: Action) -> u64 {
        let id = self.last_job_id.get() + 1;
        self.last_job_id.set(id);
        self.killer.submit(Job { id, root: root.clone(), cgroup, action });
        id
    }

    pub(crate) fn kill(&self, root: &TreeRoot) -> JobResult {
        let id = self.submit(root, None, Action::Kill);
        self.wait_for_result(id)
    }

    pub(crate) fn send(&self, root: &TreeRoot, signal: Signal) -> JobResult {
        let id = self.submit(root, None, Action::Signal(signal.as_raw()));
        self.wait_for_result(id)
    }

    pub(crate) fn wait_for_result(&self, id: u64) -> JobResult {
        let results = self.wait_for_results();
        assert_eq!(results.len(), 1, "one job, one result");
        assert_eq!(results[0].id, id);
        results[0]
    }

    pub(crate) fn wait_for_result_count(&self, count: usize) -> Vec<JobResult> {
        let mut results = Vec::new();
        while results.len() < count {
            results.extend(self.wait_for_results());
        }
        results
    }

    fn wait_for_results(&self) -> Vec<JobResult> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            assert!(!remaining.is_zero(), "no result in time");
            let timeout = Timespec::try_from(remaining).expect("seconds fit");
            let _ = poll(&mut [PollFd::new(&self.notify, PollFlags::IN)], Some(&timeout));
            let _ = rustix::io::read(&self.notify, &mut [0_u8; 8]);
            let results = self.killer.take_results();
            if !results.is_empty() {
                return results;
            }
        }
    }

    /// Kills the tree and checks that no process of it is left.
    pub(crate) fn kill_and_check(&self, tree: &Tree) -> JobResult {
        let result = self.kill(&tree.root);
        assert_eq!(result.survivors, 0, "{result:?}");
        assert_eq!(tree.running(), [], "survivors");
        result
    }
}
