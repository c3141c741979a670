//! Making a holder out of a fresh process: subreaper, signals, limits; and what the children get back.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::wire::Spawn;
use crate::wire::codec::Field;

/// The holder is the last that the kernel should take; children get their old score back.
const OOM_SCORE: &str = "-900";
const OOM_FILE: &str = "/proc/self/oom_score_adj";

/// Every signal waits from now on, also over an exec, until somebody reads it from a descriptor.
pub fn block_signals() -> io::Result<()> {
    // SAFETY: sigset functions on a local set.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Blocks every signal and returns the descriptor through which they arrive instead.
pub(super) fn take_signals() -> io::Result<OwnedFd> {
    block_signals()?;
    // SAFETY: sigset functions on a local set; signalfd returns a new descriptor or -1.
    unsafe {
        let mut wanted: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut wanted);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPWR] {
            libc::sigaddset(&raw mut wanted, signal);
        }
        let fd = libc::signalfd(-1, &raw const wanted, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Orphans of our trees come to us, and nobody looks into our memory.
pub(super) fn become_subreaper() -> io::Result<()> {
    // SAFETY: prctl with constant arguments.
    unsafe {
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        // As a re-executed image we may have inherited ignored signals.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    Ok(())
}

/// Raises the soft limit of open files to the hard one; returns what it was.
pub(super) fn raise_open_files() -> (u64, u64) {
    let old = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: old.maximum, maximum: old.maximum });
    (old.current.unwrap_or(u64::MAX), old.maximum.unwrap_or(u64::MAX))
}

pub(super) fn open_files() -> (u64, u64) {
    let now = getrlimit(Resource::Nofile);
    (now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX))
}

/// Lowers our score where that is allowed; returns the old one if it was changed.
pub(super) fn lower_oom_score() -> Option<CString> {
    let old = std::fs::read_to_string(OOM_FILE).ok()?;
    std::fs::write(OOM_FILE, OOM_SCORE).ok()?;
    CString::new(old.trim()).ok()
}

/// Signals that this process ignores or handles: children must not inherit that.
pub(super) fn changed_signals() -> Vec<i32> {
    // Not by libc's function: it hides the signals that it uses itself, and those can be inherited as ignored too.
    let is_changed = |signal: &i32| {
        // The kernel's structure; its first word is the handler, on every system that we run on.
        let mut now = [0_usize; 4];
        // SAFETY: asks only, into a local that is as large as the kernel's structure.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, *signal, std::ptr::null::<usize>(), now.as_mut_ptr(), 8_usize)
        };
        result == 0 && now[0] != libc::SIG_DFL
    };
    (1..=64).filter(is_changed).collect()
}

pub(super) fn current_umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

impl Spawn {
    /// A program of our own, in our own environment: a server, or the next holder's dry run.
    pub(super) fn of_ours(programs: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>) -> Self {
        let entry = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
        Self {
            generation: 1,
            programs,
            arguments,
            environment: std::env::vars_os().flat_map(entry).collect(),
            ..Self::absent()
        }
    }
}

/// How often the kernel has killed for lack of memory, system-wide.
pub(super) fn oom_kills() -> u64 {
    std::fs::read_to_string("/proc/vmstat")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()))
        .unwrap_or(0)
}
