//! Prepares everything a child needs, clones it, and runs the child's code up to its exec.
//!
//! The child runs concurrently with the holder in the same memory. Therefore its code (the second half of this file)
//! makes only raw system calls, does not allocate, lock or panic, and only reads the prepared `ChildSetup`, except for
//! the failure that it reports there. Even libc's wrappers are excluded: they write `errno`, which would be a race.

use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::tree::tag;
use crate::wire::{Identity, Spawn, SpawnStage};

/// Enough for the child's few frames. Only touched pages use memory.
const STACK_BYTES: usize = 64 * 1024;

/// Attributes that the holder was started with, changed for itself, and restores in its children.
#[derive(Clone, Debug)]
pub struct InheritedAttributes {
    pub umask: u32,
    pub open_files: (u64, u64),
    /// The original score; set only when the holder changed its own.
    pub oom_score: Option<CString>,
    /// Signals whose disposition in the holder is not the default.
    pub changed_signals: Vec<i32>,
}

impl InheritedAttributes {
    /// Restores the original score of a child that has executed its program.
    pub fn restore_oom_score(&self, pid: i32) {
        if let Some(score) = &self.oom_score {
            // The child may have ended already.
            let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), score.as_bytes());
        }
    }
}

struct ChildLimit {
    resource: u32,
    soft: u64,
    hard: u64,
    /// The spawn does not fail if it cannot be set.
    optional: bool,
}

/// Everything the child reads, in the memory that it shares with the holder. Lists of pointers end with NULL.
struct ChildSetup {
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    /// For each program: `sh`, the program as a script, the arguments.
    script_argv: Vec<Vec<*const c_char>>,
    envp: Vec<*const c_char>,
    cwd: *const c_char,
    stdio: [i32; 3],
    exec_pipe: i32,
    cgroup_procs: i32,
    /// The child must not run outside of its cgroup.
    confined: bool,
    terminal: bool,
    identity: Option<Identity>,
    limits: Vec<ChildLimit>,
    umask: u32,
    changed_signals: Vec<i32>,
    no_new_privileges: bool,
    /// Written by the child: `SpawnStage << 16 | errno` when a step failed.
    failure: AtomicU32,
    /// These two own the strings that the pointers above refer to.
    _strings: Vec<CString>,
    environment: Vec<u8>,
}

/// A cloned child that may not have reached its exec.
pub struct Launch {
    pub pid: i32,
    exec_pipe: OwnedFd,
    setup: Box<ChildSetup>,
    stack: Vec<u128>,
}

impl Launch {
    /// Hangs up as soon as the child has executed its program or failed.
    pub fn exec_pipe(&self) -> BorrowedFd<'_> {
        self.exec_pipe.as_fd()
    }

    /// Whether the child has executed its program or ended, and so no longer uses the shared memory.
    pub fn has_left_shared_memory(&self) -> bool {
        let mut byte = [0u8; 1];
        matches!(rustix::io::read(&self.exec_pipe, &mut byte), Ok(0))
    }

    /// A variable of the program's environment.
    pub fn environment_variable(&self, name: &str) -> Option<&[u8]> {
        entries(&self.setup.environment)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.strip_suffix(b"\0"))
    }

    /// Valid once the exec pipe has closed.
    pub fn outcome(&self) -> Result<(), (SpawnStage, i32)> {
        match self.setup.failure.load(SeqCst) {
            0 => Ok(()),
            packed => Err((SpawnStage::from_u8((packed >> 16) as u8), (packed & 0xffff) as i32)),
        }
    }
}

/// While the child uses the shared memory, its setup and stack must not be freed.
impl Drop for Launch {
    fn drop(&mut self) {
        if !self.has_left_shared_memory() {
            // The child is stuck before its exec: leak the memory.
            std::mem::forget(std::mem::take(&mut self.stack));
            let setup = std::mem::replace(&mut self.setup, Box::new(ChildSetup::empty()));
            std::mem::forget(setup);
        }
    }
}

impl ChildSetup {
    fn empty() -> Self {
        Self {
            programs: Vec::new(),
            argv: Vec::new(),
            script_argv: Vec::new(),
            envp: Vec::new(),
            cwd: std::ptr::null(),
            stdio: [-1; 3],
            exec_pipe: -1,
            cgroup_procs: -1,
            confined: false,
            terminal: false,
            identity: None,
            limits: Vec::new(),
            umask: 0o22,
            changed_signals: Vec::new(),
            no_new_privileges: false,
            failure: AtomicU32::new(0),
            _strings: Vec::new(),
            environment: Vec::new(),
        }
    }

