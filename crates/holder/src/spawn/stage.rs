//! Everything a child needs, laid out before the clone, and the clone itself.

use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::child::child;
use crate::tree::mark;
use crate::wire::{Identity, Spawn, SpawnStage};

/// Enough for the child's few frames; touched pages only.
const STACK_BYTES: usize = 64 * 1024;

/// What the holder itself was started with and its children get back.
#[derive(Clone, Debug)]
pub struct Inherited {
    pub umask: u32,
    pub open_files: (u64, u64),
    /// Set only when the holder changed its own.
    pub oom_score: Option<CString>,
    /// Signals that are not handled as by default here.
    pub changed_signals: Vec<i32>,
}

impl Inherited {
    /// Gives a child that has executed its program the score that we were started with.
    pub fn restore_oom_score(&self, pid: i32) {
        if let Some(score) = &self.oom_score {
            // It may have ended already.
            let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), score.as_bytes());
        }
    }
}

pub(super) struct StageLimit {
    pub(super) resource: u32,
    pub(super) soft: u64,
    pub(super) hard: u64,
    /// Failing to set it does not fail the spawn.
    pub(super) optional: bool,
}

/// Read by the child, in the shared memory. Lists of pointers end with NULL.
pub(super) struct Stage {
    pub(super) programs: Vec<*const c_char>,
    pub(super) argv: Vec<*const c_char>,
    /// For each program: `sh`, the program as a script, the arguments.
    pub(super) script_argv: Vec<Vec<*const c_char>>,
    pub(super) envp: Vec<*const c_char>,
    pub(super) cwd: *const c_char,
    pub(super) stdio: [i32; 3],
    pub(super) gate: i32,
    pub(super) cgroup_procs: i32,
    /// Not to run outside of its cgroup.
    pub(super) confined: bool,
    pub(super) terminal: bool,
    pub(super) identity: Option<Identity>,
    pub(super) limits: Vec<StageLimit>,
    pub(super) umask: u32,
    pub(super) changed_signals: Vec<i32>,
    pub(super) no_new_privileges: bool,
    /// `SpawnStage << 16 | errno` once something failed.
    pub(super) failure: AtomicU32,
    /// These two own what the pointers above point to.
    _strings: Vec<CString>,
    environment: Vec<u8>,
}

/// A child on its way to its exec.
pub struct Launch {
    pub pid: i32,
    gate: OwnedFd,
    stage: Box<Stage>,
    stack: Vec<u128>,
}

impl Launch {
    /// Readable (hung up) as soon as the child has executed its program or failed.
    pub fn gate(&self) -> BorrowedFd<'_> {
        self.gate.as_fd()
    }

    /// The child runs in this memory no more: it has executed its program, or ended.
    pub fn has_left(&self) -> bool {
        let mut byte = [0u8; 1];
        matches!(rustix::io::read(&self.gate, &mut byte), Ok(0))
    }

    /// A variable of the program's environment.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        entries(&self.stage.environment)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.strip_suffix(b"\0"))
    }

    /// Valid once the gate has closed.
    pub fn outcome(&self) -> Result<(), (SpawnStage, i32)> {
        match self.stage.failure.load(SeqCst) {
            0 => Ok(()),
            packed => Err((SpawnStage::from_u8((packed >> 16) as u8), (packed & 0xffff) as i32)),
        }
    }
}

/// Forgetting a launch whose child still runs in this memory would pull the stage from under it.
impl Drop for Launch {
    fn drop(&mut self) {
        if !self.has_left() {
            // Stuck since before its exec: let the little memory go with it.
            std::mem::forget(std::mem::take(&mut self.stack));
            let stage = std::mem::replace(&mut self.stage, Box::new(Stage::empty()));
            std::mem::forget(stage);
        }
    }
}

impl Stage {
    fn empty() -> Self {
        Self {
            programs: Vec::new(),
            argv: Vec::new(),
            script_argv: Vec::new(),
            envp: Vec::new(),
            cwd: std::ptr::null(),
            stdio: [-1; 3],
            gate: -1,
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

    fn new(spawn: &Spawn, inherited: &Inherited, marked: bool) -> Result<Self, Errno> {
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
        let mut limits = vec![StageLimit {
            resource: libc::RLIMIT_NOFILE,
            soft: inherited.open_files.0,
            hard: inherited.open_files.1,
            optional: true,
        }];
        limits.extend(spawn.limits.iter().map(|limit| StageLimit {
            resource: limit.resource,
            soft: limit.soft,
            hard: limit.hard,
            optional: false,
        }));
        if marked {
            let value = mark::rlimit_value(spawn.key);
            // Cannot be raised again inside of another outlive's process; then the other ways find the tree.
            limits.push(StageLimit { resource: libc::RLIMIT_RTTIME, soft: value, hard: value, optional: true });
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
            confined: spawn.is_confined(),
            _strings: strings,
            environment,
            ..Self::empty()
        })
    }
}

/// The entries of an environment, each with its zero byte; what has none is left out.
fn entries(environment: &[u8]) -> impl Iterator<Item = &[u8]> {
    environment.split_inclusive(|byte| *byte == 0).filter(|entry| entry.ends_with(b"\0"))
}

/// Starts the child. All of the holder's signals are blocked, so none can be handled in the child.
pub fn launch(
    spawn: &Spawn,
    stdio: [BorrowedFd<'_>; 3],
    cgroup_procs: Option<BorrowedFd<'_>>,
    inherited: &Inherited,
    marked: bool,
) -> Result<Launch, (SpawnStage, i32)> {
    let prepare = |errno: Errno| (SpawnStage::Prepare, errno.raw_os_error());
    let mut stage = Box::new(Stage::new(spawn, inherited, marked).map_err(prepare)?);
    let (gate, child_gate) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(prepare)?;
    stage.stdio = stdio.map(|fd| fd.as_raw_fd());
    stage.gate = child_gate.as_raw_fd();
    stage.cgroup_procs = cgroup_procs.map_or(-1, |fd| fd.as_raw_fd());
    // u128 gives the 16-byte alignment that the ABI wants of a stack.
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / 16);
    let argument = (&raw mut *stage).cast::<libc::c_void>();
    // SAFETY: the child gets its own stack and a stage that `Launch` keeps until the gate has closed; it makes
    // raw system calls only (see `child`). The memory is shared on purpose.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES / 16);
        libc::clone(child, top.cast(), libc::CLONE_VM | libc::SIGCHLD, argument)
    };
    if pid < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
        return Err((SpawnStage::Clone, errno));
    }
    Ok(Launch { pid, gate, stage, stack })
}
