//! Starts programs without ever waiting for them.
//!
//! ```text
//! Spawn (wire) ──▶ Stdio: pipes or terminal ──▶ ChildSetup: everything the child needs
//!                                                 │ clone(CLONE_VM), own stack, same memory
//!                                                 ▼
//!      Launch ◀── exec pipe (close-on-exec) ────── child: raw system calls only, then execve
//! ```
//!
//! The child shares the holder's memory instead of copying it, so the cost of a spawn does not depend on the size of
//! the holder. Unlike with vfork, the holder is *not* suspended: a child that hangs before its exec (for example
//! because its working directory is on a dead mount) hangs alone. The holder learns of the exec when the exec pipe
//! closes. The child writes a failure into the shared `ChildSetup`.

mod clone;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

pub use clone::{InheritedAttributes, Launch, clone_child};

use crate::log::Stream;
use crate::wire::{Identity, Io};

/// Size of an output pipe once it is widened, and of the pipes of a sink. Larger than the default: it buffers bursts of
/// output, and what a program prints while the holder re-executes itself. [`drain_reserve`] relies on it as the maximum.
/// The kernel refuses it when the user's pipe memory is used up; the pipe then keeps its smaller size.
pub const OUTPUT_PIPE_BYTES: usize = 256 * 1024;

/// Both ends of a process's standard streams.
pub struct Stdio {
    pub child: ChildStdio,
    /// Recorded by the holder.
    pub streams: Vec<(OwnedFd, Stream)>,
    /// The server writes input here. For a terminal, a duplicate of the recorded descriptor.
    pub input: Option<OwnedFd>,
}

/// Descriptors 0, 1 and 2 of the program.
pub struct ChildStdio([ChildFd; 3]);

enum ChildFd {
    Owned(OwnedFd),
    /// /dev/null, shared by all programs without input.
    SharedNull(BorrowedFd<'static>),
}

impl ChildStdio {
    pub fn borrow(&self) -> [BorrowedFd<'_>; 3] {
        self.0.each_ref().map(|fd| match fd {
            ChildFd::Owned(fd) => fd.as_fd(),
            ChildFd::SharedNull(fd) => *fd,
        })
    }
}

/// Upper bound of the unread bytes in pipes or terminal when a program ends. The log reserves space for them.
pub fn drain_reserve(io: &Io) -> u64 {
    if io.is_terminal() { 64 * 1024 } else { 2 * OUTPUT_PIPE_BYTES as u64 }
}

pub fn open_stdio(io: &Io, identity: Option<&Identity>) -> Result<Stdio, Errno> {
    if io.is_terminal() { open_terminal(io, identity) } else { open_pipes(io) }
}

/// Widens a pipe to [`OUTPUT_PIPE_BYTES`], if possible. Not done at the spawn: for programs that print little it takes too
/// long.
pub fn widen_pipe(stream: BorrowedFd<'_>) {
    let _ = fcntl_setpipe_size(stream, OUTPUT_PIPE_BYTES);
}

fn open_pipes(io: &Io) -> Result<Stdio, Errno> {
    let (input, stdin) = if io.stdin {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(write.as_fd())?;
        (Some(write), ChildFd::Owned(read))
    } else {
        (None, open_null()?)
    };
    let (stdout_read, stdout) = output_pipe()?;
    let mut streams = vec![(stdout_read, Stream::Stdout)];
    let stderr = if io.merged {
        rustix::io::fcntl_dupfd_cloexec(&stdout, 3)?
    } else {
        let (stderr_read, stderr) = output_pipe()?;
        streams.push((stderr_read, Stream::Stderr));
        stderr
    };
    Ok(Stdio { child: ChildStdio([stdin, ChildFd::Owned(stdout), ChildFd::Owned(stderr)]), streams, input })
}

/// Opens /dev/null once: that takes longer than everything else here.
fn open_null() -> Result<ChildFd, Errno> {
    static NULL: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(ChildFd::SharedNull(null.as_fd()));
    }
    match rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(null) => Ok(ChildFd::SharedNull(NULL.get_or_init(|| null).as_fd())),
        // An empty chroot has no /dev/null; a pipe without a writer reads as empty too.
        Err(_) => Ok(ChildFd::Owned(pipe_with(PipeFlags::CLOEXEC)?.0)),
    }
}

fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(read.as_fd())?;
    Ok((read, write))
}

/// For our end only: the program's end must block, as programs expect. A new descriptor has no other flag that F_SETFL
/// could clear.
fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)
}

fn open_terminal(io: &Io, identity: Option<&Identity>) -> Result<Stdio, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    set_nonblocking(master.as_fd())?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&slave)?;
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    tcsetwinsize(&slave, Winsize { ws_row: io.rows, ws_col: io.cols, ws_xpixel: 0, ws_ypixel: 0 })?;
    if let Some(identity) = identity {
        // Lets the program open its terminal by name.
        let owner = rustix::fs::Uid::from_raw(identity.uid);
        let _ = rustix::fs::fchown(&slave, Some(owner), None);
    }
    let [stdin, stdout] = [rustix::io::fcntl_dupfd_cloexec(&slave, 3)?, rustix::io::fcntl_dupfd_cloexec(&slave, 3)?];
    let child = ChildStdio([stdin, stdout, slave].map(ChildFd::Owned));
    let input = rustix::io::fcntl_dupfd_cloexec(&master, 3)?;
    Ok(Stdio { child, streams: vec![(master, Stream::Terminal)], input: Some(input) })
}
