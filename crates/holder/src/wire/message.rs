//! Every message that holder and server exchange.
//!
//! A process is named by its `key`, a number that the server chose; names that people see are the server's affair.

use super::codec::{Field, Item, wire_messages, wire_struct};
use crate::log::{Beginning, Cause, Exit};

wire_messages! {
    /// What a server says.
    pub enum ToHolder {
        /// First message: the protocol that this server speaks.
        1 Hello(u32),
        /// Standing by; the holder may hand over.
        2 Ready(()),
        /// The object just handed over has arrived.
        3 Ack(()),
        /// Answer to `Retire`: nothing is written or accepted any more.
        4 Retired(()),
        /// Everything that was handed over has been taken up: this server serves for good.
        5 Serving(()),
        10 Spawn(Spawn),
        /// Send a signal once, to the whole tree.
        11 Signal(Signal),
        /// Begin or hasten the end of a tree.
        12 End(End),
        /// Set or clear the moment at which a tree is killed.
        13 Arm(Arm),
        /// The stdin of a process is closed (by the holder too; the program reads end of file).
        14 CloseInput(u64),
        /// A hold moved: the recording of this process may go on.
        15 Resume(u64),
        /// Drop everything that is held for this key, as soon as its command has ended.
        16 Forget(u64),
        /// Keep the descriptor that comes along under a name, in place of an older one of that name.
        17 Keep(Vec<u8>),
        18 Drop(Vec<u8>),
        /// Record the descriptor that comes along into the log of this key, which is made if need be.
        19 Record(Record),
        /// Start a new server from the binary on disk, and then replace the holder too.
        20 Upgrade(()),
        /// What is recorded under this key without a process of its own is over: drain its descriptors, then write the exit.
        21 Conclude(Conclude),
    }
}

wire_messages! {
    /// What the holder says.
    pub enum ToServer {
        1 Welcome(Welcome),
        /// A kept descriptor (beside the message) and its name.
        2 Kept(Vec<u8>),
        /// A process that is held; log and input come beside the message.
        3 Held(Held),
        /// Everything has been handed over; true when a retiring server still finishes its answers.
        4 Go(bool),
        /// Another server is ready: stop writing and accepting, then say `Retired`.
        5 Retire(()),
        /// The retiring server is gone.
        6 Alone(()),
        /// Log and input come beside the message.
        10 Spawned(Spawned),
        11 SpawnFailed(SpawnFailed),
        /// A signal or an end has reached the tree.
        12 Done(Done),
        /// These logs have news for a sleeping reader, or their process ended.
        13 Wake(Vec<u64>),
        /// What became of an upgrade: empty when it went well.
        14 Upgraded(Vec<u8>),
        /// A brief process has been and is gone.
        15 Over(Over),
    }
}

wire_struct! {
    pub struct Welcome {
        pub protocol: u32,
        /// Counts servers; part of every hold, so that the holds of a dead one are known.
        pub epoch: u32,
        /// Names this life of the holder; event ids begin with it.
        pub boot_id: u64,
        pub started_at_ms: u64,
        pub holder_pid: u32,
        /// The server died too often lately: do without what is not needed.
        pub safe_mode: bool,
        pub restarts: u32,
        /// A tree can be held in a cgroup of its own.
        pub cgroups: bool,
    }
}

wire_struct! {
    pub struct Spawn {
        pub request: u32,
        pub key: u64,
        /// 1 for a new process; a restart in place raises it and keeps the log, or begins one (`log_start`).
        pub generation: u32,
        /// Paths to try in order, as `execvp` would.
        pub programs: Vec<Vec<u8>>,
        pub arguments: Vec<Vec<u8>>,
        /// The whole environment as the program will have it: `NAME=value` each, with a zero byte behind.
        pub environment: Vec<u8>,
        pub cwd: Vec<u8>,
        pub io: Io,
        pub identity: Option<Identity>,
        pub limits: Vec<Limit>,
        pub no_new_privileges: bool,
        pub log_budget: u64,
        /// Boot clock; 0 = none.
        pub time_limit_at: u64,
        /// Where the log begins if none is held for the key: an older part of it was given up.
        pub log_start: u64,
        pub log_first_mark: u64,
        pub log_input: u64,
        /// What the cgroup may use; 0 = no limit. One that cannot be set fails the spawn.
        pub memory_bytes: u64,
        pub tree_processes: u64,
        /// Thousandths of a processor.
        pub milli_cpus: u64,
        /// Hold the tree in a cgroup, where there are any. It costs as much as a short program takes; its mark finds a
        /// tree as well.
        pub wants_cgroup: bool,
        /// Whoever asks will read from the first byte on: the program does not run away from them before they are there.
        pub reader_comes: bool,
        /// Whoever asks waits for its end: if that comes soon it is told with all that was printed (`Over`), and nothing is
        /// kept. Otherwise as for any other (`Spawned`), a little later.
        pub brief: bool,
    }
}

