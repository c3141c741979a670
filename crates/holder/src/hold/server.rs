//! The disposable part: starting servers, handing over to them, telling them what changed, outliving them.
//!
//! ```text
//!  starting ─Ready─▶ ready ─(no other, or the old one retired)─▶ taking over ─Go─▶ serving ─Retire─▶ retiring
//! ```
//!
//! At most one server serves; commands of any other are not obeyed.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::Holder;
use super::event::{Interest, Source};
use super::say::say;
use crate::spawn::{self, Inherited, Launch};
use crate::wire::{self, Done, Io, Socket, Spawn, SpawnFailed, ToHolder, ToServer};
use crate::clock;

/// A new server must be ready by then, else it is killed.
const READY_MS: u64 = 5_000;
/// Everything must have been handed over by then.
const TAKE_OVER_MS: u64 = 5_000;
/// A server that was asked to retire must have stopped writing by then.
const RETIRE_MS: u64 = 5_000;
/// How long a retired server may finish its answers.
const LINGER_MS: u64 = 30_000;
/// A killed server that is still there is killed again.
const KILL_AGAIN_MS: u64 = 1_000;
/// Three deaths within this time are "too often".
const OFTEN_MS: u64 = 10_000;
const OFTEN: usize = 3;
/// A server that does not read its answers is not listened to until it has read some.
const MAX_NOTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting { until: u64 },
    Ready { until: u64 },
    TakingOver { left: VecDeque<Object>, awaits_ack: bool, until: u64 },
    Serving,
    /// Asked to retire (`false`), or retired and finishing (`true`).
    Retiring { done: bool, until: u64 },
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
    Say(ToServer),
}

pub(super) struct Server {
    pub(super) pid: i32,
    pub(super) epoch: u32,
    pub(super) socket: Socket,
    pub(super) phase: Phase,
    /// Kept until the server has executed its program.
    _launch: Option<Launch>,
    notes: VecDeque<Note>,
    /// Logs with news. A set, so that a slow server costs no more than its processes.
    woken: BTreeSet<u64>,
    /// What the poll set is asked about its socket.
    interest: Interest,
}

impl Server {
    pub(super) fn adopt(pid: i32, epoch: u32, socket: Socket, phase: Phase) -> Self {
        Self {
            pid,
            epoch,
            socket,
            phase,
            _launch: None,
            notes: VecDeque::new(),
            woken: BTreeSet::new(),
            interest: Interest { read: true, write: false },
        }
    }

