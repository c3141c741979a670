//! The thread that signals trees, so that no scan ever delays the holder's loop.
//!
//! ```text
//!   holder loop ── signal(job) ──▶ inbox ──▶ worker: pass, pass, … ──▶ done ── notify ──▶ holder loop: take_done()
//! ```
//!
//! Every pass over /proc serves all jobs at once, and waiting for one stubborn tree is a poll that a new
//! job interrupts: no tree delays another. Nothing here spawns, reaps or blocks on a file of a stuck
//! process.

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
use super::environ::Search;
use super::forest::{Forest, Root};
use super::hunt::{Hunt, send};
use super::scan::{Procs, Seen};
use super::target::{Target, signal_from};

/// Descriptors that may be open at a time to wait for the dying. The rest is looked at again every
/// [`RECHECK`].
const MAX_PINS: usize = 64;
const RECHECK: Duration = Duration::from_millis(20);

/// Pause after a pass that failed (no memory), before the next try.
const RETRY: Duration = Duration::from_millis(10);

const STACK_BYTES: usize = 256 * 1024;

/// What is to be done with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends this signal once to every member; after SIGTERM also SIGCONT, so that stopped ones can act on
    /// it.
    Signal(i32),
    /// Ends the tree, whatever it does.
    Kill,
}

#[derive(Clone, Debug)]
pub struct Job {
    /// Names the tree to the caller. A second job for it joins the one under way, and both are answered by
    /// one [`Done`].
    pub ticket: u64,
    pub root: Root,
    pub cgroup: Option<PathBuf>,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub ticket: u64,
    /// Processes that a signal reached.
    pub signalled: u32,
    /// After [`Action::Kill`]: those that still run. After [`Action::Signal`]: those that we may not signal.
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
    done: Mutex<Vec<Done>>,
    wake: OwnedFd,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle of the thread. Dropping it lets the jobs under way finish and signals nobody.
pub struct Killer {
    shared: Arc<Shared>,
}

impl Killer {
    /// `notify` is an eventfd, written whenever [`Killer::take_done`] has something. `exempt` is never
    /// signalled.
    pub fn start(notify: OwnedFd, exempt: Vec<i32>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inbox = Mutex::new(Inbox { exempt, ..Inbox::default() });
        let shared = Arc::new(Shared { inbox, done: Mutex::default(), wake });
        let worker = Worker {
            shared: Arc::clone(&shared),
            notify,
            procs: Procs::open()?,
            search: Search::default(),
            orders: Vec::new(),
            hunts: Vec::new(),
        };
        let builder = thread::Builder::new().name("killer".into()).stack_size(STACK_BYTES);
        builder.spawn(move || worker.run())?;
        Ok(Self { shared })
    }

    pub fn signal(&self, job: Job) {
        self.shared.inbox().jobs.push(job);
        ring(&self.shared.wake);
    }

    /// Replaces the list: a restarted server has another pid, and its old one may become a member's.
    pub fn set_exempt(&self, exempt: Vec<i32>) {
        self.shared.inbox().exempt = exempt;
    }