    fn new(spawn: &Spawn, inherited: &InheritedAttributes, tagged: bool) -> Result<Self, Errno> {
        let mut strings = Vec::new();
        let mut keep = |bytes: &[u8]| -> Result<*const c_char, Errno> {
            let string = CString::new(bytes).map_err(|_| Errno::INVAL)?;
            let pointer = string.as_ptr();
            strings.push(string);
            Ok(pointer)
        };
        let mut list =
            |items: &[Vec<u8>]| -> Result<Vec<*const c_char>, Errno> { items.iter().map(|item| keep(item)).collect() };
        let programs = list(&spawn.programs)?;
        let mut argv = list(&spawn.arguments)?;
        let cwd = if spawn.cwd.is_empty() { std::ptr::null() } else { keep(&spawn.cwd)? };
        argv.push(std::ptr::null());
        let as_script = |program: &*const c_char| {
            [c"sh".as_ptr(), *program].into_iter().chain(argv.iter().skip(1).copied()).collect()
        };
        let script_argv = programs.iter().map(as_script).collect();
        let environment = spawn.environment.clone();
        let envp = entries(&environment).map(|entry| entry.as_ptr().cast()).chain([std::ptr::null()]).collect();
        let mut limits = vec![ChildLimit {
            resource: libc::RLIMIT_NOFILE,
            soft: inherited.open_files.0,
            hard: inherited.open_files.1,
            optional: true,
        }];
        limits.extend(spawn.limits.iter().map(|limit| ChildLimit {
            resource: limit.resource,
            soft: limit.soft,
            hard: limit.hard,
            optional: false,
        }));
        if tagged {
            let value = tag::rlimit_value(spawn.key);
            // Fails below a smaller finite limit and in sandbox kernels that refuse the call; then the tree is found
            // otherwise (`tag`).
            limits.push(ChildLimit { resource: libc::RLIMIT_RTTIME, soft: value, hard: value, optional: true });
        }
        Ok(Self {
            programs,
            argv,
            script_argv,
            envp,
            cwd,
            terminal: spawn.io.is_terminal(),
            identity: spawn.identity.clone(),
            limits,
            umask: inherited.umask,
            changed_signals: inherited.changed_signals.clone(),
            no_new_privileges: spawn.no_new_privileges,
            confined: spawn.has_cgroup_limits(),
            _strings: strings,
            environment,
            ..Self::empty()
        })
    }
}

/// The entries of an environment, each with its zero byte. An unterminated last entry is skipped.
fn entries(environment: &[u8]) -> impl Iterator<Item = &[u8]> {
    environment.split_inclusive(|byte| *byte == 0).filter(|entry| entry.ends_with(b"\0"))
}

/// Clones the child. The holder blocks all signals, so no handler can run in the child.
pub fn clone_child(
    spawn: &Spawn,
    stdio: [BorrowedFd<'_>; 3],
    cgroup_procs: Option<BorrowedFd<'_>>,
    inherited: &InheritedAttributes,
    tagged: bool,
) -> Result<Launch, (SpawnStage, i32)> {
    let prepare = |errno: Errno| (SpawnStage::Prepare, errno.raw_os_error());
    let mut setup = Box::new(ChildSetup::new(spawn, inherited, tagged).map_err(prepare)?);
    let (exec_pipe, child_exec_pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(prepare)?;
    setup.stdio = stdio.map(|fd| fd.as_raw_fd());
    setup.exec_pipe = child_exec_pipe.as_raw_fd();
    setup.cgroup_procs = cgroup_procs.map_or(-1, |fd| fd.as_raw_fd());
    // u128 gives the 16-byte alignment that the ABI requires of a stack.
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / 16);
    let argument = (&raw mut *setup).cast::<libc::c_void>();
    // SAFETY: the child gets its own stack and a setup, which `Launch` keeps until the exec pipe has closed. It makes
    // raw system calls only (see `child`). The memory is shared on purpose.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES / 16);
        libc::clone(child, top.cast(), libc::CLONE_VM | libc::SIGCHLD, argument)
    };
    if pid < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
        return Err((SpawnStage::Clone, errno));
    }
    Ok(Launch { pid, exec_pipe, setup, stack })
}

const ENOENT: isize = -(libc::ENOENT as isize);
const EACCES: isize = -(libc::EACCES as isize);
const ENOTDIR: isize = -(libc::ENOTDIR as isize);
const ENOEXEC: isize = -(libc::ENOEXEC as isize);

/// The exec pipe's descriptor in the child. Everything above it is closed at once, so that a child which hangs later
/// keeps no pipe or terminal of another process open.
const EXEC_PIPE: usize = 3;

/// The kernel's `struct sigaction`, not libc's. Zeros are the default disposition.
#[repr(C)]
struct DefaultAction([usize; 4]);

