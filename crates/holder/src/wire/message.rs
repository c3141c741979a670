//! Every message that holder and server exchange.
//!
//! A process is identified by its `key`, a number that the server chooses. Ids and names that users see exist only in
//! the server.

use super::codec::{Field, ListItem, wire_messages, wire_struct};
use crate::log::{Cause, Exit, LogStart};

wire_messages! {
    /// Messages from a server to the holder.
    pub enum ToHolder {
        /// First message: the protocol version of this server.
        1 Hello(u32),
        /// The server has started; the holder may hand over.
        2 Ready(()),
        /// The object just handed over has arrived.
        3 Ack(()),
        /// Reply to `Retire`: this server no longer writes or accepts anything.
        4 Retired(()),
        /// Everything handed over has been restored, and this server serves.
        5 Serving(()),
        10 Spawn(Spawn),
        11 Signal(Signal),
        /// Stop or kill a tree, or bring forward the kill of a tree that is being stopped.
        12 Terminate(Terminate),
        /// Set or clear a deadline at which a tree is killed.
        13 SetDeadline(SetDeadline),
        /// Close the holder's copy of a process's input. The program reads end of file once the server closes its own.
        14 CloseInput(u64),
        /// A lease has advanced: try the blocked streams of this process again.
        15 Resume(u64),
        /// Drop everything stored for this key, as soon as its command has ended.
        16 Forget(u64),
        /// Store the attached descriptor under a name, and replace an earlier one of that name.
        17 StoreFd(Vec<u8>),
        18 RemoveFd(Vec<u8>),
        /// Record the attached descriptor into the log of a sink: a process without a program. The first one creates it.
        19 SinkStream(SinkStream),
        /// Start a new server from the binary on disk, then re-execute the holder from it.
        20 Upgrade(()),
        /// Drain the descriptors of a sink, then write the exit into its log.
        21 FinishSink(FinishSink),
    }
}

wire_messages! {
    /// Messages from the holder to a server.
    pub enum ToServer {
        1 Welcome(Welcome),
        /// Hand-over: the name of a stored descriptor, which is attached.
        2 StoredFd(Vec<u8>),
        /// Hand-over: a process; its log and input are attached.
        3 HeldProcess(HeldProcessInfo),
        /// The hand-over is complete; true while a retiring server still finishes its responses.
        4 StartServing(bool),
        /// Another server is ready: stop writing and accepting, then send `Retired`.
        5 Retire(()),
        /// The retired server has exited.
        6 PredecessorExited(()),
        /// Reply to `Spawn` and `SinkStream`; log and input are attached.
        10 Spawned(Spawned),
        /// Reply to `Spawn` and `SinkStream`.
        11 SpawnFailed(SpawnFailed),
        /// Reply to `Signal`, `Terminate` and `FinishSink`.
        12 Completion(Completion),
        /// Keys of logs with bytes for a sleeping reader, a requested offset reached, a full ring, or an exit.
        13 Wake(Vec<u64>),
        /// Reply to `Upgrade`: empty on success, else the reason of the failure.
        14 Upgraded(Vec<u8>),
        /// Reply to a brief `Spawn` whose program ended before it was reported as spawned.
        15 BriefRunResult(BriefRunResult),
    }
}

wire_struct! {
    pub struct Welcome {
        pub protocol: u32,
        /// Counts servers. Part of every lease id, so that the leases of a dead server can be identified.
        pub epoch: u32,
        /// Identifies this holder across re-executions; event ids start with it.
        pub boot_id: u64,
        pub started_at_ms: u64,
        pub holder_pid: u32,
        /// Servers crashed repeatedly: start without optional features.
        pub safe_mode: bool,
        pub restarts: u32,
        /// Whether the holder can create cgroups.
        pub cgroups: bool,
    }
}

