//! Turns a fresh process into a holder: subreaper, signals, limits. Reads the attributes to restore in children.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::wire::Spawn;
use crate::wire::codec::Field;

/// The OOM killer should choose the holder last; children get the original score back.
const OOM_SCORE: &str = "-900";
const OOM_FILE: &str = "/proc/self/oom_score_adj";

/// Blocks every signal, even across an exec. Signals are then read from a signalfd.
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

/// Blocks every signal and returns a signalfd for those that the holder handles.
pub(super) fn open_signalfd() -> io::Result<OwnedFd> {
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

/// Orphans are reparented to the holder, and no process of the same user may read its memory.
pub(super) fn become_subreaper() -> io::Result<()> {
    // SAFETY: prctl with constant arguments.
    unsafe {
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        // A write to a closed pipe must fail with EPIPE.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    Ok(())
}

/// Raises the soft limit of open files to the hard limit; returns the previous limits.
pub(super) fn raise_open_files() -> (u64, u64) {
    let old = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: old.maximum, maximum: old.maximum });
    (old.current.unwrap_or(u64::MAX), old.maximum.unwrap_or(u64::MAX))
}

pub(super) fn open_files() -> (u64, u64) {
    let now = getrlimit(Resource::Nofile);
    (now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX))
}

/// Lowers our OOM score where that is permitted; returns the previous score if it was changed.
pub(super) fn lower_oom_score() -> Option<CString> {
    let old = std::fs::read_to_string(OOM_FILE).ok()?;
    std::fs::write(OOM_FILE, OOM_SCORE).ok()?;
    CString::new(old.trim()).ok()
}

/// Signals whose disposition is not the default: children must not inherit it.
pub(super) fn changed_signals() -> Vec<i32> {
    // Not by libc's sigaction: it hides the signals that libc uses itself, and those can be inherited as ignored too.
    let is_changed = |signal: &i32| {
        // The kernel's structure; its first word is the handler on all supported architectures.
        let mut action = [0_usize; 4];
        // SAFETY: only reads the disposition, into a local that is as large as the kernel's structure.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, *signal, std::ptr::null::<usize>(), action.as_mut_ptr(), 8_usize)
        };
        result == 0 && action[0] != libc::SIG_DFL
    };
    (1..=64).filter(is_changed).collect()
}

pub(super) fn current_umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

impl Spawn {
    /// Our own binary in our own environment: a server, or the dry run of the next holder.
    pub(super) fn own_binary(programs: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>) -> Self {
        let entry = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
        Self {
            generation: 1,
            programs,
            arguments,
            environment: std::env::vars_os().flat_map(entry).collect(),
            ..Self::missing()
        }
    }
}

/// System-wide number of kills by the OOM killer.
pub(super) fn oom_kills() -> u64 {
    std::fs::read_to_string("/proc/vmstat")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()))
        .unwrap_or(0)
}
