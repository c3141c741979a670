//! The descriptors of a new process: pipes, or a terminal.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::log::Stream;
use crate::wire::{Identity, Io};

/// More slack for the program while the holder replaces itself; refused silently when the user's pipe
/// memory is used up.
const PIPE_BYTES: usize = 256 * 1024;

/// Both ends of a process's standard streams.
pub struct Ends {
    pub program: ProgramEnds,
    /// What the holder records.
    pub streams: Vec<(OwnedFd, Stream)>,
    /// Where the server writes input; for a terminal the same as the recorded one.
    pub input: Option<OwnedFd>,
}

/// For descriptors 0, 1 and 2 of the program.
pub struct ProgramEnds([ProgramEnd; 3]);

enum ProgramEnd {
    Own(OwnedFd),
    /// Of all programs that have no input.
    Null(BorrowedFd<'static>),
}

impl ProgramEnds {
    pub fn borrow(&self) -> [BorrowedFd<'_>; 3] {
        self.0.each_ref().map(|end| match end {
            ProgramEnd::Own(fd) => fd.as_fd(),
            ProgramEnd::Null(fd) => *fd,
        })
    }
}

/// What can be unread in the pipes or terminal when a program ends, and so must fit into the log's reserve.
pub fn reserve(io: &Io) -> u64 {
    if io.is_terminal() { 64 * 1024 } else { 2 * PIPE_BYTES as u64 }
}

pub fn prepare(io: &Io, identity: Option<&Identity>) -> Result<Ends, Errno> {
    if io.is_terminal() { terminal(io, identity) } else { pipes(io) }
}

/// Room for a burst. Not from the start: for programs that hardly print anything it would not be worth its time.
pub fn widen(stream: BorrowedFd<'_>) {
    let _ = fcntl_setpipe_size(stream, PIPE_BYTES);
}

fn pipes(io: &Io) -> Result<Ends, Errno> {
    let (input, stdin) = if io.stdin {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(write.as_fd())?;
        (Some(write), ProgramEnd::Own(read))
    } else {
        (None, nothing()?)
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
    Ok(Ends { program: ProgramEnds([stdin, ProgramEnd::Own(stdout), ProgramEnd::Own(stderr)]), streams, input })
}

/// Opened once: that takes longer than everything else that a program without input needs here.
fn nothing() -> Result<ProgramEnd, Errno> {
    static NULL: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(ProgramEnd::Null(null.as_fd()));
    }
    match rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(null) => Ok(ProgramEnd::Null(NULL.get_or_init(|| null).as_fd())),
        // An empty chroot has no /dev/null; a pipe without a writer reads as empty just the same.
        Err(_) => Ok(ProgramEnd::Own(pipe_with(PipeFlags::CLOEXEC)?.0)),
    }
}

fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(read.as_fd())?;
    Ok((read, write))
}

/// Only our end: the program's end must block as programs expect. Fresh from the kernel, it has no other flag that can be
/// changed.
fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)
}

fn terminal(io: &Io, identity: Option<&Identity>) -> Result<Ends, Errno> {
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
        // So that the program may open its terminal again by name.
        let owner = rustix::fs::Uid::from_raw(identity.uid);
        let _ = rustix::fs::fchown(&slave, Some(owner), None);
    }
    let [stdin, stdout] = [rustix::io::fcntl_dupfd_cloexec(&slave, 3)?, rustix::io::fcntl_dupfd_cloexec(&slave, 3)?];
    let program = ProgramEnds([stdin, stdout, slave].map(ProgramEnd::Own));
    let input = rustix::io::fcntl_dupfd_cloexec(&master, 3)?;
    Ok(Ends { program, streams: vec![(master, Stream::Terminal)], input: Some(input) })
}