    pub fn take_done(&self) -> Vec<Done> {
        std::mem::take(&mut *self.shared.done())
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.shared.inbox().closed = true;
        ring(&self.shared.wake);
    }
}

/// An eventfd that is full has been rung already.
fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Signals to send to one tree in the next pass.
struct Order {
    ticket: u64,
    root: Root,
    cgroup: Option<PathBuf>,
    signals: Vec<i32>,
}

struct Worker {
    shared: Arc<Shared>,
    notify: OwnedFd,
    procs: Procs,
    search: Search,
    orders: Vec<Order>,
    hunts: Vec<Hunt>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let closed = self.accept();
            if self.orders.is_empty() && self.hunts.is_empty() {
                if closed {
                    return;
                }
                self.sleep(&[], None);
            } else if !self.orders.is_empty() || self.hunts.iter().any(Hunt::needs_pass) {
                self.pass();
                self.answer();
            } else {
                self.wait_for_the_dying();
                self.answer();
            }
        }
    }

    /// Takes new jobs over; whether the handle is gone.
    fn accept(&mut self) -> bool {
        let (jobs, closed) = {
            let mut inbox = self.shared.inbox();
            (std::mem::take(&mut inbox.jobs), inbox.closed)
        };
        for job in jobs {
            match job.action {
                Action::Kill => self.accept_kill(job),
                Action::Signal(signal) => self.accept_signal(job, signal),
            }
        }
        closed
    }

    fn accept_kill(&mut self, job: Job) {
        let Job { ticket, root, cgroup, .. } = job;
        if let Some(path) = &cgroup {
            // Not every kernel can; the passes do it then.
            let _ = cgroup::kill(path);
        }
        self.orders.retain(|order| order.ticket != ticket);
        let now = Instant::now();
        match self.hunts.iter_mut().find(|hunt| hunt.ticket == ticket) {
            Some(hunt) => hunt.renew(root, cgroup, now),
            None => self.hunts.push(Hunt::new(ticket, root, cgroup, now)),
        }
    }

    fn accept_signal(&mut self, job: Job, signal: i32) {
        let Job { ticket, root, cgroup, .. } = job;
        if self.hunts.iter().any(|hunt| hunt.ticket == ticket) {
            return;
        }
        match self.orders.iter_mut().find(|order| order.ticket == ticket) {
            Some(order) if order.signals.contains(&signal) => {}
            Some(order) => order.signals.push(signal),
            None => self.orders.push(Order { ticket, root, cgroup, signals: vec![signal] }),
        }
    }

    fn pass(&mut self) {
        let exempt = self.shared.inbox().exempt.clone();
        let hunts = &mut self.hunts;
        let mut keys: Vec<(u64, usize)> = Vec::new();
        for (at, hunt) in hunts.iter().enumerate().filter(|(_, hunt)| hunt.needs_pass()) {
            keys.extend(hunt.keys().iter().map(|key| (*key, at)));
        }
        keys.sort_unstable();
        let pass = self.procs.pass(&mut |pid, key| {
            let hunted = keys.binary_search_by_key(&key, |(key, _)| *key).ok();
            if let Some(at) = hunted.filter(|_| !exempt.contains(&pid)) {
                hunts[keys[at].1].sight(pid, key);
            }
        });
        let Ok(pass) = pass else {
            self.hunts.iter_mut().for_each(Hunt::miss);
            self.sleep(&[], Some(RETRY));
            return;
        };
        let by_environ = self.search_environments(&pass.seen);
        let forest = Forest::new(&pass.seen, &exempt);
        for order in std::mem::take(&mut self.orders) {
            let others = others(&order.root, order.cgroup.as_ref(), &by_environ);
            let done = self.send_all(&order, &forest.members(&order.root, &others));
            self.shared.done().push(done);
        }
        let now = Instant::now();
        for hunt in self.hunts.iter_mut().filter(|hunt| hunt.needs_pass()) {
            let others = others(&hunt.root, hunt.cgroup.as_ref(), &by_environ);
            let members = forest.members(&hunt.root, &others);
            let keys = members.iter().map(|seen| seen.key);
            hunt.learn(keys.filter(|key| forest.is_made_inside(*key)));
            hunt.close_in(&members, pass.outrun, &self.procs, now);
        }
    }

    /// Pids by the OUTLIVE_PROCESS_ID they carry, for those trees that cannot be found by their mark.
    fn search_environments(&mut self, seen: &[Seen]) -> Vec<(i32, String)> {
        let hunted = self.hunts.iter().map(|hunt| &hunt.root);
        let roots = self.orders.iter().map(|order| &order.root).chain(hunted);
        let ids: Vec<String> = roots.filter_map(|root| root.environ_id.clone()).collect();
        let hits = self.search.run(&ids, seen);
        hits.into_iter().filter_map(|(pid, at)| Some((pid, ids.get(at)?.clone()))).collect()
    }

    fn send_all(&self, order: &Order, members: &[Seen]) -> Done {
        let mut done = Done { ticket: order.ticket, signalled: 0, survivors: 0 };
        let signals: Vec<Signal> = order.signals.iter().filter_map(|signal| signal_from(*signal)).collect();
        let mut reached = Vec::with_capacity(members.len());
        for seen in members {
            let sent: Vec<_> = signals.iter().map(|signal| send(&self.procs, seen, *signal)).collect();
            if sent.contains(&Ok(())) {
                reached.push(seen);
            } else if sent.contains(&Err(Errno::PERM)) {
                done.survivors += 1;
            }
        }
        done.signalled = reached.len() as u32;
        if signals.contains(&Signal::TERM) {
            for seen in reached {
                let _ = send(&self.procs, seen, Signal::CONT);
            }
        }
        done
    }

    /// Moves finished hunts to the outbox and tells the holder if anything is in it.
    fn answer(&mut self) {
        let (procs, now) = (&self.procs, Instant::now());
        let mut finished = Vec::new();
        self.hunts.retain_mut(|hunt| {
            let outcome = hunt.outcome(procs, now);
            finished.extend(outcome);
            outcome.is_none()
        });
        let mut done = self.shared.done();
        done.append(&mut finished);
        let news = !done.is_empty();
        drop(done);
        if news {
            ring(&self.notify);
        }
    }

    fn wait_for_the_dying(&self) {
        let mut pins = Vec::new();
        let mut all_pinned = true;
        for seen in self.hunts.iter().flat_map(Hunt::dying) {
            if pins.len() == MAX_PINS {
                all_pinned = false;
                break;
            }
            match Target::find(&self.procs, seen) {
                // Ended since it was last looked at: there is news already.
                None => return,
                Some(target) => match target.into_pin() {
                    Some(pin) => pins.push(pin),
                    None => all_pinned = false,
                },
            }
        }
        let deadline = self.hunts.iter().map(Hunt::deadline).min();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = if all_pinned { left } else { Some(left.map_or(RECHECK, |left| left.min(RECHECK))) };
        self.sleep(&pins, timeout);
    }

    /// Until a job arrives, a pinned process ends or the time is over.
    fn sleep(&self, pins: &[OwnedFd], timeout: Option<Duration>) {
        let wake = self.shared.wake.as_fd();
        let mut polled: Vec<PollFd<'_>> = std::iter::once(wake)
            .chain(pins.iter().map(AsFd::as_fd))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An interrupted poll is a wake-up like any other: the loop looks again.
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
        let _ = rustix::io::read(&self.shared.wake, &mut [0_u8; 8]);
    }
}

/// Members that are known by other means than the scan.
fn others(root: &Root, cgroup: Option<&PathBuf>, by_environ: &[(i32, String)]) -> Vec<i32> {
    let mut pids = cgroup.map(|path| cgroup::procs(path)).unwrap_or_default();
    if let Some(id) = &root.environ_id {
        pids.extend(by_environ.iter().filter(|(_, other)| other == id).map(|(pid, _)| *pid));
    }
    pids
}
