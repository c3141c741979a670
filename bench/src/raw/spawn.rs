//! The cheapest way to run a program: a child that shares our memory until it executes, and a wait.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

const STACK_BYTES: usize = 32 * 1024;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Everything that the child needs, made before it exists: it must not allocate.
pub struct Plan {
    /// The program first; `pointers` points into these.
    _words: Vec<CString>,
    pointers: Vec<*const c_char>,
    /// A terminal that becomes its standard input, output and error, and controls it.
    terminal: Option<RawFd>,
    stack: Vec<u8>,
}

impl Plan {
    pub fn new(program: &OsStr, arguments: &[&str], terminal: Option<RawFd>) -> Result<Self> {
        let words = std::iter::once(program.as_bytes()).chain(arguments.iter().map(|argument| argument.as_bytes()));
        let words: Vec<CString> = words.map(CString::new).collect::<std::result::Result<_, _>>()?;
        let pointers = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _words: words, pointers, terminal, stack: vec![0; STACK_BYTES] })
    }

    /// Returns when the child has executed its program.
    pub fn start(&mut self) -> io::Result<i32> {
        let top = self.stack.as_mut_ptr_range().end;
        let top = top.wrapping_sub(top.addr() % 16);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let plan: *mut Self = self;
        // SAFETY: the child runs `execute` alone, on its own stack, while this thread is suspended and the plan lives.
        let pid = unsafe { libc::clone(execute, top.cast(), flags, plan.cast()) };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    }
}

extern "C" fn execute(plan: *mut c_void) -> c_int {
    // SAFETY: `start` gave us a plan that outlives us; what follows are system calls on it and nothing else.
    unsafe {
        let plan = &*plan.cast::<Plan>();
        if let Some(terminal) = plan.terminal {
            libc::setsid();
            libc::ioctl(terminal, libc::TIOCSCTTY, 0);
            for descriptor in 0..3 {
                libc::dup2(terminal, descriptor);
            }
        }
        libc::execve(plan.pointers[0], plan.pointers.as_ptr(), environ);
        libc::_exit(127)
    }
}

/// Waits for a child of ours, and gives back its status.
pub fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: our own child, and a pointer to a local.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

/// The time of each of `count` runs of /bin/true, one after the other.
pub fn times(count: usize) -> Result<Vec<Duration>> {
    let mut plan = Plan::new(OsStr::new("/bin/true"), &[], None)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let status = wait(plan.start()?)?;
        times.push(started.elapsed());
        if status != 0 {
            return Err(format!("/bin/true ended with status {status:#x}").into());
        }
    }
    Ok(times)
}

/// Runs of /bin/true per second with `threads` threads that do nothing else.
pub fn rate(count: usize, threads: usize) -> Result<f64> {
    let each = count.div_ceil(threads);
    let run_all = || times(each).map(|_| ()).map_err(|error| error.to_string());
    let started = Instant::now();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run_all)).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a spawner panicked".to_owned())))
    })?;
    Ok((each * threads) as f64 / started.elapsed().as_secs_f64())
}
