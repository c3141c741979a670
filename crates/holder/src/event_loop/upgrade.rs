//! Upgrade: replaces the running server, and then the holder itself, by the binary that is on disk now.
//!
//! The old server keeps serving until the new one is ready; if that fails, nothing has changed. The holder re-executes
//! itself only after the new server has said that it serves. Until then a restarted server uses the image that this
//! holder runs, which is known to work.
//!
//! The holder keeps its pid, children and descriptors over the exec. A dry run of the new binary decodes the state
//! first.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::Holder;
use super::logging::{Level, log_to_stderr};
use super::process::Process;
use super::server::{Phase, QueuedMessage, Server};
use crate::spawn::{self, Launch};
use crate::wire::{Spawn, ToServer};

/// Appended to the holder's arguments for the dry run.
const CHECK_FLAG: &[u8] = b"--check";

impl Holder {
    pub(super) fn start_upgrade(&mut self) {
        if self.shutdown.is_some() {
            return;
        }
        let serving = self.servers.iter().any(|server| server.phase == Phase::Serving);
        let starting = self
            .servers
            .iter()
            .any(|server| !matches!(server.phase, Phase::Serving | Phase::Retiring { stopped_writing: true, .. }));
        if !serving || starting {
            self.queue_to_serving(ToServer::Upgraded(b"another start or upgrade is under way".to_vec()));
            return;
        }
        let program = self.settings.program.clone();
        log_to_stderr(Level::Info, &format!("upgrading to {}", String::from_utf8_lossy(&program)));
        match self.launch_server(&program) {
            Ok(epoch) => self.upgrade_epoch = Some(epoch),
            Err(error) => self.fail_upgrade(&format!("cannot start the new binary: {error}")),
        }
    }

    pub(super) fn fail_upgrade(&mut self, reason: &str) {
        log_to_stderr(Level::Error, &format!("upgrade failed, the old server keeps serving: {reason}"));
        self.queue_to_serving(ToServer::Upgraded(reason.as_bytes().to_vec()));
    }

    /// A server has restored everything. If it is the new server of an upgrade, the holder follows.
    pub(super) fn on_serving(&mut self, epoch: u32) {
        let serves = self.server(epoch).is_some_and(|server| server.phase == Phase::Serving);
        if serves && self.upgrade_epoch == Some(epoch) {
            self.upgrade_epoch = None;
            self.re_exec_pending = true;
            self.reply_to_retired(b"");
        }
    }

    /// Replies to `Upgrade`. The server that sent it has retired; the new server would take this message for the reply
    /// to an `Upgrade` of its own.
    fn reply_to_retired(&mut self, outcome: &[u8]) {
        for server in self.servers.iter_mut().filter(|server| matches!(server.phase, Phase::Retiring { .. })) {
            server.queue.push_back(QueuedMessage::Ready(ToServer::Upgraded(outcome.to_vec())));
        }
    }

    /// A server has exited. If it was the new server of an upgrade, the holder does not follow.
    pub(super) fn cancel_upgrade_to(&mut self, server: &Server) {
        if self.upgrade_epoch == Some(server.epoch) {
            self.upgrade_epoch = None;
            if !matches!(server.phase, Phase::Starting { .. }) {
                let reason = "the new server exited before it served";
                log_to_stderr(Level::Error, &format!("upgrade failed: {reason}"));
                self.reply_to_retired(reason.as_bytes());
            }
        }
        if server.phase == Phase::Serving && std::mem::take(&mut self.re_exec_pending) {
            log_to_stderr(Level::Error, "the new server exited; the holder keeps its image");
        }
    }

    /// Whether nothing is in flight that a saved state cannot represent.
    pub(super) fn can_re_exec(&self) -> bool {
        let serving = self.servers.iter().filter(|server| server.phase == Phase::Serving).count();
        let is_retired = |server: &&Server| matches!(server.phase, Phase::Retiring { stopped_writing: true, .. });
        let retired = self.servers.iter().filter(is_retired).count();
        self.shutdown.is_none()
            && serving == 1
            && serving + retired == self.servers.len()
            && self.servers.iter().all(|server| server.queue.is_empty())
            && !self.processes.values().any(Process::is_launching)
            && self.pending_kills.is_empty()
    }

    /// Does not return on success. On failure this image continues.
    pub(super) fn re_exec(&mut self) {
        self.re_exec_pending = false;
        if let Err(error) = self.try_re_exec() {
            log_to_stderr(Level::Error, &format!("cannot re-execute the holder, keeping its image: {error}"));
        }
    }

    fn try_re_exec(&mut self) -> io::Result<()> {
        let saved = self.save_state()?;
        self.dry_run(&saved.state)?;
        let program = CString::new(self.settings.program.clone())?;
        let arguments = self.holder_arguments(&saved.state)?;
        let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let cleared = saved.clear_close_on_exec();
        if cleared.is_ok() {
            // SAFETY: NUL-terminated strings in a NULL-terminated list, both alive; the environment is our own.
            unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
        }
        let error = cleared.err().unwrap_or_else(io::Error::last_os_error);
        saved.set_close_on_exec();
        Err(error)
    }

    fn holder_arguments(&self, state: &OwnedFd) -> io::Result<Vec<CString>> {
        let fd = state.as_raw_fd().to_string().into_bytes();
        let arguments = self.settings.holder_arguments.iter().cloned().chain([fd]);
        arguments.map(|argument| CString::new(argument).map_err(io::Error::from)).collect()
    }

    /// Lets the new binary decode a copy of the state.
    fn dry_run(&mut self, state: &OwnedFd) -> io::Result<()> {
        let mut arguments = self.settings.holder_arguments.clone();
        // The state is descriptor 0 of the child: everything above 2 is closed there.
        arguments.extend([b"0".to_vec(), CHECK_FLAG.to_vec()]);
        let spawn = Spawn::own_binary(vec![self.settings.program.clone()], arguments);
        let output = || rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3);
        let stdio = [rustix::io::fcntl_dupfd_cloexec(state, 3)?, output()?, output()?];
        let launch = spawn::clone_child(&spawn, stdio.each_ref().map(AsFd::as_fd), None, &self.inherited, false)
            .map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        wait_for_dry_run(&launch)
    }
}

/// Blocks the event loop, but not for long: in the meantime programs only fill their pipes.
fn wait_for_dry_run(launch: &Launch) -> io::Result<()> {
    const TIMEOUT_SECONDS: i64 = 1;
    let pid = rustix::process::Pid::from_raw(launch.pid).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
    let timeout = rustix::event::Timespec { tv_sec: TIMEOUT_SECONDS, tv_nsec: 0 };
    if rustix::event::poll(&mut polled, Some(&timeout))? == 0 {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the new binary did not read the state in time"));
    }
    let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(io::Error::other("the new binary cannot decode the state")),
    }
}