wire_struct! {
    pub struct Spawn {
        pub request: u32,
        pub key: u64,
        /// 1 for a new process. A restart in place raises it and continues the log.
        pub generation: u32,
        /// Paths to try in order, as `execvp` does.
        pub programs: Vec<Vec<u8>>,
        pub arguments: Vec<Vec<u8>>,
        /// The complete environment of the program: `NAME=value` entries, each terminated by a zero byte.
        pub environment: Vec<u8>,
        pub cwd: Vec<u8>,
        pub io: Io,
        pub identity: Option<Identity>,
        pub limits: Vec<Limit>,
        pub no_new_privileges: bool,
        pub log_budget: u64,
        /// Boot clock; 0 = none.
        pub time_limit_at: u64,
        /// Where a newly created log starts, when the earlier part of the log was archived or dropped (see `LogStart`).
        pub log_start_offset: u64,
        pub log_start_mark: u64,
        pub log_start_input: u64,
        /// Cgroup limits; 0 = no limit. The spawn fails if one cannot be set.
        pub memory_bytes: u64,
        pub tree_processes: u64,
        /// Thousandths of a processor.
        pub milli_cpus: u64,
        /// Run the tree in a cgroup of its own where possible. Creating one takes as long as a short program runs, and
        /// the tree tag finds a tree as well.
        pub wants_cgroup: bool,
        /// Reserve a lease at the first byte for a reader that attaches after the spawn.
        pub reader_expected: bool,
        /// The client waits for the exit only. If it comes soon, one `BriefRunResult` carries exit and output, and the
        /// holder keeps nothing. Otherwise the process is reported by `Spawned`, a little later.
        pub brief: bool,
        /// Reserve a lease at the first byte for the history, which stores the output from the start.
        pub history_expected: bool,
    }
}

impl Spawn {
    /// Whether the program must not run outside of a cgroup.
    pub fn has_cgroup_limits(&self) -> bool {
        self.memory_bytes > 0 || self.tree_processes > 0 || self.milli_cpus > 0
    }

    pub fn log_start(&self) -> LogStart {
        LogStart { offset: self.log_start_offset, mark: self.log_start_mark, input: self.log_start_input }
    }
}

wire_struct! {
    pub struct Io {
        /// Terminal size; 0 columns = pipes instead of a terminal.
        pub cols: u16,
        pub rows: u16,
        /// For pipes: whether stdin is a pipe; otherwise it reads as empty.
        pub stdin: bool,
        /// For pipes: stderr is the same pipe as stdout, which preserves the order of writes to both.
        pub merged: bool,
    }
}

impl Io {
    pub fn is_terminal(&self) -> bool {
        self.cols > 0
    }
}

wire_struct! {
    pub struct Identity {
        pub uid: u32,
        pub gid: u32,
        pub groups: Vec<u32>,
    }
}

wire_struct! {
    /// A resource limit, numbered as in <sys/resource.h>.
    pub struct Limit {
        pub resource: u32,
        pub soft: u64,
        pub hard: u64,
    }
}
impl ListItem for Limit {}

wire_struct! {
    pub struct Spawned {
        pub request: u32,
        pub key: u64,
        /// Also set when the command has already ended.
        pub pid: u32,
        pub started_at_ms: u64,
        pub has_input: bool,
    }
}

wire_struct! {
    /// Exit and output of a brief run. The holder keeps nothing under its key.
    pub struct BriefRunResult {
        pub request: u32,
        pub key: u64,
        /// Meaningless when `signal` is set.
        pub code: u8,
        /// The signal that ended the process; 0 = it exited with `code`.
        pub signal: u8,
        pub cause: u8,
        pub exited_at_ms: u64,
        pub stdout: Vec<u8>,
        pub stderr: Vec<u8>,
    }
}

impl BriefRunResult {
    pub fn exit(&self) -> Exit {
        Exit {
            generation: 1,
            status: if self.signal == 0 { Ok(self.code) } else { Err(self.signal) },
            cause: Cause::from_u8(self.cause).unwrap_or(Cause::SelfExit),
            offset: (self.stdout.len() + self.stderr.len()) as u64,
            at_ms: self.exited_at_ms,
        }
    }
}

wire_struct! {
    pub struct SpawnFailed {
        pub request: u32,
        pub key: u64,
        pub stage: SpawnStage,
        pub errno: i32,
    }
}

