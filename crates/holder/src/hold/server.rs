//! The disposable part: starting servers and outliving them (hand_over.rs and talk.rs are what lies between).
//!
//! ```text
//!  starting ─Ready─▶ ready ─(no other, or the old one retired)─▶ taking over ─Go─▶ serving ─Retire─▶ retiring
//! ```
//!
//! At most one server serves; commands of any other are not obeyed.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::process::Signal;

use super::Holder;
use super::event::{Interest, Source};
use super::say::say;
use super::signals::signal;
use crate::clock;
use crate::spawn::{self, Inherited, Launch};
use crate::wire::{Done, Over, Socket, Spawn, SpawnFailed, ToServer};

/// A new server must be ready by then, else it is killed.
pub(super) const READY_MS: u64 = 5_000;
/// A killed server that is still there is killed again.
const KILL_AGAIN_MS: u64 = 1_000;
/// Three deaths within this time are "too often".
const OFTEN_MS: u64 = 10_000;
const OFTEN: usize = 3;
/// A server that does not read its answers is not listened to until it has read some.
const MAX_NOTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting {
        until: u64,
    },
    Ready {
        until: u64,
    },
    TakingOver {
        left: VecDeque<Object>,
        awaits_ack: bool,
        until: u64,
    },
    Serving,
    /// Asked to retire (`false`), or retired and finishing (`true`).
    Retiring {
        done: bool,
        until: u64,
    },
}

impl Phase {
    /// The moment by which this phase must be over.
    fn until(&self) -> Option<u64> {
        match self {
            Self::Starting { until }
            | Self::Ready { until }
            | Self::TakingOver { until, .. }
            | Self::Retiring { until, .. } => Some(*until),
            Self::Serving => None,
        }
    }

    fn set_until(&mut self, at: u64) {
        match self {
            Self::Starting { until }
            | Self::Ready { until }
            | Self::TakingOver { until, .. }
            | Self::Retiring { until, .. } => *until = at,
            Self::Serving => {}
        }
    }
}

/// Something to be handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Kept(Vec<u8>),
    Process(u64),
}

/// Something a server is to be told once its socket takes it.
#[derive(Clone, Debug)]
pub(super) enum Note {
    Spawned { request: u32, key: u64 },
    SpawnFailed(SpawnFailed),
    Done(Done),
    Over(Over),
    Say(ToServer),
}

pub(super) struct Server {
    pub(super) pid: i32,
    pub(super) epoch: u32,
    pub(super) socket: Socket,
    pub(super) phase: Phase,
    /// Kept until the server has executed its program.
    pub(super) launch: Option<Launch>,
    pub(super) notes: VecDeque<Note>,
    /// Logs with news. A set, so that a slow server costs no more than its processes.
    pub(super) woken: BTreeSet<u64>,
    /// What the poll set is asked about its socket.
    pub(super) interest: Interest,
}

impl Server {
    pub(super) fn adopt(pid: i32, epoch: u32, socket: Socket, phase: Phase) -> Self {
        Self {
            pid,
            epoch,
            socket,
            phase,
            launch: None,
            notes: VecDeque::new(),
            woken: BTreeSet::new(),
            interest: Interest { read: true, write: false },
        }
    }

    pub(super) fn listens(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Retiring { .. })
    }

    pub(super) fn wake_all(&mut self, keys: impl Iterator<Item = u64>) {
        self.woken.extend(keys);
    }

    pub(super) fn owes_nothing(&self) -> bool {
        self.notes.is_empty()
    }

    pub(super) fn owes_too_much(&self) -> bool {
        self.notes.len() > MAX_NOTES
    }

    pub(super) fn socket_number(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    pub(super) fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }
}