impl Spawn {
    /// Whether it must not run outside of a cgroup.
    pub fn is_confined(&self) -> bool {
        self.memory_bytes > 0 || self.tree_processes > 0 || self.milli_cpus > 0
    }

    pub fn log_beginning(&self) -> Beginning {
        Beginning { offset: self.log_start, mark: self.log_first_mark, input: self.log_input }
    }
}

wire_struct! {
    pub struct Io {
        /// A terminal of this size; 0 columns = pipes.
        pub cols: u16,
        pub rows: u16,
        /// For pipes: whether stdin is a pipe; otherwise it reads as empty.
        pub stdin: bool,
        /// For pipes: stderr is the same pipe as stdout, so that what is written to both keeps its order.
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
    /// A resource limit by its number in <sys/resource.h>.
    pub struct Limit {
        pub resource: u32,
        pub soft: u64,
        pub hard: u64,
    }
}
impl Item for Limit {}

wire_struct! {
    pub struct Spawned {
        pub request: u32,
        pub key: u64,
        /// Also when the command has ended by now.
        pub pid: u32,
        pub started_at_ms: u64,
        pub has_input: bool,
    }
}

wire_struct! {
    /// The whole life of a brief process. Nothing is held under its key any more.
    pub struct Over {
        pub request: u32,
        pub key: u64,
        pub code: u8,
        /// Not 0: it ended by this signal, and the code does not count.
        pub signal: u8,
        pub cause: u8,
        pub exited_at_ms: u64,
        pub stdout: Vec<u8>,
        pub stderr: Vec<u8>,
    }
}

impl Over {
    /// Of its first life, which was the only one.
    pub fn exit(&self) -> Exit {
        Exit {
            generation: 1,
            status: if self.signal == 0 { Ok(self.code) } else { Err(self.signal) },
            cause: Cause::from_u8(self.cause).unwrap_or(Cause::Itself),
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
    pub struct Held {
        pub key: u64,
        pub generation: u32,
        /// 0 when the command has ended.
        pub pid: u32,
        pub started_at_ms: u64,
        pub has_input: bool,
        /// A KILL is due at this moment (boot clock); 0 = none.
        pub kill_at: u64,
        pub detach_at: u64,
        pub time_limit_at: u64,
        /// The pid that the command has or had.
        pub last_pid: u32,
    }
}

wire_struct! {
    pub struct Signal {
        pub request: u32,
        pub key: u64,
        pub signal: u8,
        /// Whom it goes to: see [`Reach`].
        pub reach: u8,
    }
}

/// Whom a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reach {
    Tree = 0,
    /// The process group of the command.
    Group = 1,
    /// The command alone.
    Command = 2,
}

impl Signal {
    pub fn reach(&self) -> Reach {
        match self.reach {
            1 => Reach::Group,
            2 => Reach::Command,
            _ => Reach::Tree,
        }
    }
}

wire_struct! {
    pub struct End {
        pub request: u32,
        pub key: u64,
        /// Sent to the tree at once; 0 or KILL begins with the last step.
        pub signal: u8,
        /// Boot clock: when the tree is killed if it is still there.
        pub kill_at: u64,
        pub cause: u8,
    }
}

impl End {
    pub fn cause(&self) -> Cause {
        Cause::from_u8(self.cause).unwrap_or(Cause::Killed)
    }
}

wire_struct! {
    pub struct Arm {
        pub key: u64,
        /// `Cause::TimedOut` or `Cause::Detached`: which of the two deadlines.
        pub cause: u8,
        /// Boot clock; 0 clears it.
        pub at: u64,
    }
}

wire_struct! {
    pub struct Record {
        pub key: u64,
        pub stream: u8,
        pub log_budget: u64,
        /// Answered with `Spawned` (and the log) unless it is 0.
        pub request: u32,
    }
}

wire_struct! {
    /// An exit that only the server knows of. Written once: a later one is answered and changes nothing.
    pub struct Conclude {
        pub request: u32,
        pub key: u64,
        pub code: u8,
        /// Not 0: it ended by this signal, and the code does not count.
        pub signal: u8,
        pub cause: u8,
    }
}

wire_struct! {
    pub struct Done {
        pub request: u32,
        pub key: u64,
        pub signalled: u32,
        pub survivors: u32,
    }
}

/// The step at which a spawn failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SpawnStage {
    /// Not even begun: a stopping holder, a key that is in use, a message that made no sense.
    Refused = 1,
    /// Pipes, terminal or log.
    Prepare = 2,
    Clone = 3,
    /// Session, controlling terminal, descriptors, limits.
    SetUp = 4,
    Identity = 5,
    Cwd = 6,
    Exec = 7,
    /// The new process has been stuck before its exec for over a second.
    Stuck = 8,
    /// The limits of its cgroup.
    Confine = 9,
}

impl Field for SpawnStage {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn take(input: &mut &[u8]) -> Option<Self> {
        u8::take(input).map(Self::from_u8)
    }
    fn absent() -> Self {
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
            log_start: 12,
            log_first_mark: 13,
            log_input: 14,
            memory_bytes: 1 << 30,
            tree_processes: 50,
            milli_cpus: 1500,
            wants_cgroup: true,
            reader_comes: true,
            brief: true,
        }
    }

    #[test]
    fn messages_round_trip() {
        for message in [
            ToHolder::Hello(1),
            ToHolder::Ready(()),
            ToHolder::Spawn(spawn()),
            ToHolder::Keep(b"journal".to_vec()),
            ToHolder::End(End { request: 1, key: 2, signal: 15, kill_at: 3, cause: 2 }),
        ] {
            assert_eq!(ToHolder::decode(&message.encode()), Some(message));
        }
        let wake = ToServer::Wake(vec![1, u64::MAX]);
        assert_eq!(ToServer::decode(&wake.encode()), Some(wake));
    }

    /// The spawn with its struct cut or extended, as a peer of another version would send it.
    fn resized(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = ToHolder::Spawn(spawn()).encode().split_off(5);
        change(&mut bytes);
        [&[10], (bytes.len() as u32).to_le_bytes().as_slice(), &bytes].concat()
    }

    #[test]
    fn a_message_of_an_older_peer_lacks_its_last_fields() {
        let bytes = resized(|bytes| bytes.truncate(bytes.len() - 67));
        let Some(ToHolder::Spawn(older)) = ToHolder::decode(&bytes) else { panic!("refused") };
        assert_eq!((older.log_budget, older.time_limit_at), (0, 0));
        assert_eq!(older.log_beginning(), Beginning::default());
        assert_eq!(older.limits, spawn().limits);
    }

    #[test]
    fn a_message_of_a_newer_peer_has_more_fields() {
        let newer = resized(|bytes| bytes.extend_from_slice(b"a field of the future"));
        assert_eq!(ToHolder::decode(&newer), Some(ToHolder::Spawn(spawn())));
    }

    #[test]
    fn a_message_that_is_cut_off_is_refused() {
        let bytes = ToHolder::Spawn(spawn()).encode();
        assert_eq!(ToHolder::decode(&bytes[..bytes.len() - 1]), None);
    }

    wire_struct! {
        pub struct OlderLimit {
            pub resource: u32,
        }
    }
    impl Item for OlderLimit {}

    wire_struct! {
        pub struct NewerLimit {
            pub resource: u32,
            pub soft: u64,
            pub hard: u64,
            pub why: Vec<u8>,
        }
    }
    impl Item for NewerLimit {}

    #[test]
    fn structs_in_a_list_may_be_older_or_newer_too() {
        let mut bytes = Vec::new();
        vec![OlderLimit { resource: 1 }, OlderLimit { resource: 2 }].put(&mut bytes);
        let newer = |resource| NewerLimit { resource, soft: 5, hard: 6, why: b"unknown here".to_vec() };
        vec![newer(3), newer(4)].put(&mut bytes);
        77u32.put(&mut bytes);
        let input = &mut bytes.as_slice();
        let limit = |resource, soft, hard| Limit { resource, soft, hard };
        assert_eq!(Vec::<Limit>::take(input), Some(vec![limit(1, 0, 0), limit(2, 0, 0)]));
        assert_eq!(Vec::<Limit>::take(input), Some(vec![limit(3, 5, 6), limit(4, 5, 6)]));
        assert_eq!(u32::take(input), Some(77), "what follows the list must not be touched");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ToHolder::decode(&bytes);
            let _ = ToServer::decode(&bytes);
        }
    }
}
