//! The saved state of the holder. Its first start and every re-execution begin with one.
//!
//! The encoding is shared with holders of other versions: fields are only added at the end of a struct. Descriptors are
//! saved by number; they stay open across the exec.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::FdFlags;

use super::brief_run::SpareLog;
use super::cgroup_cleanup::LeftoverCgroups;
use super::launch::MemoryTrim;
use super::process::Process;
use super::server::{Phase, Server};
use super::timers::Timers;
use super::{Holder, Poll, Source, logging, setup};
use crate::clock;
use crate::log::{Cause, LogWriter, Stream};
use crate::spawn::InheritedAttributes;
use crate::tree::TreeRoot;
use crate::tree::cgroup::Cgroups;
use crate::tree::killer::Killer;
use crate::wire::codec::{Field, ListItem, wire_struct};
use crate::wire::{Socket, read_sealed_memfd, sealed_memfd};

wire_struct! {
    pub struct Settings {
        /// The binary on disk, which an upgrade starts.
        pub program: Vec<u8>,
        /// Arguments of every server, the program's name first.
        pub server_arguments: Vec<Vec<u8>>,
        /// Arguments of the holder itself, without the final one: the number of the state's descriptor.
        pub holder_arguments: Vec<Vec<u8>>,
        /// Time between TERM and KILL at shutdown.
        pub grace_ms: u64,
        pub use_cgroups: bool,
        /// Upper bound for the restart backoff of a server that crashes repeatedly.
        pub max_backoff_ms: u64,
        /// Write log lines as JSON. Holders of older versions did not save it.
        pub json_logs: bool,
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
        pub stored_fds: Vec<StoredFdState>,
        pub processes: Vec<ProcessState>,
        pub servers: Vec<ServerState>,
    }
}

wire_struct! {
    pub struct StoredFdState {
        pub name: Vec<u8>,
        pub fd: i32,
    }
}
impl ListItem for StoredFdState {}

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
        pub untagged: Option<UntaggedState>,
        pub last_pid: i32,
    }
}
impl ListItem for ProcessState {}

