//! What a holder is made of, as bytes: the first start and every replacement of its image begin from here.
//!
//! Descriptors are given by number; they stay open across the exec.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::FdFlags;

use super::Holder;
use super::cgroups::LeftCgroups;
use super::event::{Poll, Source};
use super::memory::GiveBack;
use super::process::{Process, StreamEnd};
use super::server::{Phase, Server};
use super::setup;
use super::spare_log::SpareLog;
use super::timer::Timers;
use crate::clock;
use crate::log::{Cause, LogWriter, Stream};
use crate::spawn::Inherited;
use crate::tree::Root;
use crate::tree::cgroup::Cgroups;
use crate::tree::killer::Killer;
use crate::wire::codec::{Field, Item, wire_struct};
use crate::wire::{Socket, read_sealed, sealed};

wire_struct! {
    pub struct Settings {
        /// The binary on disk; an upgrade starts from it.
        pub program: Vec<u8>,
        /// Arguments of every server, the program's name first.
        pub server_arguments: Vec<Vec<u8>>,
        /// Arguments of the holder itself, up to the number of the state's descriptor.
        pub holder_arguments: Vec<Vec<u8>>,
        /// Time between TERM and KILL when everything is stopped.
        pub grace_ms: u64,
        pub use_cgroups: bool,
        /// A server that keeps dying is started again after at most this long.
        pub longest_backoff_ms: u64,
    }
}

wire_struct! {
    pub struct State {
        pub settings: Settings,
        pub epoch: u32,
        pub boot_id: u64,
        pub started_at_ms: u64,
        pub restarts: u32,
        pub umask: u32,
        pub open_files: Vec<u64>,
        pub oom_score: Option<Vec<u8>>,
        pub kept: Vec<KeptState>,
        pub processes: Vec<ProcessState>,
        pub servers: Vec<ServerState>,
    }
}

wire_struct! {
    pub struct KeptState {
        pub name: Vec<u8>,
        pub fd: i32,
    }
}
impl Item for KeptState {}

wire_struct! {
    pub struct ProcessState {
        pub key: u64,
        pub generation: u32,
        pub pid: i32,
        pub started_at_ms: u64,
        pub log: i32,
        pub streams: Vec<StreamState>,
        pub input: i32,
        pub cgroup: Vec<u8>,
        pub kill_at: u64,
        pub time_limit_at: u64,
        pub detach_at: u64,
        pub cause: u8,
        pub forget: bool,
        pub unmarked: Option<UnmarkedState>,
        pub last_pid: i32,
    }
}
impl Item for ProcessState {}

wire_struct! {
    /// How to find a tree that carries no mark.
    pub struct UnmarkedState {
        pub pid: i32,
        pub start_time: u64,
        pub id: Vec<u8>,
    }
}

wire_struct! {
    pub struct StreamState {
        pub fd: i32,
        pub stream: u8,
    }
}
impl Item for StreamState {}

wire_struct! {
    pub struct ServerState {
        pub pid: i32,
        pub epoch: u32,
        pub socket: i32,
        /// 0 serves, else the moment until which it may finish.
        pub retires_until: u64,
    }
}
impl Item for ServerState {}

/// What the first holder of all begins with.
pub struct Initial {
    pub settings: Settings,
    pub boot_id: u64,
    /// Listeners and whatever else servers are to find.
    pub keep: Vec<(Vec<u8>, OwnedFd)>,
}

impl Initial {
    /// The state as a memfd that survives an exec, together with all kept descriptors.
    pub fn into_state(self) -> io::Result<OwnedFd> {
        let open_files = setup::raise_open_files();
        let state = State {
            settings: self.settings,
            epoch: 0,
            boot_id: self.boot_id,
            started_at_ms: clock::wall_ms(),
            restarts: 0,
            umask: setup::current_umask(),
            open_files: vec![open_files.0, open_files.1],
            oom_score: setup::lower_oom_score().map(CString::into_bytes),
            kept: self.keep.iter().map(|(name, fd)| KeptState { name: name.clone(), fd: fd.as_raw_fd() }).collect(),
            processes: Vec::new(),
            servers: Vec::new(),
        };
        let file = encode(&state)?;
        for (_, fd) in self.keep {
            set_flags(fd.as_raw_fd(), FdFlags::empty())?;
            // Closed by nobody: the next image owns it.
            std::mem::forget(fd);
        }
        Ok(file)
    }
}

