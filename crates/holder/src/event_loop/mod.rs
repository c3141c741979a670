//! The holder's event loop: one thread that owns all processes, logs, servers and deadlines.
//!
//! ```text
//!              epoll
//!   streams    ──┐      ┌─▶ record: descriptor → log              (process.rs)
//!   exec pipes ──┤      ├─▶ launched or failed                    (launch.rs, brief_run.rs)
//!   signals    ──┼─loop─┼─▶ reap, upgrade, shut down              (process.rs, upgrade.rs, shutdown.rs)
//!   servers    ──┤      ├─▶ messages in both directions           (server_io.rs)
//!                │      │     commands of the serving server      (commands.rs)
//!                │      │     hand-over from server to server     (hand_over.rs, server.rs)
//!   killer     ──┤      ├─▶ a tree has been signalled or killed   (commands.rs)
//!   timers     ──┘      └─▶ deadlines, blocked logs               (timers.rs)
//!
//!   start, or exec of the next image: state.rs ◀── saved state ── upgrade.rs
//! ```
//!
//! Nothing here waits: descriptors are non-blocking, scans of /proc run on the killer thread, and messages to a server
//! queue until its socket accepts them. There are two bounded exceptions: creating and removing a cgroup directory, and
//! the dry run of a new binary.

mod brief_run;
mod cgroup_cleanup;
mod commands;
mod hand_over;
mod launch;
mod logging;
mod process;
mod server;
mod server_io;
mod setup;
mod shutdown;
mod state;
mod timers;
mod upgrade;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

pub use setup::block_signals;
pub use state::{InitialState, Settings};

use self::brief_run::SpareLog;
use self::cgroup_cleanup::LeftoverCgroups;
use self::commands::PendingKill;
use self::launch::{ChildState, MemoryTrim};
use self::logging::{Level, log_to_stderr};
use self::process::Process;
use self::server::Server;
use self::shutdown::Shutdown;
use self::timers::Timers;
use crate::spawn::InheritedAttributes;
use crate::tree::cgroup::Cgroups;
use crate::tree::killer::Killer;
use crate::{KEY_BITS, clock, wire};

/// The whole state of the holder.
pub(crate) struct Holder {
    settings: Settings,
    inherited: InheritedAttributes,
    poll: Poll,
    signal_fd: OwnedFd,
    killer: Killer,
    /// Readable when the killer has finished a job.
    killer_eventfd: OwnedFd,
    /// Jobs of the killer that are not finished, by job id.
    pending_kills: BTreeMap<u64, PendingKill>,
    last_job_id: u64,
    cgroups: Option<Cgroups>,
    leftover_cgroups: LeftoverCgroups,
    processes: HashMap<u64, Process>,
    spare_log: SpareLog,
    /// Brief runs whose result is queued; cleaned up after it has been sent.
    finished_brief_runs: Vec<Process>,
    /// Keys of commands by pid. Any other reaped child is a server or an orphan.
    pids: HashMap<i32, u64>,
    /// Descriptors stored on behalf of servers, by name.
    fd_store: BTreeMap<Vec<u8>, OwnedFd>,
    servers: Vec<Server>,
    timers: Timers,
    memory_trim: MemoryTrim,
    last_epoch: u32,
    boot_id: u64,
    started_at_ms: u64,
    /// Boot-clock times of the latest server crashes.
    crash_times: Vec<u64>,
    restarts: u32,
    restart_at: Option<u64>,
    oom_kills: u64,
    shutdown: Option<Shutdown>,
    /// The new server of an upgrade, until it serves.
    upgrade_epoch: Option<u32>,
    /// The holder re-executes itself as soon as nothing is in flight.
    re_exec_pending: bool,
    exit_code: Option<i32>,
}

/// Runs the holder described by the state in the memfd `state`; returns its exit code.
pub fn hold(state: OwnedFd) -> i32 {
    match Holder::restore(state) {
        Ok(mut holder) => holder.run(),
        Err(error) => {
            log_to_stderr(Level::Error, &format!("cannot start the holder: {error}"));
            1
        }
    }
}

/// Decodes a state as `hold` would, without acting on it: the dry run before a holder re-executes itself.
pub fn check(state: OwnedFd) -> i32 {
    i32::from(state::decode(&state).is_err())
}