wire_struct! {
    pub struct HeldProcessInfo {
        pub key: u64,
        pub generation: u32,
        /// 0 when the command has ended.
        pub pid: u32,
        pub started_at_ms: u64,
        pub has_input: bool,
        /// Boot clock: when the tree is killed; 0 = never.
        pub kill_at: u64,
        pub detach_at: u64,
        pub time_limit_at: u64,
        /// The pid of the command, even after it has ended.
        pub last_pid: u32,
    }
}

wire_struct! {
    pub struct Signal {
        pub request: u32,
        pub key: u64,
        pub signal: u8,
        /// A [`SignalTarget`].
        pub target: u8,
    }
}

/// The processes that a signal is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SignalTarget {
    Tree = 0,
    /// The process group of the command.
    Group = 1,
    /// The command alone.
    Command = 2,
}

impl Signal {
    pub fn target(&self) -> SignalTarget {
        match self.target {
            1 => SignalTarget::Group,
            2 => SignalTarget::Command,
            _ => SignalTarget::Tree,
        }
    }
}

wire_struct! {
    pub struct Terminate {
        pub request: u32,
        pub key: u64,
        /// Sent to the tree at once. 0, SIGKILL or an unknown key kills the tree without a grace time.
        pub signal: u8,
        /// Boot clock: when the rest of the tree is killed; a time that has passed means at once.
        pub kill_at: u64,
        pub cause: u8,
    }
}

impl Terminate {
    pub fn cause(&self) -> Cause {
        Cause::from_u8(self.cause).unwrap_or(Cause::Killed)
    }
}

wire_struct! {
    pub struct SetDeadline {
        pub key: u64,
        /// Which of the two deadlines: `Cause::TimedOut` or `Cause::Detached`.
        pub cause: u8,
        /// Boot clock; 0 clears it.
        pub at: u64,
    }
}

wire_struct! {
    pub struct SinkStream {
        pub key: u64,
        pub stream: u8,
        pub log_budget: u64,
        /// 0 = no reply wanted.
        pub request: u32,
    }
}

wire_struct! {
    /// An exit that only the server knows. It is written once; a repeated message is replied to and changes nothing.
    pub struct FinishSink {
        pub request: u32,
        pub key: u64,
        /// Meaningless when `signal` is set.
        pub code: u8,
        /// The signal that ended the command; 0 = it exited with `code`.
        pub signal: u8,
        pub cause: u8,
    }
}

wire_struct! {
    pub struct Completion {
        pub request: u32,
        pub key: u64,
        /// Number of processes that were signalled.
        pub signalled: u32,
        /// Number of processes that could not be signalled, or were not gone after a kill.
        pub survivors: u32,
    }
}

/// The step at which a spawn failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SpawnStage {
    /// Not attempted: the holder is shutting down, the key is in use, or the message is invalid.
    Refused = 1,
    /// Pipes, terminal or log.
    Prepare = 2,
    Clone = 3,
    /// Session, controlling terminal, descriptors, limits.
    SetUp = 4,
    Identity = 5,
    Cwd = 6,
    Exec = 7,
    /// The child has not reached its exec for over a second.
    Stuck = 8,
    /// Cgroup limits.
    Confine = 9,
}

impl Field for SpawnStage {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        u8::decode(input).map(Self::from_u8)
    }
    fn missing() -> Self {
        Self::Refused
    }
}

