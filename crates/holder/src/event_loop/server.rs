//! Starts servers, watches their phases, and restarts them when they die.
//!
//! ```text
//!  starting ─Ready─▶ ready ─(no other server, or the old one retired)─▶ taking over ─▶ serving ─Retire─▶ retiring
//! ```
//!
//! At most one server serves. Messages are in server_io.rs, the steps between the phases in hand_over.rs.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::process::Signal;

use super::logging::{Level, log_to_stderr};
use super::process::signal_child;
use super::{Holder, Interest, Source};
use crate::clock;
use crate::spawn::{self, InheritedAttributes, Launch};
use crate::wire::{Socket, Spawn, ToServer};

/// Time for a new server to become ready.
pub(super) const READY_TIMEOUT_MS: u64 = 5_000;
/// A killed server that has not been reaped after this time is killed again.
const KILL_RETRY_MS: u64 = 1_000;
/// This many crashes within the window are a crash loop.
const CRASH_LOOP_COUNT: usize = 3;
const CRASH_LOOP_WINDOW_MS: u64 = 10_000;
/// A server with more unread replies is not read until it has read some.
const MAX_QUEUED_MESSAGES: usize = 4096;

/// The phases of a server. A server that misses its deadline is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting {
        deadline: u64,
    },
    Ready {
        deadline: u64,
    },
    TakingOver {
        remaining: VecDeque<HandOverItem>,
        awaiting_ack: bool,
        deadline: u64,
    },
    Serving,
    /// It was sent `Retire`. Once it has stopped writing it only finishes its responses.
    Retiring {
        stopped_writing: bool,
        deadline: u64,
    },
}

impl Phase {
    fn deadline(&self) -> Option<u64> {
        match self {
            Self::Starting { deadline }
            | Self::Ready { deadline }
            | Self::TakingOver { deadline, .. }
            | Self::Retiring { deadline, .. } => Some(*deadline),
            Self::Serving => None,
        }
    }

