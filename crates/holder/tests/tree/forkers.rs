//! Programs that fork faster than a killer can scan. They are forked from the test itself and make only raw system
//! calls, for speed.
//!
//! Each runs below a subreaper, a process outside of the tree that reaps orphans as the holder does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outlive_holder::tree::TreeRoot;
use rustix::process::{Pid, Signal};

use crate::support::{TestKiller, kill_tagged, new_key, set_tag, tagged, wait_until};

/// A forker that is never caught ends by itself, so that a failed or aborted test leaves no process behind.
const MAX_LIFETIME: Duration = Duration::from_secs(30);

/// Number of processes that a fork bomb creates.
const FORK_BOMB_SIZE: u32 = 1600;

struct Subreaper {
    pid: Pid,
    key: u64,
}

impl Subreaper {
    fn start(program: fn(Instant)) -> Self {
        let key = new_key();
        // SAFETY: the child makes only raw system calls before it ends.
        match unsafe { libc::fork() } {
            0 => Self::run(key, program),
            pid => Self { pid: Pid::from_raw(pid).expect("fork works"), key },
        }
    }

    /// Never returns: reaps orphans by ignoring SIGCHLD.
    fn run(key: u64, program: fn(Instant)) -> ! {
        // SAFETY: plain system calls in a single-threaded child.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            if libc::fork() == 0 {
                libc::setsid();
                if set_tag(key).is_ok() {
                    program(Instant::now() + MAX_LIFETIME);
                }
                libc::_exit(0);
            }
            loop {
                libc::pause();
            }
        }
    }

    /// Returns the number of signalled processes; 0 if the program had ended by itself.
    fn kill_tree(&self, killer: &TestKiller) -> u32 {
        wait_until("it forks", || !tagged(self.key).is_empty());
        let result = killer.kill(&TreeRoot::from_key(self.key));
        assert_eq!(result.survivors, 0, "{result:?}");
        // Checked many times: a process that the killer missed may be missed by a single check too.
        for _ in 0..10 {
            assert_eq!(tagged(self.key), [], "survivors");
        }
        result.signalled
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        kill_tagged(self.key);
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
    }
}

fn catch(count: usize, program: fn(Instant)) {
    let killer = TestKiller::start();
    let kills = (0..count).map(|_| Subreaper::start(program).kill_tree(&killer));
    let caught = kills.filter(|signalled| *signalled > 0).count();
    assert!(caught * 2 > count, "the forker ended by itself in most runs, so the test proves nothing");
}

/// Forks, ends the parent and continues in the child: a new pid each time.
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

/// The same with a new session each time, so that the processes share neither group nor session.
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

/// The fastest possible chain: the processes share memory, so nothing is copied.
fn chain_in_shared_memory(until: Instant) {
    if CHAIN_UNTIL.set(until).is_ok() {
        // SAFETY: this process runs on its own stack, the others on those of the arena.
        unsafe { clone_next() };
    }
}

const STACK: usize = 16 * 1024;
const STACKS: usize = 256;
static mut ARENA: [u8; STACK * STACKS] = [0; STACK * STACKS];
static LINK: AtomicU32 = AtomicU32::new(0);
static CHAIN_UNTIL: OnceLock<Instant> = OnceLock::new();

extern "C" fn run_link(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: runs on a stack that every 256th process uses; the previous user ended long ago.
    unsafe { clone_next() };
    0
}

unsafe fn clone_next() {
    if CHAIN_UNTIL.get().is_none_or(|until| Instant::now() >= *until) {
        return;
    }
    let turn = LINK.fetch_add(1, Ordering::Relaxed);
    let top = (turn as usize % STACKS + 1) * STACK;
    // SAFETY: the top of one stack inside the arena; the caller ends right after, without touching the next stack.
    unsafe {
        let stack = (&raw mut ARENA).cast::<u8>().add(top - 64).cast();
        libc::clone(run_link, stack, libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut());
        libc::syscall(libc::SYS_exit, 0);
    }
}

/// Every child forks as well, up to a bound.
fn fork_bomb(until: Instant) {
    // SAFETY: an anonymous shared page as a counter of all children; otherwise raw calls.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        let count = &*page.cast::<AtomicU32>();
        while Instant::now() < until {
            if count.fetch_add(1, Ordering::Relaxed) > FORK_BOMB_SIZE {
                libc::sleep(1);
            } else {
                libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
            }
        }
    }
}

/// A parent with many short-lived children.
fn short_lived_children(until: Instant) {
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

/// Ends only its first thread: the process looks like a zombie but still runs.
fn zombie_leader(_: Instant) {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: only waits for the signal that ends the process.
        unsafe {
            libc::sleep(MAX_LIFETIME.as_secs() as u32);
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
    catch(20, chain);
}

#[test]
fn a_fork_chain_that_changes_sessions_is_caught() {
    catch(20, chain_of_sessions);
}

#[test]
fn a_fork_chain_in_shared_memory_is_caught() {
    catch(20, chain_in_shared_memory);
}

#[test]
fn a_fork_bomb_is_caught() {
    catch(5, fork_bomb);
}

#[test]
fn a_parent_of_short_lived_sessions_is_caught() {
    catch(20, short_lived_children);
}

#[test]
fn a_process_whose_first_thread_ended_is_caught() {
    let subreaper = Subreaper::start(zombie_leader);
    let is_zombie = || tagged(subreaper.key).iter().any(|process| process.state == b'Z' && !process.is_dead());
    wait_until("its first thread has ended", is_zombie);
    assert_eq!(subreaper.kill_tree(&TestKiller::start()), 1);
}