impl Holder {
    pub(super) fn server(&mut self, epoch: u32) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.epoch == epoch)
    }

    pub(super) fn is_dying_often(&self) -> bool {
        self.deaths.len() >= OFTEN
    }

    /// Starts a server from the image that this holder runs, whatever has become of the file.
    pub(super) fn start_server(&mut self) {
        self.restart_at = None;
        if let Err(error) = self.launch_server(b"/proc/self/exe") {
            say(&format!("cannot start a server: {error}"));
            self.server_died_at(clock::boot_ms());
        }
    }

    pub(super) fn launch_server(&mut self, program: &[u8]) -> io::Result<u32> {
        self.epoch += 1;
        let epoch = self.epoch;
        let (ours, theirs) = Socket::pair()?;
        // The path on disk is for a chroot without /proc.
        let programs = vec![program.to_vec(), self.settings.program.clone()];
        let spawn = Spawn::of_ours(programs, self.settings.server_arguments.clone());
        // The socket is the server's descriptor 0; it has no other use for one.
        let output = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let stdio = [theirs.into_fd(), output(rustix::stdio::stdout())?, output(rustix::stdio::stderr())?];
        let inherited = Inherited { open_files: super::setup::open_files(), ..self.inherited.clone() };
        let launch = spawn::launch(&spawn, stdio.each_ref().map(AsFd::as_fd), None, &inherited, false)
            .map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        self.poll.add(&ours, Source::Server { epoch })?;
        let until = clock::boot_ms() + READY_MS;
        self.timers.arm_housekeeping(until);
        let mut server = Server::adopt(launch.pid, epoch, ours, Phase::Starting { until });
        server.launch = Some(launch);
        self.servers.push(server);
        self.exempt_servers();
        Ok(epoch)
    }

    /// Servers are our children too, but never part of a tree.
    pub(super) fn exempt_servers(&self) {
        self.killer.set_exempt(self.servers.iter().map(|server| server.pid).collect());
    }

    /// A server was reaped.
    pub(super) fn server_gone(&mut self, position: usize, status: Result<u8, u8>) {
        // What it said last counts: a spawn that it had recorded must not be lost.
        let epoch = self.servers[position].epoch;
        self.last_words(epoch);
        let Some(position) = self.servers.iter().position(|server| server.epoch == epoch) else { return };
        let server = self.servers.remove(position);
        self.poll.remove(&server.socket);
        self.exempt_servers();
        for process in self.processes.values() {
            process.log.leave_holds_of(server.epoch);
        }
        if let Some(stopping) = &mut self.stopping {
            stopping.server_gone = true;
            self.exit_if_over();
            return;
        }
        self.end_upgrade_of(&server);
        match server.phase {
            Phase::Retiring { done: true, .. } => self.note(Note::Say(ToServer::Alone(()))),
            Phase::Retiring { done: false, .. } => self.hand_over_to_ready(),
            Phase::Starting { .. } | Phase::Ready { .. } if self.has_heir() => {
                let why = server.launch.map_or(Ok(()), |launch| launch.outcome());
                self.upgrade_failed(&match why {
                    Err((_, errno)) => format!("it cannot be executed: {}", io::Error::from_raw_os_error(errno)),
                    Ok(()) => format!("the new server ended before it was ready ({})", describe(status)),
                });
            }
            // Its predecessor is about to retire for it; the next step starts another.
            Phase::Ready { .. } if self.one_still_writes() => {}
            Phase::Starting { .. } if self.restarts == 0 && self.epoch == 1 && status.is_ok() => {
                // Not a crash: its very first start found something wrong and said what.
                self.exit_code = status.ok().map(i32::from);
            }
            _ => {
                say(&format!("server {} ended ({}); starting another", server.pid, describe(status)));
                self.server_died_at(clock::boot_ms());
            }
        }
    }

    pub(super) fn server_died_at(&mut self, now: u64) {
        self.restarts += 1;
        self.deaths.retain(|at| at + OFTEN_MS > now);
        self.deaths.push(now);
        if self.deaths.len() <= OFTEN {
            self.restart_at = Some(now);
        } else {
            let backoff = (100u64 << (self.deaths.len() - OFTEN).min(10)).min(self.settings.longest_backoff_ms);
            self.restart_at = Some(now + backoff);
        }
        self.timers.arm_housekeeping(self.restart_at.unwrap_or(now));
    }

    /// When `servers_due` has something to do.
    pub(super) fn servers_moments(&self) -> impl Iterator<Item = u64> {
        self.servers.iter().filter_map(|server| server.phase.until()).chain(self.restart_at)
    }

    pub(super) fn servers_due(&mut self, now: u64) {
        // One that serves or starts makes it needless; should that one die, its end says when to start another.
        if self.restart_at.take_if(|at| *at <= now).is_some() && !self.has_heir() && self.stopping.is_none() {
            self.start_server();
        }
        for server in &mut self.servers {
            let what = match server.phase {
                Phase::Starting { .. } => "was not ready",
                Phase::Ready { .. } | Phase::TakingOver { .. } => "had not taken over",
                Phase::Retiring { .. } | Phase::Serving => "",
            };
            if server.phase.until().is_none_or(|until| until > now) {
                continue;
            }
            // Reaping it does the rest; a kill that takes long is repeated.
            server.phase.set_until(now + KILL_AGAIN_MS);
            server.kill();
            if !what.is_empty() {
                say(&format!("server {} {what} in time", server.pid));
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