extern "C" fn child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone_child` passes a setup that stays alive and unchanged until the exec pipe closes.
    let setup: &ChildSetup = unsafe { &*argument.cast::<ChildSetup>() };
    let fail = |stage: SpawnStage, result: isize| {
        setup.failure.store((stage as u32) << 16 | (-result) as u32, SeqCst);
        // SAFETY: ends only this process.
        unsafe { syscall(libc::SYS_exit_group, 127, 0, 0, 0) };
    };
    let result = set_up(setup);
    if result < 0 {
        fail(SpawnStage::SetUp, result);
    }
    let result = become_user(setup);
    if result < 0 {
        fail(SpawnStage::Identity, result);
    }
    if !setup.cwd.is_null() {
        // SAFETY: a NUL-terminated string owned by the setup.
        let result = unsafe { syscall(libc::SYS_chdir, setup.cwd as usize, 0, 0, 0) };
        if result < 0 {
            fail(SpawnStage::Cwd, result);
        }
    }
    let result = exec(setup);
    fail(SpawnStage::Exec, result);
    127
}

fn set_up(setup: &ChildSetup) -> isize {
    // SAFETY (all calls here): numbers and pointers into the setup or onto this stack, as each call requires.
    unsafe {
        syscall(libc::SYS_setsid, 0, 0, 0, 0);
        let default = DefaultAction([0; 4]);
        for signal in &setup.changed_signals {
            syscall(libc::SYS_rt_sigaction, *signal as usize, &raw const default as usize, 0, 8);
        }
        if setup.terminal {
            let result = syscall(libc::SYS_ioctl, setup.stdio[0] as usize, libc::TIOCSCTTY as usize, 0, 0);
            if result < 0 {
                return result;
            }
        }
        if setup.cgroup_procs >= 0 {
            // "0" stands for the writing process. A failure matters only if the cgroup has limits: the tree tag finds
            // the tree as well.
            let result = syscall(libc::SYS_write, setup.cgroup_procs as usize, c"0".as_ptr() as usize, 1, 0);
            if result < 0 && setup.confined {
                return result;
            }
        }
        for target in 0..3 {
            let result = syscall(libc::SYS_dup3, setup.stdio[target] as usize, target, 0, 0);
            if result < 0 {
                return result;
            }
        }
        if setup.exec_pipe as usize != EXEC_PIPE {
            let result = syscall(libc::SYS_dup3, setup.exec_pipe as usize, EXEC_PIPE, libc::O_CLOEXEC as usize, 0);
            if result < 0 {
                return result;
            }
        }
        if syscall(libc::SYS_close_range, EXEC_PIPE + 1, u32::MAX as usize, 0, 0) < 0 {
            // Before Linux 5.9. All descriptors of the holder are close-on-exec anyway.
            for fd in EXEC_PIPE + 1..1024 {
                syscall(libc::SYS_close, fd, 0, 0, 0);
            }
        }
        for limit in &setup.limits {
            let pair = [limit.soft, limit.hard];
            let result = syscall(libc::SYS_prlimit64, 0, limit.resource as usize, &raw const pair as usize, 0);
            if result < 0 && !limit.optional {
                return result;
            }
        }
        syscall(libc::SYS_umask, setup.umask as usize, 0, 0, 0);
        if setup.no_new_privileges {
            let result = syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0);
            if result < 0 {
                return result;
            }
        }
    }
    0
}

fn become_user(setup: &ChildSetup) -> isize {
    let Some(identity) = &setup.identity else { return 0 };
    let (uid, gid) = (identity.uid as usize, identity.gid as usize);
    // SAFETY: plain numbers, and a list that the setup owns.
    unsafe {
        let groups = syscall(libc::SYS_setgroups, identity.groups.len(), identity.groups.as_ptr() as usize, 0, 0);
        // Without privileges the groups cannot be set. That does not matter if the user does not change.
        if groups < 0 && syscall(libc::SYS_geteuid, 0, 0, 0, 0) != uid as isize {
            return groups;
        }
        let result = syscall(libc::SYS_setresgid, gid, gid, gid, 0);
        if result < 0 {
            return result;
        }
        syscall(libc::SYS_setresuid, uid, uid, uid, 0)
    }
}

fn exec(setup: &ChildSetup) -> isize {
    let empty_mask = 0u64;
    // SAFETY: an empty mask on this stack; NUL-terminated strings and NULL-terminated lists of the setup.
    unsafe {
        syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, &raw const empty_mask as usize, 0, 8);
        let mut error = ENOENT;
        for (program, as_script) in setup.programs.iter().zip(&setup.script_argv) {
            let (argv, envp) = (setup.argv.as_ptr() as usize, setup.envp.as_ptr() as usize);
            let result = syscall(libc::SYS_execve, *program as usize, argv, envp, 0);
            match result {
                ENOENT | ENOTDIR => {}
                EACCES => error = EACCES,
                ENOEXEC => {
                    // A script without a #! line runs in sh, as with execvp and every shell.
                    let shell = c"/bin/sh".as_ptr() as usize;
                    syscall(libc::SYS_execve, shell, as_script.as_ptr() as usize, envp, 0);
                    return ENOEXEC;
                }
                other => return other,
            }
        }
        error
    }
}

/// A system call that changes no memory of the holder, not even `errno`.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller is responsible for the arguments; the kernel clobbers only rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            // prctl requires zeros behind its arguments.
            in("r8") 0usize,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A system call that changes no memory of the holder, not even `errno`.
#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller is responsible for the arguments.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d,
            // prctl requires zeros behind its arguments.
            in("x4") 0usize,
            options(nostack),
        );
    }
    result
}