fn encode(state: &State) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    state.put(&mut bytes);
    let file = sealed(&bytes)?;
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

pub(super) fn decode(file: &OwnedFd) -> io::Result<State> {
    use std::os::fd::AsFd;
    let bytes = read_sealed(file.as_fd())?;
    State::take(&mut bytes.as_slice()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable state"))
}

/// A state and the descriptors that it names.
pub(super) struct Frozen {
    pub(super) state: OwnedFd,
    fds: Vec<RawFd>,
}

impl Frozen {
    /// To be called right before the exec.
    pub(super) fn keep_across_exec(&self) -> io::Result<()> {
        self.fds.iter().try_for_each(|fd| set_flags(*fd, FdFlags::empty()))
    }

    /// There was no exec: descriptors that stayed open in every child would keep pipes from ending.
    pub(super) fn close_on_exec_again(&self) {
        for fd in &self.fds {
            let _ = set_flags(*fd, FdFlags::CLOEXEC);
        }
    }
}

fn set_flags(fd: RawFd, flags: FdFlags) -> io::Result<()> {
    // SAFETY: borrowed only for this call, from an owner that is alive.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Takes ownership of a descriptor that an earlier image left open.
fn take_fd(raw: RawFd) -> io::Result<OwnedFd> {
    if raw < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the state names each descriptor once, and the image that owned it is gone.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

impl Holder {
    pub(super) fn resume(file: OwnedFd) -> io::Result<Self> {
        let state = decode(&file)?;
        drop(file);
        setup::become_subreaper()?;
        let signals = setup::take_signals()?;
        let news =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)?;
        let killer = Killer::start(rustix::io::fcntl_dupfd_cloexec(&news, 3)?, Vec::new())?;
        let poll = Poll::new()?;
        poll.add(&signals, Source::Signals)?;
        poll.add(&news, Source::Killer)?;
        let mut holder = Self {
            inherited: Inherited {
                umask: state.umask,
                open_files: (
                    state.open_files.first().copied().unwrap_or(1024),
                    state.open_files.get(1).copied().unwrap_or(4096),
                ),
                oom_score: state.oom_score.and_then(|score| CString::new(score).ok()),
                changed_signals: setup::changed_signals(),
            },
            cgroups: state.settings.use_cgroups.then(Cgroups::probe).flatten(),
            left_cgroups: LeftCgroups::default(),
            spare_log: SpareLog::default(),
            to_clear_away: Vec::new(),
            settings: state.settings,
            poll,
            signals,
            killer,
            killer_news: news,
            jobs: BTreeMap::new(),
            last_ticket: 0,
            processes: HashMap::new(),
            pids: HashMap::new(),
            kept: BTreeMap::new(),
            servers: Vec::new(),
            timers: Timers::default(),
            give_back: GiveBack::default(),
            epoch: state.epoch,
            boot_id: state.boot_id,
            started_at_ms: state.started_at_ms,
            deaths: Vec::new(),
            restarts: state.restarts,
            restart_at: None,
            oom_kills: setup::oom_kills(),
            stopping: None,
            upgrade: None,
            replace_self: false,
            exit_code: None,
        };
        for kept in state.kept {
            holder.kept.insert(kept.name, take_fd(kept.fd)?);
        }
        for process in state.processes {
            holder.resume_process(process)?;
        }
        for server in state.servers {
            holder.resume_server(&server)?;
        }
        // Children that ended during the exec: their SIGCHLD may be lost.
        holder.reap();
        Ok(holder)
    }

    fn resume_process(&mut self, state: ProcessState) -> io::Result<()> {
        let mut process = Process::new(state.key, LogWriter::adopt(take_fd(state.log)?)?);
        process.generation = state.generation;
        process.pid = state.pid;
        // A holder of an older version did not keep it.
        process.last_pid = state.last_pid.max(state.pid);
        process.started_at_ms = state.started_at_ms;
        process.input = if state.input >= 0 { Some(take_fd(state.input)?) } else { None };
        process.cgroup = (!state.cgroup.is_empty()).then(|| path_from(state.cgroup));
        process.kill_at = state.kill_at;
        process.time_limit_at = state.time_limit_at;
        process.detach_at = state.detach_at;
        process.cause = Cause::from_u8(state.cause);
        process.forget = state.forget;
        process.unmarked = state.unmarked.map(|unmarked| Root {
            pid: unmarked.pid,
            start_time: unmarked.start_time,
            key: state.key,
            environ_id: String::from_utf8(unmarked.id).ok().filter(|id| !id.is_empty()),
        });
        if state.pid != 0 {
            self.pids.insert(state.pid, state.key);
        }
        for at in process.deadlines() {
            self.timers.arm(at, state.key);
        }
        self.processes.insert(state.key, process);
        for stream in state.streams {
            let kind = Stream::from_u8(stream.stream).unwrap_or(Stream::Extra);
            self.add_stream(state.key, take_fd(stream.fd)?, kind);
        }
        // The image before may not have counted.
        if let Some(process) = self.processes.get(&state.key) {
            process.count_streams();
        }
        Ok(())
    }

    fn resume_server(&mut self, state: &ServerState) -> io::Result<()> {
        let socket = Socket::from_fd(take_fd(state.socket)?);
        self.poll.add(&socket, Source::Server { epoch: state.epoch })?;
        let phase = match state.retires_until {
            0 => Phase::Serving,
            until => Phase::Retiring { done: true, until },
        };
        self.timers.arm_housekeeping(state.retires_until);
        let mut server = Server::adopt(state.pid, state.epoch, socket, phase);
        server.wake_all(self.processes.keys().copied());
        self.servers.push(server);
        self.exempt_servers();
        Ok(())
    }

    /// The whole holder as a state.
    pub(super) fn freeze(&self) -> io::Result<Frozen> {
        let mut fds = Vec::new();
        let mut number = |fd: RawFd| {
            fds.push(fd);
            fd
        };
        let kept =
            self.kept.iter().map(|(name, fd)| KeptState { name: name.clone(), fd: number(fd.as_raw_fd()) }).collect();
        let processes = self.processes.values().map(|process| freeze_process(process, &mut number)).collect();
        let servers = self
            .servers
            .iter()
            .map(|server| ServerState {
                pid: server.pid,
                epoch: server.epoch,
                socket: number(server.socket_number()),
                retires_until: if let Phase::Retiring { until, .. } = server.phase { until } else { 0 },
            })
            .collect();
        let state = State {
            settings: self.settings.clone(),
            epoch: self.epoch,
            boot_id: self.boot_id,
            started_at_ms: self.started_at_ms,
            restarts: self.restarts,
            umask: self.inherited.umask,
            open_files: vec![self.inherited.open_files.0, self.inherited.open_files.1],
            oom_score: self.inherited.oom_score.clone().map(CString::into_bytes),
            kept,
            processes,
            servers,
        };
        Ok(Frozen { state: encode(&state)?, fds })
    }
}

fn freeze_process(process: &Process, number: &mut impl FnMut(RawFd) -> RawFd) -> ProcessState {
    use std::os::unix::ffi::OsStrExt;
    let open = |end: &StreamEnd| end.fd.as_ref().map(|fd| (fd.as_raw_fd(), end.stream));
    ProcessState {
        key: process.key,
        generation: process.generation,
        pid: process.pid,
        started_at_ms: process.started_at_ms,
        log: number(process.log.file().as_raw_fd()),
        streams: process
            .streams
            .iter()
            .filter_map(open)
            .map(|(fd, stream)| StreamState { fd: number(fd), stream: stream as u8 })
            .collect(),
        input: process.input.as_ref().map_or(-1, |fd| number(fd.as_raw_fd())),
        cgroup: process.cgroup.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default(),
        kill_at: process.kill_at,
        time_limit_at: process.time_limit_at,
        detach_at: process.detach_at,
        cause: process.cause.map_or(0, |cause| cause as u8),
        forget: process.forget,
        unmarked: process.unmarked.as_ref().map(|root| UnmarkedState {
            pid: root.pid,
            start_time: root.start_time,
            id: root.environ_id.clone().unwrap_or_default().into_bytes(),
        }),
        last_pid: process.last_pid,
    }
}

fn path_from(bytes: Vec<u8>) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}
