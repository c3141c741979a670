//! Marked processes to hunt, and a killer to hunt them with.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, Done, Job, Killer, Root, Seen, mark, scan};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn new_key() -> u64 {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
    mark::draw(u64::from_ne_bytes(random))
}

pub(crate) fn put_mark(key: u64) -> std::io::Result<()> {
    let value = Some(mark::rlimit_value(key));
    Ok(setrlimit(Resource::Rttime, Rlimit { current: value, maximum: value })?)
}

/// A shell line as a managed process: own session, mark, OUTLIVE_PROCESS_ID.
pub(crate) struct Tree {
    pub(crate) child: Child,
    pub(crate) key: u64,
    pub(crate) root: Root,
}

impl Tree {
    pub(crate) fn start(line: &str) -> Self {
        let key = new_key();
        Self::start_with(line, key, move || put_mark(key))
    }

    /// As where the kernel refuses the mark.
    pub(crate) fn start_unmarked(line: &str) -> Self {
        Self::start_with(line, new_key(), || Ok(()))
    }

    /// Unmarked, but in the cgroup of this `cgroup.procs`.
    pub(crate) fn start_inside(procs: OwnedFd, line: &str) -> Self {
        Self::start_with(line, new_key(), move || Ok(rustix::io::write(&procs, b"0").map(drop)?))
    }

    fn start_with(line: &str, key: u64, before: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let mut before = before;
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line]).env("OUTLIVE_PROCESS_ID", id_of(key));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: only makes system calls.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                before()
            });
        }
        let child = command.spawn().expect("bash starts");
        let root = Root::of(child.id() as i32, key, &id_of(key));
        Self { child, key, root }
    }

    pub(crate) fn running(&self) -> Vec<Seen> {
        marked(self.key)
    }

    pub(crate) fn await_count(&self, count: usize) -> &Self {
        await_that(&format!("{count} marked processes"), || self.running().len() >= count);
        self
    }

    pub(crate) fn reap(&mut self) {
        self.child.wait().expect("the root is our child");
    }
}

/// A failed test must not leave its processes behind.
impl Drop for Tree {
    fn drop(&mut self) {
        sweep(self.key);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn sweep(key: u64) {
    for _ in 0..1000 {
        let left = marked(key);
        if left.is_empty() {
            return;
        }
        for seen in left {
            if let Some(pid) = rustix::process::Pid::from_raw(seen.pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(crate) fn id_of(key: u64) -> String {
    format!("proc_test_{key}")
}

/// The living processes with this mark.
pub(crate) fn marked(key: u64) -> Vec<Seen> {
    let seen = scan::all().expect("/proc can be read");
    seen.into_iter().filter(|seen| seen.key == key && !seen.is_dead()).collect()
}

pub(crate) fn runs(pid: i32) -> bool {
    let seen = scan::all().expect("/proc can be read");
    seen.iter().any(|seen| seen.pid == pid && !seen.is_dead())
}

pub(crate) fn await_that(what: &str, fact: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !fact() {
        assert!(Instant::now() < until, "not seen in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) struct Desk {
    pub(crate) killer: Killer,
    notify: OwnedFd,
}

impl Desk {
    pub(crate) fn open() -> Self {
        Self::open_with(Vec::new())
    }

    pub(crate) fn open_with(exempt: Vec<i32>) -> Self {
        let notify = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let theirs = notify.try_clone().expect("a descriptor");
        Self { killer: Killer::start(theirs, exempt).expect("the killer starts"), notify }
    }

    pub(crate) fn post(&self, root: &Root, cgroup: Option<PathBuf>, action: Action) {
        self.killer.signal(Job { ticket: root.key, root: root.clone(), cgroup, action });
    }

    pub(crate) fn kill(&self, root: &Root) -> Done {
        self.post(root, None, Action::Kill);
        self.await_done(root.key)
    }

    pub(crate) fn send(&self, root: &Root, signal: Signal) -> Done {
        self.post(root, None, Action::Signal(signal.as_raw()));
        self.await_done(root.key)
    }

    pub(crate) fn await_done(&self, ticket: u64) -> Done {
        let done = self.next_done();
        assert_eq!(done.len(), 1, "one job, one answer");
        assert_eq!(done[0].ticket, ticket);
        done[0]
    }

    pub(crate) fn next_done(&self) -> Vec<Done> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no answer in time");
            let timeout = Timespec::try_from(left).expect("seconds fit");
            let _ = poll(&mut [PollFd::new(&self.notify, PollFlags::IN)], Some(&timeout));
            let _ = rustix::io::read(&self.notify, &mut [0_u8; 8]);
            let done = self.killer.take_done();
            if !done.is_empty() {
                return done;
            }
        }
    }

    /// Kills the tree and shows that nothing of it is left.
    pub(crate) fn kill_all_of(&self, tree: &Tree) -> Done {
        let done = self.kill(&tree.root);
        assert_eq!(done.survivors, 0, "{done:?}");
        assert_eq!(tree.running(), [], "survivors");
        done
    }
}
