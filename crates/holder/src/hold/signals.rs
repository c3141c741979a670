//! Signals to the holder, and the ends of its children.

use rustix::process::{Pid, Signal};

use super::Holder;
use crate::clock;

impl Holder {
    /// Reads pending signals; true when children may have ended.
    pub(super) fn take_signals(&mut self) -> bool {
        let mut reap = false;
        let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 8];
        while let Ok(count) = rustix::io::read(&self.signals, &mut buffer) {
            for info in buffer[..count].chunks_exact(size_of::<libc::signalfd_siginfo>()) {
                // ssi_signo is the first field, a u32.
                let number = info.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as i32;
                match number {
                    libc::SIGCHLD => reap = true,
                    libc::SIGHUP => self.begin_upgrade(),
                    _ => self.begin_shutdown(),
                }
            }
            if count < buffer.len() {
                break;
            }
        }
        reap
    }

    /// Collects every child that ended: commands, servers, and orphans that came to us.
    pub(super) fn reap(&mut self) {
        loop {
            let mut raw = 0;
            // SAFETY: waitpid on any child, without blocking, writing to a local.
            let pid = unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) };
            if pid <= 0 {
                break;
            }
            let status =
                if libc::WIFSIGNALED(raw) { Err(libc::WTERMSIG(raw) as u8) } else { Ok(libc::WEXITSTATUS(raw) as u8) };
            if let Some(key) = self.pids.remove(&pid) {
                self.exited(key, status);
            } else if let Some(position) = self.servers.iter().position(|server| server.pid == pid) {
                self.server_gone(position, status);
            }
        }
        self.stopping_due(clock::boot_ms());
    }
}

/// Only for a child that has not been reaped: its number is then nobody else's.
pub(super) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
