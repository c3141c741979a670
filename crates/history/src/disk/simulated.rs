//! A disk in memory that knows what is durable, for tests.
//!
//! ```text
//! write ──▶ content (what a reader sees) ──sync──▶ durable (what a power loss leaves)
//! create, rename, remove ──▶ names ──sync_directory──▶ durable names
//! ```
//!
//! After a failed sync the written bytes are readable, but no later sync makes them durable, as on Linux. The next process
//! does not know that, so a kill gives it bytes that are.
//!
//! Operations are counted. A test runs once to learn their number, and then again with a fault or a stop at each.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// Unit in which a power loss keeps or drops a write.
const SECTOR_BYTES: usize = 512;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// ENOSPC, nothing is written.
    Full,
    /// EIO, nothing is written.
    Io,
    /// ENOSPC after half of a write.
    ShortWrite,
    /// The process ends here, in the middle of a write: this and all later operations fail.
    Stop,
}

/// A handle; clones share the disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Ordered, so that a seed always gives the same power loss.
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync of the directory.
    name_changes: Vec<NameChange>,
    /// Changing operations so far.
    operations: u64,
    /// Reads so far.
    reads: u64,
    fault: Option<(u64, Fault)>,
    read_fault: Option<u64>,
    stopped: bool,
    free_bytes: Option<u64>,
}

#[derive(Clone, Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last sync of the file.
    changes: Vec<Change>,
    /// A sync has failed.
    is_sync_failed: bool,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone)]
enum NameChange {
    Create(String, u64),
    Rename { from: String, to: String, inode: u64 },
    Remove(String),
}

/// What an operation does.
enum Verdict {
    Proceed,
    /// Only half of the bytes of a write reach the file, and then the operation fails.
    Half(io::Error),
}

impl SimulatedDisk {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of changing operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Number of reads so far.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Lets the changing operation `after` operations from now fail: 0 is the next one.
    pub fn fail_after(&self, after: u64, fault: Fault) {
        let mut state = self.lock();
        state.fault = Some((state.operations + after, fault));
    }

    /// Lets the read `after` reads from now fail with EIO.
    pub fn fail_read_after(&self, after: u64) {
        let mut state = self.lock();
        state.read_fault = Some(state.reads + after);
    }

    pub fn clear_faults(&self) {
        let mut state = self.lock();
        (state.fault, state.read_fault) = (None, None);
    }

    /// Whether a [`Fault::Stop`] was reached.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// `None`: unlimited.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.lock().free_bytes = bytes;
    }

    /// The disk after the process was killed: everything that was written is there. This one refuses all later
    /// operations.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let killed = self.after_stop();
        killed.lock().inodes.values_mut().for_each(Inode::forget_failed_sync);
        killed
    }

    fn after_stop(&self) -> Self {
        let mut state = self.lock();
        state.stopped = true;
        let copy = State {
            inodes: state.inodes.clone(),
            next_inode: state.next_inode,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            name_changes: state.name_changes.clone(),
            free_bytes: state.free_bytes,
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    /// The disk after a power loss: of the changes since the last syncs, some are lost, by `seed`. This one refuses all
    /// later operations.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let disk = self.after_stop();
        disk.lock().lose_power(&mut Random(seed));
        disk
    }

    /// The name of a file that contains `needle`.
    pub fn file_with(&self, needle: &[u8]) -> Option<String> {
        let state = self.lock();
        let contains = |inode: &u64| state.inodes[inode].content.windows(needle.len()).any(|window| window == needle);
        state.names.iter().find(|(_, inode)| contains(inode)).map(|(name, _)| name.clone())
    }

    /// The content of a file.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        Some(state.inodes[state.names.get(name)?].content.clone())
    }

    /// Replaces the content of a file, durably: bit rot, or a file of another program.
    pub fn overwrite(&self, name: &str, content: Vec<u8>) {
        let mut state = self.lock();
        let inode = state.names.get(name).copied().unwrap_or_else(|| {
            let inode = state.create_inode();
            state.durable_names.insert(name.to_owned(), inode);
            state.names.insert(name.to_owned(), inode);
            inode
        });
        state.inodes.insert(inode, Inode { durable: content.clone(), content, ..Inode::default() });
    }
}