    fn listens(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Retiring { .. })
    }

    pub(super) fn wake_all(&mut self, keys: impl Iterator<Item = u64>) {
        self.woken.extend(keys);
    }

    pub(super) fn owes_nothing(&self) -> bool {
        self.notes.is_empty()
    }

    fn owes_too_much(&self) -> bool {
        self.notes.len() > MAX_NOTES
    }

    pub(super) fn socket_number(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    fn kill(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
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
        let path_on_disk = self.settings.program.clone();
        let spawn = Spawn {
            request: 0,
            key: 0,
            generation: 1,
            // The path on disk is for a chroot without /proc.
            programs: vec![program.to_vec(), path_on_disk],
            arguments: self.settings.server_arguments.clone(),
            environment: super::setup::environment(),
            cwd: Vec::new(),
            io: Io { cols: 0, rows: 0, stdin: false },
            identity: None,
            limits: Vec::new(),
            no_new_privileges: false,
            log_budget: 0,
            time_limit_at: 0,
            log_start: 0,
            log_first_mark: 0,
            log_input: 0,
        };
        // The socket is the server's descriptor 0; it has no other use for one.
        let output = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let stdio = [theirs.into_fd(), output(rustix::stdio::stdout())?, output(rustix::stdio::stderr())?];
        let inherited = Inherited { open_files: super::setup::open_files(), ..self.inherited.clone() };
        let launch = spawn::launch(&spawn, &stdio, None, &inherited, false)
            .map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        self.poll.add(&ours, Source::Server { epoch })?;
        let until = clock::boot_ms() + READY_MS;
        self.timers.arm_housekeeping(until);
        let mut server = Server::adopt(launch.pid, epoch, ours, Phase::Starting { until });
        server._launch = Some(launch);
        self.servers.push(server);
        self.exempt_servers();
        Ok(epoch)
    }

    /// Servers are our children too, but never part of a tree.
    pub(super) fn exempt_servers(&self) {
        self.killer.set_exempt(self.servers.iter().map(|server| server.pid).collect());
    }

    pub(super) fn greet(&mut self, epoch: u32, protocol: u32) {
        if protocol != wire::PROTOCOL {
            say(&format!("a server speaks protocol {protocol}, this holder {}", wire::PROTOCOL));
        }
        let welcome = self.welcome(epoch);
        self.note_to(epoch, Note::Say(ToServer::Welcome(welcome)));
    }

    pub(super) fn server_is_ready(&mut self, epoch: u32) {
        let Some(server) = self.server(epoch) else { return };
        if !matches!(server.phase, Phase::Starting { .. }) {
            return;
        }
        let until = clock::boot_ms() + RETIRE_MS;
        // The other one is killed when its time is up, so this one never waits as long as that unless it hangs.
        let own_until = until + READY_MS;
        server.phase = Phase::Ready { until: own_until };
        server._launch = None;
        let mut retiring = Vec::new();
        for other in self.servers.iter_mut().filter(|other| other.phase == Phase::Serving) {
            other.phase = Phase::Retiring { done: false, until };
            retiring.push(other.epoch);
        }
        if !self.one_still_writes() {
            self.hand_over(epoch);
            return;
        }
        self.timers.arm_housekeeping(until);
        self.timers.arm_housekeeping(own_until);
        for other in retiring {
            self.note_to(other, Note::Say(ToServer::Retire(())));
        }
    }

    /// A retiring server has stopped writing: from here on the new one owns everything.
    pub(super) fn server_retired(&mut self, epoch: u32) {
        let until = clock::boot_ms() + LINGER_MS;
        self.timers.arm_housekeeping(until);
        if let Some(server) = self.server(epoch)
            && matches!(server.phase, Phase::Retiring { done: false, .. })
        {
            server.phase = Phase::Retiring { done: true, until };
            self.hand_over_to_ready();
        }
    }

    fn hand_over_to_ready(&mut self) {
        match self.servers.iter().find(|server| matches!(server.phase, Phase::Ready { .. })).map(|server| server.epoch) {
            Some(epoch) => self.hand_over(epoch),
            // The one that was ready died while the other retired.
            None if !self.has_heir() => self.server_died_at(clock::boot_ms()),
            None => {}
        }
    }

    /// Somebody serves or is about to.
    fn has_heir(&self) -> bool {
        self.servers.iter().any(|server| !matches!(server.phase, Phase::Retiring { .. }))
    }

    /// Somebody was asked to retire and has not yet: nobody else may write.
    fn one_still_writes(&self) -> bool {
        self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { done: false, .. }))
    }

    fn hand_over(&mut self, epoch: u32) {
        let until = clock::boot_ms() + TAKE_OVER_MS;
        self.timers.arm_housekeeping(until);
        let kept = self.kept.keys().cloned().map(Object::Kept);
        let held = self.processes.values().filter(|process| !process.is_launching() && process.generation > 0);
        let left = kept.chain(held.map(|process| Object::Process(process.key))).collect();
        if let Some(server) = self.server(epoch) {
            server.phase = Phase::TakingOver { left, awaits_ack: false, until };
        }
        self.hand_over_next(epoch);
    }

    /// One object at a time, each acknowledged: descriptors in flight stay few.
    pub(super) fn hand_over_next(&mut self, epoch: u32) {
        let Some(position) = self.servers.iter().position(|server| server.epoch == epoch) else { return };
        let retiring = self.servers.iter().any(|server| matches!(server.phase, Phase::Retiring { .. }));
        let server = &mut self.servers[position];
        let Phase::TakingOver { left, awaits_ack, .. } = &mut server.phase else { return };
        *awaits_ack = false;
        while let Some(object) = left.pop_front() {
            let sent = match &object {
                Object::Kept(name) => self.kept.get(name).map(|fd| {
                    server.socket.send(&ToServer::Kept(name.clone()).encode(), &[fd.as_fd()])
                }),
                Object::Process(key) => self.processes.get(key).map(|process| {
                    let message = ToServer::Held(process.held()).encode();
                    server.socket.send(&message, &beside(process))
                }),
            };
            match sent {
                // Gone in the meantime.
                None => {}
                Some(Ok(())) => {
                    *awaits_ack = true;
                    return;
                }
                Some(Err(error)) => {
                    // Its socket is empty but for our one message, so this is no lack of room.
                    say(&format!("hand-over failed: {error}"));
                    server.kill();
                    return;
                }
            }
        }
        if self.processes.values().any(super::process::Process::is_launching) {
            // Asked for by the server before; the next one is to learn how it ended.
            return;
        }
        server.phase = Phase::Serving;
        // Whatever happened while nobody served is news.
        server.woken.extend(self.processes.keys());
        self.note_to(epoch, Note::Say(ToServer::Go(retiring)));
    }

    /// A launch has ended, well or not, and a hand-over may have waited for it.
    pub(super) fn hand_over_launched(&mut self, key: u64) {
        let mut idle = None;
        for server in &mut self.servers {
            if let Phase::TakingOver { left, awaits_ack, .. } = &mut server.phase {
                left.push_back(Object::Process(key));
                idle = (!*awaits_ack).then_some(server.epoch);
            }
        }
        if let Some(epoch) = idle {
            self.hand_over_next(epoch);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        if let Some(server) = self.servers.iter_mut().find(|server| server.phase == Phase::Serving) {
            server.notes.push_back(note);
        }
    }

    pub(super) fn note_to(&mut self, epoch: u32, note: Note) {
        if let Some(server) = self.server(epoch) {
            server.notes.push_back(note);
        }
    }

    pub(super) fn wake(&mut self, key: u64) {
        for server in self.servers.iter_mut().filter(|server| server.listens()) {
            server.woken.insert(key);
        }
    }

    /// Sends what fits; the rest waits until the socket takes more.
    pub(super) fn flush_servers(&mut self) {
        let mut servers = std::mem::take(&mut self.servers);
        for server in &mut servers {
            let blocked = self.flush(server);
            // The poll set would report again and again what is not going to be read.
            let interest = Interest { read: !server.owes_too_much(), write: blocked };
            if interest != server.interest {
                server.interest = interest;
                self.poll.set_interest(&server.socket, Source::Server { epoch: server.epoch }, interest);
            }
        }
        // Sending cannot add servers, but stay on the safe side.
        servers.append(&mut self.servers);
        self.servers = servers;
    }

    /// True when the server is behind.
    fn flush(&self, server: &mut Server) -> bool {
        match self.send_all(server) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            // It has hung up, and reading will tell; nobody is left who could be owed anything.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                server.notes.clear();
                server.woken.clear();
                false
            }
            Err(_) => false,
        }
    }

    fn send_all(&self, server: &mut Server) -> io::Result<()> {
        while let Some(note) = server.notes.front() {
            self.send(server, note)?;
            server.notes.pop_front();
        }
        while server.listens() && !server.woken.is_empty() {
            let batch: Vec<u64> = server.woken.iter().copied().take(1024).collect();
            server.socket.send(&ToServer::Wake(batch.clone()).encode(), &[])?;
            for key in &batch {
                server.woken.remove(key);
            }
        }
        Ok(())
    }

    fn send(&self, server: &Server, note: &Note) -> io::Result<()> {
        match note {
            Note::Spawned { request, key } => match (self.spawned(*request, *key), self.processes.get(key)) {
                (Some(spawned), Some(process)) => {
                    server.socket.send(&ToServer::Spawned(spawned).encode(), &beside(process))
                }
                _ => Ok(()),
            },
            Note::SpawnFailed(failed) => server.socket.send(&ToServer::SpawnFailed(failed.clone()).encode(), &[]),
            Note::Done(done) => server.socket.send(&ToServer::Done(done.clone()).encode(), &[]),
            Note::Say(message) => server.socket.send(&message.encode(), &[]),
        }
    }

    pub(super) fn server_readable(&mut self, epoch: u32) {
        // A bounded number per turn: a babbling server must not stop the recording.
        for _ in 0..64 {
            let Some(server) = self.server(epoch) else { return };
            if server.owes_too_much() {
                return;
            }
            match server.socket.receive() {
                Ok(Some(received)) => {
                    if let Some(message) = ToHolder::decode(&received.bytes) {
                        self.obey(epoch, message, received.descriptors);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Closed or broken: it is dead or as good as dead; reaping it does the rest.
                Ok(None) | Err(_) => {
                    server.kill();
                    self.poll_remove_server(epoch);
                    return;
                }
            }
        }
    }

    fn last_words(&mut self, epoch: u32) {
        while let Some(Ok(Some(received))) = self.server(epoch).map(|server| server.socket.receive()) {
            if let Some(message) = ToHolder::decode(&received.bytes) {
                self.obey(epoch, message, received.descriptors);
            }
        }
    }

    fn poll_remove_server(&self, epoch: u32) {
        if let Some(server) = self.servers.iter().find(|server| server.epoch == epoch) {
            self.poll.remove(&server.socket);
        }
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
        self.end_upgrade_of(&server);
        if let Some(stopping) = &mut self.stopping {
            stopping.server_gone = true;
            self.exit_if_over();
            return;
        }
        match server.phase {
            Phase::Retiring { done: true, .. } => self.note(Note::Say(ToServer::Alone(()))),
            Phase::Retiring { done: false, .. } => self.hand_over_to_ready(),
            Phase::Starting { .. } | Phase::Ready { .. } if self.has_heir() => {
                let why = server._launch.map_or(Ok(()), |launch| launch.outcome());
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

    fn server_died_at(&mut self, now: u64) {
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

/// Descriptors that go with a process: its log, and its input if it has one.
fn beside(process: &super::process::Process) -> Vec<BorrowedFd<'_>> {
    std::iter::once(process.log.file()).chain(process.input.as_ref().map(AsFd::as_fd)).collect()
}

fn describe(status: Result<u8, u8>) -> String {
    match status {
        Ok(code) => format!("exit code {code}"),
        Err(signal) => format!("signal {signal}"),
    }
}
