//! What the new process does between clone and exec.
//!
//! It runs beside the holder in the same memory, so: raw system calls, no allocation, no lock, no panic, and
//! only reads of the prepared `Stage` (but for the failure it reports there).

use std::sync::atomic::Ordering::SeqCst;

use super::stage::Stage;
use super::syscall::call;
use crate::wire::SpawnStage;

const ENOENT: isize = -(libc::ENOENT as isize);
const EACCES: isize = -(libc::EACCES as isize);
const ENOTDIR: isize = -(libc::ENOTDIR as isize);
const ENOEXEC: isize = -(libc::ENOEXEC as isize);

/// The gate's place in the child; everything above it is closed at once, so that a child which hangs later
/// keeps no pipe or terminal of another process open.
const GATE: usize = 3;

/// The kernel's `struct sigaction` (not libc's); zero means "default".
#[repr(C)]
struct DefaultAction([usize; 4]);

pub(super) extern "C" fn child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `launch` passes a Stage that it keeps alive and unchanged until the gate closes.
    let stage: &Stage = unsafe { &*argument.cast::<Stage>() };
    let failed = |at: SpawnStage, result: isize| {
        stage.failure.store((at as u32) << 16 | (-result) as u32, SeqCst);
        // SAFETY: ends only this process.
        unsafe { call(libc::SYS_exit_group, 127, 0, 0, 0) };
    };
    let result = set_up(stage);
    if result < 0 {
        failed(SpawnStage::SetUp, result);
    }
    let result = become_user(stage);
    if result < 0 {
        failed(SpawnStage::Identity, result);
    }
    if !stage.cwd.is_null() {
        // SAFETY: a NUL-terminated string owned by the stage.
        let result = unsafe { call(libc::SYS_chdir, stage.cwd as usize, 0, 0, 0) };
        if result < 0 {
            failed(SpawnStage::Cwd, result);
        }
    }
    let result = exec(stage);
    failed(SpawnStage::Exec, result);
    127
}

fn set_up(stage: &Stage) -> isize {
    // SAFETY (all calls here): numbers and pointers into the stage or onto this stack, as each call wants them.
    unsafe {
        call(libc::SYS_setsid, 0, 0, 0, 0);
        let default = DefaultAction([0; 4]);
        for signal in &stage.changed_signals {
            call(libc::SYS_rt_sigaction, *signal as usize, &raw const default as usize, 0, 8);
        }
        if stage.terminal {
            let result = call(libc::SYS_ioctl, stage.stdio[0] as usize, libc::TIOCSCTTY as usize, 0, 0);
            if result < 0 {
                return result;
            }
        }
        if stage.cgroup_procs >= 0 {
            // Zero means "the writer". Failing is no reason not to run: the mark finds the tree as well, unless it was
            // to be held within limits.
            let result = call(libc::SYS_write, stage.cgroup_procs as usize, c"0".as_ptr() as usize, 1, 0);
            if result < 0 && stage.confined {
                return result;
            }
        }
        for target in 0..3 {
            let result = call(libc::SYS_dup3, stage.stdio[target] as usize, target, 0, 0);
            if result < 0 {
                return result;
            }
        }
        if stage.gate as usize != GATE {
            let result = call(libc::SYS_dup3, stage.gate as usize, GATE, libc::O_CLOEXEC as usize, 0);
            if result < 0 {
                return result;
            }
        }
        if call(libc::SYS_close_range, GATE + 1, u32::MAX as usize, 0, 0) < 0 {
            // Before Linux 5.9; everything of ours is close-on-exec anyway.
            for fd in GATE + 1..1024 {
                call(libc::SYS_close, fd, 0, 0, 0);
            }
        }
        for limit in &stage.limits {
            let pair = [limit.soft, limit.hard];
            let result = call(libc::SYS_prlimit64, 0, limit.resource as usize, &raw const pair as usize, 0);
            if result < 0 && !limit.optional {
                return result;
            }
        }
        call(libc::SYS_umask, stage.umask as usize, 0, 0, 0);
        if stage.no_new_privileges {
            let result = call(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0);
            if result < 0 {
                return result;
            }
        }
    }
    0
}

fn become_user(stage: &Stage) -> isize {
    let Some(identity) = &stage.identity else { return 0 };
    let (uid, gid) = (identity.uid as usize, identity.gid as usize);
    // SAFETY: plain numbers, and a list that the stage owns.
    unsafe {
        let groups = call(libc::SYS_setgroups, identity.groups.len(), identity.groups.as_ptr() as usize, 0, 0);
        // Without privilege the groups cannot be set; that is fine when the user is the one we already are.
        if groups < 0 && call(libc::SYS_geteuid, 0, 0, 0, 0) != uid as isize {
            return groups;
        }
        let result = call(libc::SYS_setresgid, gid, gid, gid, 0);
        if result < 0 {
            return result;
        }
        call(libc::SYS_setresuid, uid, uid, uid, 0)
    }
}

fn exec(stage: &Stage) -> isize {
    let nothing = 0u64;
    // SAFETY: an empty mask on this stack; NUL-terminated strings and NULL-terminated lists of the stage.
    unsafe {
        call(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, &raw const nothing as usize, 0, 8);
        let mut worst = ENOENT;
        for (program, as_script) in stage.programs.iter().zip(&stage.script_argv) {
            let (argv, envp) = (stage.argv.as_ptr() as usize, stage.envp.as_ptr() as usize);
            let result = call(libc::SYS_execve, *program as usize, argv, envp, 0);
            match result {
                ENOENT | ENOTDIR => {}
                EACCES => worst = EACCES,
                ENOEXEC => {
                    // A script without its first line: what execvp and every shell do.
                    let shell = c"/bin/sh".as_ptr() as usize;
                    call(libc::SYS_execve, shell, as_script.as_ptr() as usize, envp, 0);
                    return ENOEXEC;
                }
                other => return other,
            }
        }
        worst
    }
}
