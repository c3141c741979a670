//! The holder replaces itself in place: same pid, same children, same descriptors, new program.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::Holder;
use super::process::Process;
use super::say::say;
use super::server::{Phase, Server};
use crate::spawn::{self, Launch};
use crate::wire::Spawn;

/// Put behind the holder's arguments for the dry run.
const CHECK: &[u8] = b"--check";

impl Holder {
    /// Nothing is in the middle of something that a new image of the holder could not take up.
    pub(super) fn is_quiet(&self) -> bool {
        let serving = self.servers.iter().filter(|server| server.phase == Phase::Serving).count();
        let retired = self.servers.iter().filter(|server| matches!(server.phase, Phase::Retiring { done: true, .. }));
        self.stopping.is_none()
            && serving == 1
            && serving + retired.count() == self.servers.len()
            && self.servers.iter().all(Server::owes_nothing)
            && !self.processes.values().any(Process::is_launching)
            && self.jobs.is_empty()
    }

    /// Does not return if it goes well. Otherwise this image simply carries on.
    pub(super) fn replace_image(&mut self) {
        self.replace_self = false;
        if let Err(error) = self.try_replace_image() {
            say(&format!("the holder stays with its old image: {error}"));
        }
    }

    fn try_replace_image(&mut self) -> io::Result<()> {
        let frozen = self.freeze()?;
        self.dry_run(&frozen.state)?;
        let program = CString::new(self.settings.program.clone())?;
        let arguments = self.image_arguments(&frozen.state)?;
        let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let kept = frozen.keep_across_exec();
        if kept.is_ok() {
            // SAFETY: NUL-terminated strings in a NULL-terminated list, both alive; the environment is our own.
            unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
        }
        let error = kept.err().unwrap_or_else(io::Error::last_os_error);
        frozen.close_on_exec_again();
        Err(error)
    }

    fn image_arguments(&self, state: &OwnedFd) -> io::Result<Vec<CString>> {
        let number = state.as_raw_fd().to_string().into_bytes();
        let all = self.settings.holder_arguments.iter().cloned().chain([number]);
        all.map(|argument| CString::new(argument).map_err(io::Error::from)).collect()
    }

    /// Lets the new binary read a copy of the state and say whether it understands it.
    fn dry_run(&mut self, state: &OwnedFd) -> io::Result<()> {
        let mut arguments = self.settings.holder_arguments.clone();
        // The state is its descriptor 0: everything above is closed in a child.
        arguments.extend([b"0".to_vec(), CHECK.to_vec()]);
        let spawn = Spawn::of_ours(vec![self.settings.program.clone()], arguments);
        let output = || rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3);
        let stdio = [rustix::io::fcntl_dupfd_cloexec(state, 3)?, output()?, output()?];
        let launch = spawn::launch(&spawn, stdio.each_ref().map(AsFd::as_fd), None, &self.inherited, false)
            .map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        wait_for(&launch)
    }
}

/// Waits for the dry run, but not for ever: meanwhile programs only fill their pipes.
fn wait_for(launch: &Launch) -> io::Result<()> {
    const PATIENCE_MS: i32 = 1000;
    let pid = rustix::process::Pid::from_raw(launch.pid).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let mut wanted = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
    let timeout = rustix::event::Timespec { tv_sec: i64::from(PATIENCE_MS / 1000), tv_nsec: 0 };
    if rustix::event::poll(&mut wanted, Some(&timeout))? == 0 {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the new binary did not read the state in time"));
    }
    let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(io::Error::other("the new binary does not understand the state")),
    }
}