    fn set_deadline(&mut self, at: u64) {
        match self {
            Self::Starting { deadline }
            | Self::Ready { deadline }
            | Self::TakingOver { deadline, .. }
            | Self::Retiring { deadline, .. } => *deadline = at,
            Self::Serving => {}
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HandOverItem {
    StoredFd(Vec<u8>),
    Process(u64),
}

/// A message that waits for the server's socket.
#[derive(Clone, Debug)]
pub(super) enum QueuedMessage {
    Ready(ToServer),
    /// Encoded when it is sent, because the process's descriptors are attached.
    Spawned {
        request: u32,
        key: u64,
    },
}

pub(super) struct Server {
    pub(super) pid: i32,
    pub(super) epoch: u32,
    pub(super) socket: Socket,
    pub(super) phase: Phase,
    /// Kept until the server is ready, and so has executed its program.
    pub(super) launch: Option<Launch>,
    pub(super) queue: VecDeque<QueuedMessage>,
    /// Keys of logs that have changed for sleeping readers.
    pub(super) pending_wakeups: BTreeSet<u64>,
    /// The current registration of the socket in the poll set.
    pub(super) interest: Interest,
}

impl Server {
    pub(super) fn new(pid: i32, epoch: u32, socket: Socket, phase: Phase) -> Self {
        Self {
            pid,
            epoch,
            socket,
            phase,
            launch: None,
            queue: VecDeque::new(),
            pending_wakeups: BTreeSet::new(),
            interest: Interest { read: true, write: false },
        }
    }

    pub(super) fn receives_wakeups(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Retiring { .. })
    }

    pub(super) fn queue_is_full(&self) -> bool {
        self.queue.len() > MAX_QUEUED_MESSAGES
    }

    pub(super) fn socket_fd(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    pub(super) fn kill(&self) {
        signal_child(self.pid, Signal::KILL);
    }
}

impl Holder {
    pub(super) fn server(&mut self, epoch: u32) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.epoch == epoch)
    }

    pub(super) fn is_serving(&self, epoch: u32) -> bool {
        self.servers.iter().any(|server| server.epoch == epoch && server.phase == Phase::Serving)
    }

    pub(super) fn is_crash_looping(&self) -> bool {
        self.crash_times.len() >= CRASH_LOOP_COUNT
    }

    /// Starts a server from the image that this holder runs, even if the file was replaced or deleted.
    pub(super) fn start_server(&mut self) {
        self.restart_at = None;
        if let Err(error) = self.launch_server(b"/proc/self/exe") {
            log_to_stderr(Level::Error, &format!("cannot start a server: {error}"));
            self.schedule_restart(clock::boot_ms());
        }
    }

    pub(super) fn launch_server(&mut self, program: &[u8]) -> io::Result<u32> {
        self.last_epoch += 1;
        let epoch = self.last_epoch;
        let (ours, theirs) = Socket::pair()?;
        // The path on disk is the fallback for a chroot without /proc.
        let programs = vec![program.to_vec(), self.settings.program.clone()];
        let spawn = Spawn::own_binary(programs, self.settings.server_arguments.clone());
        // The socket is the server's descriptor 0.
        let output = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let stdio = [theirs.into_fd(), output(rustix::stdio::stdout())?, output(rustix::stdio::stderr())?];
        let inherited = InheritedAttributes { open_files: super::setup::open_files(), ..self.inherited.clone() };
        let launch = spawn::clone_child(&spawn, stdio.each_ref().map(AsFd::as_fd), None, &inherited, false)
            .map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        self.poll.add(&ours, Source::Server { epoch })?;
        let deadline = clock::boot_ms() + READY_TIMEOUT_MS;
        self.timers.arm_housekeeping(deadline);
        let mut server = Server::new(launch.pid, epoch, ours, Phase::Starting { deadline });
        server.launch = Some(launch);
        self.servers.push(server);
        self.exempt_servers();
        Ok(epoch)
    }

    /// Servers are children of the holder too, but belong to no tree.
    pub(super) fn exempt_servers(&self) {
        self.killer.set_exempt(self.servers.iter().map(|server| server.pid).collect());
    }

    /// A server was reaped.
    pub(super) fn on_server_exit(&mut self, position: usize, status: Result<u8, u8>) {
        let epoch = self.servers[position].epoch;
        // The server may have recorded a spawn in its journal that the holder has not read yet.
        self.read_remaining_messages(epoch);
        let Some(position) = self.servers.iter().position(|server| server.epoch == epoch) else { return };
        let server = self.servers.remove(position);
        self.poll.remove(&server.socket);
        self.exempt_servers();
        for process in self.processes.values() {
            process.log.abandon_leases_of(server.epoch);
        }
        if let Some(shutdown) = &mut self.shutdown {
            shutdown.server_exited = true;
            self.exit_if_shut_down();
            return;
        }
        self.cancel_upgrade_to(&server);
        match server.phase {
            Phase::Retiring { stopped_writing: true, .. } => self.queue_to_serving(ToServer::PredecessorExited(())),
            Phase::Retiring { stopped_writing: false, .. } => self.hand_over_to_ready_server(),
            Phase::Starting { .. } | Phase::Ready { .. } if self.has_successor() => {
                let launched = server.launch.map_or(Ok(()), |launch| launch.outcome());
                self.fail_upgrade(&match launched {
                    Err((_, errno)) => {
                        format!("cannot execute the new binary: {}", io::Error::from_raw_os_error(errno))
                    }
                    Ok(()) => format!("the new server exited before it was ready ({})", describe(status)),
                });
            }
            // The old server is about to retire; the holder then starts another one.
            Phase::Ready { .. } if self.is_any_server_still_writing() => {}
            Phase::Starting { .. } if self.restarts == 0 && self.last_epoch == 1 && status.is_ok() => {
                // No crash: the first server of all refused to start and has printed the reason.
                self.exit_code = status.ok().map(i32::from);
            }
            _ => {
                log_to_stderr(
                    Level::Warn,
                    &format!("server {} exited ({}); restarting it", server.pid, describe(status)),
                );
                self.schedule_restart(clock::boot_ms());
            }
        }
    }

    /// Counts a crash, and restarts the server at once, or with an exponential backoff in a crash loop.
    pub(super) fn schedule_restart(&mut self, now: u64) {
        self.restarts += 1;
        self.crash_times.retain(|at| at + CRASH_LOOP_WINDOW_MS > now);
        self.crash_times.push(now);
        let restart_at = match self.crash_times.len().checked_sub(CRASH_LOOP_COUNT) {
            None | Some(0) => now,
            Some(excess) => now + (100u64 << excess.min(10)).min(self.settings.max_backoff_ms),
        };
        self.restart_at = Some(restart_at);
        self.timers.arm_housekeeping(restart_at);
    }

    /// All times at which `check_server_deadlines` has something to do.
    pub(super) fn server_deadlines(&self) -> impl Iterator<Item = u64> {
        self.servers.iter().filter_map(|server| server.phase.deadline()).chain(self.restart_at)
    }

    pub(super) fn check_server_deadlines(&mut self, now: u64) {
        // No restart is needed if a server serves or starts. Should that one die, its exit schedules the next restart.
        if self.restart_at.take_if(|at| *at <= now).is_some() && !self.has_successor() && self.shutdown.is_none() {
            self.start_server();
        }
        for server in &mut self.servers {
            if server.phase.deadline().is_none_or(|deadline| deadline > now) {
                continue;
            }
            let missed = match server.phase {
                Phase::Starting { .. } => Some("was not ready"),
                Phase::Ready { .. } | Phase::TakingOver { .. } => Some("did not take over"),
                Phase::Retiring { .. } | Phase::Serving => None,
            };
            // Reaping it does the rest. The kill is repeated until then.
            server.phase.set_deadline(now + KILL_RETRY_MS);
            server.kill();
            if let Some(missed) = missed {
                log_to_stderr(Level::Warn, &format!("server {} {missed} in time; killing it", server.pid));
            }
        }
    }
}

fn describe(status: Result<u8, u8>) -> String {
    match status {
        Ok(code) => format!("exit code {code}"),
        Err(signal) => format!("signal {signal}"),
    }
}