impl State {
    fn create_inode(&mut self) -> u64 {
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Inode::default());
        self.next_inode
    }

    /// Counts a changing operation.
    fn admit(&mut self) -> io::Result<Verdict> {
        if self.stopped {
            return Err(stopped());
        }
        let operation = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, fault)) if at == operation => match fault {
                Fault::Full => Err(io::ErrorKind::StorageFull.into()),
                Fault::Io => Err(io::Error::other("simulated I/O error")),
                Fault::ShortWrite => Ok(Verdict::Half(io::ErrorKind::StorageFull.into())),
                Fault::Stop => {
                    self.stopped = true;
                    Ok(Verdict::Half(stopped()))
                }
            },
            _ => Ok(Verdict::Proceed),
        }
    }

    /// Counts an operation that happens completely or not at all.
    fn admit_whole(&mut self) -> io::Result<()> {
        match self.admit()? {
            Verdict::Proceed => Ok(()),
            Verdict::Half(error) => Err(error),
        }
    }

    fn admit_read(&mut self) -> io::Result<()> {
        if self.stopped {
            return Err(stopped());
        }
        let read = self.reads;
        self.reads += 1;
        if self.read_fault == Some(read) {
            return Err(io::Error::other("simulated I/O error of a read"));
        }
        Ok(())
    }

    fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.entry(number).or_default()
    }

    fn lose_power(&mut self, random: &mut Random) {
        for inode in self.inodes.values_mut() {
            inode.lose_power(random);
        }
        let changes = std::mem::take(&mut self.name_changes);
        let mut names = self.durable_names.clone();
        // A journaling file system keeps a prefix of the changes. Others are free to keep any of them.
        let ordered = random.below(2) == 0;
        let kept = random.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.iter().enumerate() {
            let is_kept = if ordered { index < kept } else { random.below(2) == 0 };
            if is_kept {
                change.apply(&mut names);
            }
        }
        self.durable_names.clone_from(&names);
        self.names = names;
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create(name, inode) => drop(names.insert(name.clone(), *inode)),
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Remove(name) => drop(names.remove(name)),
        }
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], at: u64) {
        let change = Change::Write { at: at as usize, bytes: bytes.to_vec() };
        change.apply(&mut self.content);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            change.apply(&mut self.durable);
        }
    }

    fn fail_sync(&mut self) {
        self.changes.retain(|change| matches!(change, Change::SetLen(_)));
        self.is_sync_failed = true;
    }

    /// Makes everything syncable again.
    fn forget_failed_sync(&mut self) {
        if std::mem::take(&mut self.is_sync_failed) {
            self.changes.push(Change::Write { at: 0, bytes: self.content.clone() });
        }
    }

    fn lose_power(&mut self, random: &mut Random) {
        // All lost, all kept, or any sector of any write.
        let policy = random.below(4);
        for change in std::mem::take(&mut self.changes) {
            match (policy, &change) {
                (0, _) => {}
                (1, _) => change.apply(&mut self.durable),
                (_, Change::SetLen(_)) => {
                    if random.below(2) == 0 {
                        change.apply(&mut self.durable);
                    }
                }
                (_, Change::Write { at, bytes }) => {
                    for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        if random.below(3) > 0 {
                            let at = at + index * SECTOR_BYTES;
                            Change::Write { at, bytes: sector.to_vec() }.apply(&mut self.durable);
                        }
                    }
                }
            }
        }
        self.content.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => content.resize(*len, 0),
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the simulated process was stopped")
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}

impl Disk for SimulatedDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        let inode = if create {
            state.admit_whole()?;
            if state.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = state.create_inode();
            state.names.insert(name.to_owned(), inode);
            state.name_changes.push(NameChange::Create(name.to_owned(), inode));
            inode
        } else {
            state.admit_read()?;
            *state.names.get(name).ok_or_else(|| not_found(name))?
        };
        Ok(Box::new(SimulatedFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit_whole()?;
        let inode = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.to_owned(), inode);
        state.name_changes.push(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit_whole()?;
        state.names.remove(name).ok_or_else(|| not_found(name))?;
        state.name_changes.push(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.admit_read()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.admit_whole()?;
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.lock();
        if state.stopped { Err(stopped()) } else { Ok(state.free_bytes.unwrap_or(u64::MAX)) }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: u64,
}

impl DiskFile for SimulatedFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let verdict = state.admit()?;
        let inode = state.inode(self.inode);
        match verdict {
            Verdict::Proceed => {
                inode.write(bytes, at);
                Ok(())
            }
            Verdict::Half(error) => {
                inode.write(&bytes[..bytes.len() / 2], at);
                Err(error)
            }
        }
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.admit_read()?;
        let content = &state.inode(self.inode).content;
        let range = at as usize..at as usize + bytes.len();
        bytes.copy_from_slice(content.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        if state.stopped {
            return Err(stopped());
        }
        Ok(state.inode(self.inode).content.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.admit_whole()?;
        let inode = state.inode(self.inode);
        let change = Change::SetLen(len as usize);
        change.apply(&mut inode.content);
        inode.changes.push(change);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let admitted = state.admit_whole();
        let inode = state.inode(self.inode);
        match &admitted {
            Ok(()) => inode.sync(),
            Err(_) => inode.fail_sync(),
        }
        admitted
    }
}

/// SplitMix64: enough randomness to choose what a power loss keeps.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}
