//! The cheapest way to run a program: clone with shared memory until the exec, then wait.

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

/// Everything that the child needs. It is prepared before the clone because the child must not allocate.
pub struct SpawnPlan {
    /// The program and its arguments; `pointers` points into these.
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
    /// The terminal that becomes the child's standard streams and controlling terminal.
    terminal: Option<RawFd>,
    stack: Vec<u8>,
}

impl SpawnPlan {
    pub fn new(program: &OsStr, arguments: &[&str], terminal: Option<RawFd>) -> Result<Self> {
        let strings = std::iter::once(program.as_bytes()).chain(arguments.iter().map(|argument| argument.as_bytes()));
        let strings: Vec<CString> = strings.map(CString::new).collect::<std::result::Result<_, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers, terminal, stack: vec![0; STACK_BYTES] })
    }

    /// Starts the child. Returns its pid once it has executed its program (vfork semantics).
    pub fn start(&mut self) -> io::Result<i32> {
        let top = self.stack.as_mut_ptr_range().end;
        let top = top.wrapping_sub(top.addr() % 16);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let plan: *mut Self = self;
        // SAFETY: the child runs only `execute`, on its own stack. This thread is suspended meanwhile, so the plan
        // stays alive.
        let pid = unsafe { libc::clone(execute, top.cast(), flags, plan.cast()) };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    }
}

extern "C" fn execute(plan: *mut c_void) -> c_int {
    // SAFETY: `start` passes a plan that outlives this call, and the code below only makes system calls with it.
    unsafe {
        let plan = &*plan.cast::<SpawnPlan>();
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

/// Waits for a child of this process and returns its wait status.
pub fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

/// The time of each of `count` runs of /bin/true, one after the other.
pub fn times(count: usize) -> Result<Vec<Duration>> {
    let mut plan = SpawnPlan::new(OsStr::new("/bin/true"), &[], None)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let status = wait(plan.start()?)?;
        times.push(started.elapsed());
        if status != 0 {
            return Err(format!("/bin/true exited with wait status {status:#x}").into());
        }
    }
    Ok(times)
}

/// Runs of /bin/true per second by `threads` spawner threads.
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
