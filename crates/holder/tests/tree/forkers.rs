//! Programs that try to outrun the killer. They are forked from the test itself and make raw calls only, to
//! be fast.
//!
//! Each lives below a nursery, a process outside the tree that reaps orphans as the holder would.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outlive_holder::tree::Root;
use rustix::process::{Pid, Signal};

use crate::support::{Desk, await_that, marked, new_key, put_mark, sweep};

/// A forker that is never caught ends by itself, so that a test which failed or was aborted leaves nothing
/// behind.
const LIFE: Duration = Duration::from_secs(30);

/// How many processes a bomb makes.
const BOMB: u32 = 1600;

struct Nursery {
    pid: Pid,
    key: u64,
}

impl Nursery {
    fn start(program: fn(Instant)) -> Self {
        let key = new_key();
        // SAFETY: the child makes only raw system calls before it ends.
        match unsafe { libc::fork() } {
            0 => Self::nurse(key, program),
            pid => Self { pid: Pid::from_raw(pid).expect("fork works"), key },
        }
    }

    /// Never returns: reaps orphans by ignoring SIGCHLD.
    fn nurse(key: u64, program: fn(Instant)) -> ! {
        // SAFETY: plain system calls in a single-threaded child.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            if libc::fork() == 0 {
                libc::setsid();
                if put_mark(key).is_ok() {
                    program(Instant::now() + LIFE);
                }
                libc::_exit(0);
            }
            loop {
                libc::pause();
            }
        }
    }

    /// How many were signalled; 0 if it had ended by itself.
    fn hunt(&self, desk: &Desk) -> u32 {
        await_that("it forks", || !marked(self.key).is_empty());
        let done = desk.kill(&Root::marked(self.key));
        assert_eq!(done.survivors, 0, "{done:?}");
        // Many looks, because what outran the killer would outrun a single one too.
        for _ in 0..10 {
            assert_eq!(marked(self.key), [], "survivors");
        }
        done.signalled
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        sweep(self.key);
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
    }
}

fn times(count: usize, program: fn(Instant)) {
    let desk = Desk::open();
    let hunts = (0..count).map(|_| Nursery::start(program).hunt(&desk));
    let caught = hunts.filter(|signalled| *signalled > 0).count();
    assert!(caught * 2 > count, "the forker ended by itself in most runs, so this shows nothing");
}

/// Fork, let the parent end, go on in the child: a new pid each time.
fn chain(until: Instant) {
    while Instant::now() < until {
        // SAFETY: raw call in a single-threaded process; the parent ends at once.
        unsafe {
            if libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) != 0 {
                libc::_exit(0);
            }
        }
    }
}

/// The same, with a new session each time, so that no group or session holds it together.
fn chain_of_sessions(until: Instant) {
    while Instant::now() < until {
        // SAFETY: as in `chain`.
        unsafe {
            if libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) != 0 {
                libc::_exit(0);
            }
            libc::setsid();
        }
    }
}

/// The fastest there is: a chain whose links share memory, so that nothing is copied.
fn chain_in_shared_memory(until: Instant) {
    if CHAIN_UNTIL.set(until).is_ok() {
        // SAFETY: this link runs on the stack of its own process, the others on those of the arena.
        unsafe { link_next() };
    }
}

const STACK: usize = 16 * 1024;
const STACKS: usize = 256;
static mut ARENA: [u8; STACK * STACKS] = [0; STACK * STACKS];
static LINK: AtomicU32 = AtomicU32::new(0);
static CHAIN_UNTIL: OnceLock<Instant> = OnceLock::new();

extern "C" fn link(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: runs on a stack that 256 links share in turn; the one that used it before has long ended.
    unsafe { link_next() };
    0
}

unsafe fn link_next() {
    if CHAIN_UNTIL.get().is_none_or(|until| Instant::now() >= *until) {
        return;
    }
    let turn = LINK.fetch_add(1, Ordering::Relaxed);
    let top = (turn as usize % STACKS + 1) * STACK;
    // SAFETY: the top of one stack inside the arena; the caller ends right after, without touching what the
    // next uses.
    unsafe {
        let stack = (&raw mut ARENA).cast::<u8>().add(top - 64).cast();
        libc::clone(link, stack, libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut());
        libc::syscall(libc::SYS_exit, 0);
    }
}

/// Every child forks as well, up to a bound.
fn bomb(until: Instant) {
    // SAFETY: an anonymous shared page, counted in by all children; raw calls otherwise.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        let count = &*page.cast::<AtomicU32>();
        while Instant::now() < until {
            if count.fetch_add(1, Ordering::Relaxed) > BOMB {
                libc::sleep(1);
            } else {
                libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
            }
        }
    }
}

/// A parent that keeps many short-lived children in flight.
fn mother(until: Instant) {
    // SAFETY: raw calls in a single-threaded process.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        while Instant::now() < until {
            if libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) == 0 {
                libc::setsid();
                libc::usleep(500);
                libc::_exit(0);
            }
        }
    }
}

/// Only the first thread ends: the process then looks like a zombie and runs on.
fn headless(_: Instant) {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: only waits for the signal that ends the process.
        unsafe {
            libc::sleep(LIFE.as_secs() as u32);
        }
        std::ptr::null_mut()
    }
    // SAFETY: a thread without arguments in a single-threaded process, which then ends its first thread only.
    unsafe {
        let mut thread = 0;
        libc::pthread_create(&raw mut thread, std::ptr::null(), body, std::ptr::null_mut());
        libc::syscall(libc::SYS_exit, 0);
    }
}

#[test]
fn a_fork_chain_is_caught() {
    times(20, chain);
}

#[test]
fn a_fork_chain_that_changes_sessions_is_caught() {
    times(20, chain_of_sessions);
}

#[test]
fn a_fork_chain_in_shared_memory_is_caught() {
    times(20, chain_in_shared_memory);
}

#[test]
fn a_fork_bomb_is_caught() {
    times(5, bomb);
}

#[test]
fn a_mother_of_short_lived_sessions_is_caught() {
    times(20, mother);
}

#[test]
fn a_process_whose_first_thread_ended_is_caught() {
    let nursery = Nursery::start(headless);
    let headless = || marked(nursery.key).iter().any(|seen| seen.state == b'Z' && !seen.is_dead());
    await_that("its first thread has ended", headless);
    assert_eq!(nursery.hunt(&Desk::open()), 1);
}