impl SpawnStage {
    pub fn from_u8(raw: u8) -> Self {
        match raw {
            2 => Self::Prepare,
            3 => Self::Clone,
            4 => Self::SetUp,
            5 => Self::Identity,
            6 => Self::Cwd,
            7 => Self::Exec,
            8 => Self::Stuck,
            9 => Self::Confine,
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spawn() -> Spawn {
        Spawn {
            request: 7,
            key: 99,
            generation: 1,
            programs: vec![b"/bin/echo".to_vec(), b"/usr/bin/echo".to_vec()],
            arguments: vec![b"echo".to_vec(), vec![0xff, 0]],
            environment: b"A=b\0".to_vec(),
            cwd: b"/".to_vec(),
            io: Io { cols: 80, rows: 24, stdin: true, merged: true },
            identity: Some(Identity { uid: 1, gid: 2, groups: vec![3, 4] }),
            limits: vec![Limit { resource: 7, soft: 1, hard: 2 }],
            no_new_privileges: true,
            log_budget: 10,
            time_limit_at: 11,
            log_start_offset: 12,
            log_start_mark: 13,
            log_start_input: 14,
            memory_bytes: 1 << 30,
            tree_processes: 50,
            milli_cpus: 1500,
            wants_cgroup: true,
            reader_expected: true,
            brief: true,
            history_expected: true,
        }
    }

    #[test]
    fn messages_round_trip() {
        for message in [
            ToHolder::Hello(1),
            ToHolder::Ready(()),
            ToHolder::Spawn(spawn()),
            ToHolder::StoreFd(b"journal".to_vec()),
            ToHolder::Terminate(Terminate { request: 1, key: 2, signal: 15, kill_at: 3, cause: 2 }),
        ] {
            assert_eq!(ToHolder::decode(&message.encode()), Some(message));
        }
        let wake = ToServer::Wake(vec![1, u64::MAX]);
        assert_eq!(ToServer::decode(&wake.encode()), Some(wake));
    }

    /// An encoded `Spawn` whose struct is shortened or extended, as a peer of another version sends it.
    fn resized(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = ToHolder::Spawn(spawn()).encode().split_off(5);
        change(&mut bytes);
        [&[10], (bytes.len() as u32).to_le_bytes().as_slice(), &bytes].concat()
    }

    #[test]
    fn fields_missing_from_an_older_peers_message_are_zero() {
        let bytes = resized(|bytes| bytes.truncate(bytes.len() - 68));
        let Some(ToHolder::Spawn(older)) = ToHolder::decode(&bytes) else { panic!("not decoded") };
        assert_eq!((older.log_budget, older.time_limit_at, older.log_start()), (0, 0, LogStart::default()));
        assert_eq!(older.limits, spawn().limits);
    }

    #[test]
    fn unknown_fields_of_a_newer_peers_message_are_skipped() {
        let newer = resized(|bytes| bytes.extend_from_slice(b"a field of the future"));
        assert_eq!(ToHolder::decode(&newer), Some(ToHolder::Spawn(spawn())));
    }

    #[test]
    fn a_truncated_message_is_rejected() {
        let bytes = ToHolder::Spawn(spawn()).encode();
        assert_eq!(ToHolder::decode(&bytes[..bytes.len() - 1]), None);
    }

    wire_struct! {
        pub struct OlderLimit {
            pub resource: u32,
        }
    }
    impl ListItem for OlderLimit {}

    wire_struct! {
        pub struct NewerLimit {
            pub resource: u32,
            pub soft: u64,
            pub hard: u64,
            pub comment: Vec<u8>,
        }
    }
    impl ListItem for NewerLimit {}

    #[test]
    fn structs_in_a_list_may_be_older_or_newer() {
        let mut bytes = Vec::new();
        vec![OlderLimit { resource: 1 }, OlderLimit { resource: 2 }].encode(&mut bytes);
        let newer = |resource| NewerLimit { resource, soft: 5, hard: 6, comment: b"unknown here".to_vec() };
        vec![newer(3), newer(4)].encode(&mut bytes);
        77u32.encode(&mut bytes);
        let input = &mut bytes.as_slice();
        let limit = |resource, soft, hard| Limit { resource, soft, hard };
        assert_eq!(Vec::<Limit>::decode(input), Some(vec![limit(1, 0, 0), limit(2, 0, 0)]));
        assert_eq!(Vec::<Limit>::decode(input), Some(vec![limit(3, 5, 6), limit(4, 5, 6)]));
        assert_eq!(u32::decode(input), Some(77), "the value after the list is intact");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ToHolder::decode(&bytes);
            let _ = ToServer::decode(&bytes);
        }
    }
}