impl Holder {
    fn run(&mut self) -> i32 {
        if self.servers.is_empty() {
            self.start_server();
        }
        let mut events = Vec::with_capacity(256);
        loop {
            if let Some(code) = self.exit_code {
                return code;
            }
            let timeout = self.timers.timeout(clock::boot_ms());
            if let Err(error) = self.poll.wait(&mut events, timeout) {
                log_to_stderr(Level::Error, &format!("cannot poll: {error}"));
                return 1;
            }
            let mut reap = false;
            for source in events.drain(..) {
                match source {
                    Source::Stream { key, index } => self.record_stream(key, index),
                    Source::ExecPipe { key } => self.finish_launch(key, ChildState::Running),
                    Source::Server { epoch } => self.on_server_readable(epoch),
                    Source::Signals => reap |= self.read_signals(),
                    Source::Killer => self.on_jobs_done(),
                }
            }
            // After the reads: most of what a program wrote before it ended is in the log by now.
            if reap {
                self.reap();
            }
            self.fire_timers();
            if self.re_exec_pending {
                self.report_all_as_processes();
            }
            self.flush_servers();
            self.clean_up_brief_runs();
            if self.re_exec_pending && self.can_re_exec() {
                self.re_exec();
            }
        }
    }

    /// Handles pending signals; returns true when children may have ended.
    fn read_signals(&mut self) -> bool {
        let mut reap = false;
        let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 8];
        while let Ok(count) = rustix::io::read(&self.signal_fd, &mut buffer) {
            for info in buffer[..count].chunks_exact(size_of::<libc::signalfd_siginfo>()) {
                // ssi_signo is the first field, a u32.
                let number = info.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as i32;
                match number {
                    libc::SIGCHLD => reap = true,
                    libc::SIGHUP => self.start_upgrade(),
                    _ => self.start_shutdown(),
                }
            }
            if count < buffer.len() {
                break;
            }
        }
        reap
    }

    fn welcome(&self, epoch: u32) -> wire::Welcome {
        wire::Welcome {
            protocol: wire::PROTOCOL,
            epoch,
            boot_id: self.boot_id,
            started_at_ms: self.started_at_ms,
            holder_pid: std::process::id(),
            safe_mode: self.is_crash_looping(),
            restarts: self.restarts,
            cgroups: self.cgroups.is_some(),
        }
    }
}

/// A registration in the poll set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An output stream of a process.
    Stream { key: u64, index: u8 },
    /// The exec pipe of a process that is being launched.
    ExecPipe { key: u64 },
    /// The socket of a server.
    Server { epoch: u32 },
    /// The holder's signalfd.
    Signals,
    /// The killer thread's eventfd.
    Killer,
}

/// The kinds of readiness that a descriptor is polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interest {
    read: bool,
    write: bool,
}

impl Source {
    fn pack(self) -> u64 {
        let (kind, index, rest) = match self {
            Self::Stream { key, index } => (1, index, key),
            Self::ExecPipe { key } => (2, 0, key),
            Self::Server { epoch } => (3, 0, u64::from(epoch)),
            Self::Signals => (4, 0, 0),
            Self::Killer => (5, 0, 0),
        };
        kind << 56 | u64::from(index) << 48 | rest
    }

    fn unpack(data: u64) -> Option<Self> {
        let rest = data & ((1 << KEY_BITS) - 1);
        Some(match data >> 56 {
            1 => Self::Stream { key: rest, index: (data >> 48) as u8 },
            2 => Self::ExecPipe { key: rest },
            3 => Self::Server { epoch: rest as u32 },
            4 => Self::Signals,
            5 => Self::Killer,
            _ => return None,
        })
    }
}

/// epoll, with the source of each registration packed into its 64 bits of user data.
struct Poll(OwnedFd);

impl Poll {
    fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Polls a descriptor for reading.
    fn add(&self, fd: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(source.pack()), epoll::EventFlags::IN)
    }

    /// epoll reports a hang-up whatever the interest.
    fn set_interest(&self, fd: impl AsFd, source: Source, interest: Interest) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.read);
        flags.set(epoll::EventFlags::OUT, interest.write);
        let _ = epoll::modify(&self.0, fd, epoll::EventData::new_u64(source.pack()), flags);
    }

    fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.0, fd);
    }

    fn wait(&self, ready: &mut Vec<Source>, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let mut events: [std::mem::MaybeUninit<epoll::Event>; 128] = [const { std::mem::MaybeUninit::uninit() }; 128];
        let timeout =
            timeout_ms.map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        let (filled, _) = match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            result => result?,
        };
        ready.extend(filled.iter().filter_map(|event| Source::unpack(event.data.u64())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_round_trip() {
        let key = (1 << KEY_BITS) - 1;
        for source in [
            Source::Stream { key, index: 255 },
            Source::ExecPipe { key: 7 },
            Source::Server { epoch: u32::MAX },
            Source::Signals,
            Source::Killer,
        ] {
            assert_eq!(Source::unpack(source.pack()), Some(source));
        }
    }
}