wire_struct! {
    /// How to find a tree without a tree tag.
    pub struct UntaggedState {
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
impl ListItem for StreamState {}

wire_struct! {
    pub struct ServerState {
        pub pid: i32,
        pub epoch: u32,
        pub socket: i32,
        /// 0 for the serving server, else the deadline of a retired one.
        pub retires_until: u64,
    }
}
impl ListItem for ServerState {}

/// The input of a holder's first start.
pub struct InitialState {
    pub settings: Settings,
    pub boot_id: u64,
    /// Listeners and other descriptors for the servers, by name.
    pub stored_fds: Vec<(Vec<u8>, OwnedFd)>,
}

impl InitialState {
    /// Saves the state into a memfd. It and all stored descriptors stay open across an exec.
    pub fn into_memfd(self) -> io::Result<OwnedFd> {
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
            stored_fds: self
                .stored_fds
                .iter()
                .map(|(name, fd)| StoredFdState { name: name.clone(), fd: fd.as_raw_fd() })
                .collect(),
            processes: Vec::new(),
            servers: Vec::new(),
        };
        let file = encode(&state)?;
        for (_, fd) in self.stored_fds {
            set_flags(fd.as_raw_fd(), FdFlags::empty())?;
            // Not closed: the next image owns it.
            std::mem::forget(fd);
        }
        Ok(file)
    }
}

impl State {
    fn inherited_attributes(&self) -> InheritedAttributes {
        let open_file_limit = |index: usize, default| self.open_files.get(index).copied().unwrap_or(default);
        InheritedAttributes {
            umask: self.umask,
            open_files: (open_file_limit(0, 1024), open_file_limit(1, 4096)),
            oom_score: self.oom_score.clone().and_then(|score| CString::new(score).ok()),
            changed_signals: setup::changed_signals(),
        }
    }
}

fn encode(state: &State) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let file = sealed_memfd(&bytes)?;
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

pub(super) fn decode(file: &OwnedFd) -> io::Result<State> {
    use std::os::fd::AsFd;
    let bytes = read_sealed_memfd(file.as_fd())?;
    State::decode(&mut bytes.as_slice())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot decode the holder's state"))
}

/// A saved state and the descriptors that it refers to.
pub(super) struct SavedState {
    pub(super) state: OwnedFd,
    fds: Vec<RawFd>,
}

impl SavedState {
    /// Call right before the exec.
    pub(super) fn clear_close_on_exec(&self) -> io::Result<()> {
        self.fds.iter().try_for_each(|fd| set_flags(*fd, FdFlags::empty()))
    }

    /// Call when the exec failed: descriptors inherited by every child would keep pipes from reaching end of file.
    pub(super) fn set_close_on_exec(&self) {
        for fd in &self.fds {
            let _ = set_flags(*fd, FdFlags::CLOEXEC);
        }
    }
}

fn set_flags(fd: RawFd, flags: FdFlags) -> io::Result<()> {
    // SAFETY: borrowed only for this call, while the owner is alive.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Takes ownership of a descriptor that the previous image left open.
fn adopt_fd(raw: RawFd) -> io::Result<OwnedFd> {
    if raw < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the state contains each descriptor once, and the image that owned it no longer exists.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

impl Holder {
    pub(super) fn restore(file: OwnedFd) -> io::Result<Self> {
        let state = decode(&file)?;
        drop(file);
        logging::set_json(state.settings.json_logs);
        setup::become_subreaper()?;
        let signal_fd = setup::open_signalfd()?;
        let killer_eventfd =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)?;
        let killer = Killer::start(rustix::io::fcntl_dupfd_cloexec(&killer_eventfd, 3)?, Vec::new())?;
        let poll = Poll::new()?;
        poll.add(&signal_fd, Source::Signals)?;
        poll.add(&killer_eventfd, Source::Killer)?;
        let mut holder = Self {
            inherited: state.inherited_attributes(),
            cgroups: state.settings.use_cgroups.then(Cgroups::probe).flatten(),
            leftover_cgroups: LeftoverCgroups::default(),
            spare_log: SpareLog::default(),
            finished_brief_runs: Vec::new(),
            settings: state.settings,
            poll,
            signal_fd,
            killer,
            killer_eventfd,
            pending_kills: BTreeMap::new(),
            last_job_id: 0,
            processes: HashMap::new(),
            pids: HashMap::new(),
            fd_store: BTreeMap::new(),
            servers: Vec::new(),
            timers: Timers::default(),
            memory_trim: MemoryTrim::default(),
            last_epoch: state.epoch,
            boot_id: state.boot_id,
            started_at_ms: state.started_at_ms,
            crash_times: Vec::new(),
            restarts: state.restarts,
            restart_at: None,
            oom_kills: setup::oom_kills(),
            shutdown: None,
            upgrade_epoch: None,
            re_exec_pending: false,
            exit_code: None,
        };
        for stored in state.stored_fds {
            holder.fd_store.insert(stored.name, adopt_fd(stored.fd)?);
        }
        for process in state.processes {
            holder.restore_process(process)?;
        }
        for server in state.servers {
            holder.restore_server(&server)?;
        }
        // The SIGCHLD of a child that ended during the exec may be lost.
        holder.reap();
        Ok(holder)
    }

    fn restore_process(&mut self, state: ProcessState) -> io::Result<()> {
        let mut process = Process::new(state.key, LogWriter::adopt(adopt_fd(state.log)?)?);
        process.generation = state.generation;
        process.pid = state.pid;
        // Holders of older versions did not save it.
        process.last_pid = state.last_pid.max(state.pid);
        process.started_at_ms = state.started_at_ms;
        process.input = if state.input >= 0 { Some(adopt_fd(state.input)?) } else { None };
        process.cgroup = (!state.cgroup.is_empty()).then(|| path_from(state.cgroup));
        process.kill_at = state.kill_at;
        process.time_limit_at = state.time_limit_at;
        process.detach_at = state.detach_at;
        process.cause = Cause::from_u8(state.cause);
        process.forget_requested = state.forget;
        process.fallback_root = state.untagged.map(|untagged| TreeRoot {
            pid: untagged.pid,
            start_time: untagged.start_time,
            key: state.key,
            environ_id: String::from_utf8(untagged.id).ok().filter(|id| !id.is_empty()),
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
            self.add_stream(state.key, adopt_fd(stream.fd)?, kind);
        }
        // Holders of older versions did not publish the number.
        if let Some(process) = self.processes.get(&state.key) {
            process.publish_open_streams();
        }
        Ok(())
    }

    fn restore_server(&mut self, state: &ServerState) -> io::Result<()> {
        let socket = Socket::from_fd(adopt_fd(state.socket)?);
        self.poll.add(&socket, Source::Server { epoch: state.epoch })?;
        let phase = match state.retires_until {
            0 => Phase::Serving,
            deadline => Phase::Retiring { stopped_writing: true, deadline },
        };
        self.timers.arm_housekeeping(state.retires_until);
        let mut server = Server::new(state.pid, state.epoch, socket, phase);
        server.pending_wakeups.extend(self.processes.keys());
        self.servers.push(server);
        self.exempt_servers();
        Ok(())
    }

    /// Saves the whole holder.
    pub(super) fn save_state(&self) -> io::Result<SavedState> {
        let mut fds = Vec::new();
        let mut note_fd = |fd: RawFd| {
            fds.push(fd);
            fd
        };
        let stored_fds = self
            .fd_store
            .iter()
            .map(|(name, fd)| StoredFdState { name: name.clone(), fd: note_fd(fd.as_raw_fd()) })
            .collect();
        let processes = self.processes.values().map(|process| save_process(process, &mut note_fd)).collect();
        let servers = self
            .servers
            .iter()
            .map(|server| ServerState {
                pid: server.pid,
                epoch: server.epoch,
                socket: note_fd(server.socket_fd()),
                retires_until: if let Phase::Retiring { deadline, .. } = server.phase { deadline } else { 0 },
            })
            .collect();
        let state = State {
            settings: self.settings.clone(),
            epoch: self.last_epoch,
            boot_id: self.boot_id,
            started_at_ms: self.started_at_ms,
            restarts: self.restarts,
            umask: self.inherited.umask,
            open_files: vec![self.inherited.open_files.0, self.inherited.open_files.1],
            oom_score: self.inherited.oom_score.clone().map(CString::into_bytes),
            stored_fds,
            processes,
            servers,
        };
        Ok(SavedState { state: encode(&state)?, fds })
    }
}

fn save_process(process: &Process, note_fd: &mut impl FnMut(RawFd) -> RawFd) -> ProcessState {
    use std::os::unix::ffi::OsStrExt;
    ProcessState {
        key: process.key,
        generation: process.generation,
        pid: process.pid,
        started_at_ms: process.started_at_ms,
        log: note_fd(process.log.file().as_raw_fd()),
        streams: process
            .streams
            .iter()
            .filter_map(|stream| Some((stream.fd.as_ref()?.as_raw_fd(), stream.stream)))
            .map(|(fd, stream)| StreamState { fd: note_fd(fd), stream: stream as u8 })
            .collect(),
        input: process.input.as_ref().map_or(-1, |fd| note_fd(fd.as_raw_fd())),
        cgroup: process.cgroup.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default(),
        kill_at: process.kill_at,
        time_limit_at: process.time_limit_at,
        detach_at: process.detach_at,
        cause: process.cause.map_or(0, |cause| cause as u8),
        forget: process.forget_requested,
        untagged: process.fallback_root.as_ref().map(|root| UntaggedState {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_older_version_mean_text_logs() {
        let settings = Settings { grace_ms: 7, max_backoff_ms: 8, json_logs: true, ..Settings::missing() };
        let mut bytes = Vec::new();
        settings.encode(&mut bytes);
        assert_eq!(Settings::decode(&mut bytes.as_slice()), Some(settings.clone()));
        // The older version's settings end before the last field, which has one byte.
        bytes.pop();
        let len = (bytes.len() - size_of::<u32>()) as u32;
        bytes[..size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
        assert_eq!(Settings::decode(&mut bytes.as_slice()), Some(Settings { json_logs: false, ..settings }));
    }
}
