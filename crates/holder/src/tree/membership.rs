//! Which scanned processes belong to which tree: pure functions over one pass.
//!
//! A process is a member if it has the tree tag, is the root, or is in a cgroup or has an environment that identifies
//! the tree. It is also a member if its parent is one, or if it shares a tag, session or group that certainly belongs
//! to the tree. The last case needs care: a group number proves nothing once the group was empty, because another
//! program may have it now. The following is certain:
//!
//! * Tags and sessions are only inherited or newly created. So those of a member are either the ones that the holder
//!   (or another exempt process) has too, or were created inside the tree, and then all processes with them belong to
//!   the tree. Tags inside the tree that differ from its own are those of a holder that runs in it.
//! * A group or session numbered like a member that still exists (even as a zombie) was created by that member: the
//!   kernel does not reuse a pid while it is the number of a group or session.
//! * A tagged member in the group numbered like the root shows that this group has existed ever since.

use super::scan::{ProcFs, ScannedProcess};
use super::tag;

/// Identifies a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// The pid of the command, 0 if unknown. It may stay set after the command was reaped: `start_time` guards against
    /// reuse. The holder's own pid stands for all its descendants, whatever their tags.
    pub pid: i32,
    /// The start time of the command. If it is 0, the pid counts only if that process has the tag.
    pub start_time: u64,
    /// The key of the tree tag, 0 if there is none.
    pub key: u64,
    /// Set if the tag could not be set, or if the command was reaped before that could be checked: environments are
    /// then searched for this OUTLIVE_PROCESS_ID. Not the default, because reading them may hang (see `environ`).
    pub environ_id: Option<String>,
}

impl TreeRoot {
    /// The tree of a command that was just spawned (executed, not reaped). Checks whether it has the tag. `id` is its
    /// OUTLIVE_PROCESS_ID.
    pub fn from_running(pid: i32, key: u64, id: &str) -> Self {
        let start_time = ProcFs::open().and_then(|procfs| Ok(procfs.stat(pid)?.start_time));
        let is_tagged = tag::key_of(pid) == Some(key);
        Self { pid, start_time: start_time.unwrap_or(0), key, environ_id: (!is_tagged).then(|| id.to_owned()) }
    }

    /// A tree of which only the tag is known.
    pub fn from_key(key: u64) -> Self {
        Self { pid: 0, start_time: 0, key, environ_id: None }
    }

    fn matches(&self, process: &ScannedProcess) -> bool {
        let same_start = self.start_time != 0 && process.start_time == self.start_time;
        self.pid != 0 && process.pid == self.pid && (same_start || self.has_tag(process))
    }

    fn has_tag(&self, process: &ScannedProcess) -> bool {
        self.key != 0 && process.key == self.key
    }
}

/// The living members of one tree, oldest first. Never pid 1, this process, or one of `exempt`.
/// For several trees in one pass use a [`ProcessIndex`].
pub fn members(root: &TreeRoot, processes: &[ScannedProcess], exempt: &[i32]) -> Vec<ScannedProcess> {
    ProcessIndex::new(processes, exempt).members(root, &[])
}

/// The processes of one pass, indexed, so that the cost of a tree depends on its members and not on all processes.
pub struct ProcessIndex<'a> {
    processes: &'a [ScannedProcess],
    by_pid: Index,
    by_parent: Index,
    by_group: Index,
    by_session: Index,
    by_key: Index<u64>,
    own_pid: i32,
    /// The holder, its exempt processes and init: they are never members, and sharing something with them proves
    /// nothing.
    exempt: Vec<i32>,
    exempt_sessions: Vec<i32>,
    exempt_keys: Vec<u64>,
}

impl<'a> ProcessIndex<'a> {
    pub fn new(processes: &'a [ScannedProcess], exempt: &[i32]) -> Self {
        Self::with_own_pid(std::process::id() as i32, processes, exempt)
    }

    fn with_own_pid(own_pid: i32, processes: &'a [ScannedProcess], exempt: &[i32]) -> Self {
        let mut exempt = exempt.to_vec();
        exempt.extend([0, 1, own_pid]);
        let exempt_processes = || processes.iter().filter(|process| exempt.contains(&process.pid));
        // The kernel shows all sessions of other pid namespaces as 0, so 0 is not one session.
        let exempt_sessions = exempt_processes().map(|process| process.session).chain([0]).collect();
        let exempt_keys = exempt_processes().map(|process| process.key).chain([0]).collect();
        Self {
            processes,
            by_pid: Index::new(processes, |process| process.pid),
            by_parent: Index::new(processes, |process| process.ppid),
            by_group: Index::new(processes, |process| process.pgrp),
            by_session: Index::new(processes, |process| process.session),
            by_key: Index::new(processes, |process| process.key),
            own_pid,
            exempt,
            exempt_sessions,
            exempt_keys,
        }
    }

    /// `known_pids` belong to the tree by other means: by cgroup or by environment.
    pub fn members(&self, root: &TreeRoot, known_pids: &[i32]) -> Vec<ScannedProcess> {
        let mut walk = Walk::new(self);
        if root.key != 0 {
            walk.reach(self.by_key.find(root.key));
        }
        for pid in known_pids.iter().filter(|pid| **pid > 0) {
            walk.reach(self.by_pid.find(*pid));
        }
        let root_process = self.by_pid.find(root.pid).filter(|at| root.matches(&self.processes[*at]));
        walk.reach(root_process);
        if root.pid == self.own_pid {
            walk.reach(self.by_parent.find(self.own_pid));
        }
        walk.follow(root);
        let mut members: Vec<ScannedProcess> = self
            .processes
            .iter()
            .zip(&walk.reached)
            .filter(|(process, reached)| **reached && !process.is_dead())
            .map(|(process, _)| *process)
            .collect();
        members.sort_by_key(|process| (process.start_time, process.pid));
        members
    }

    /// Whether all processes with this tag belong to a tree as soon as one member has it.
    pub(super) fn is_tag_unique_to_tree(&self, key: u64) -> bool {
        !self.exempt_keys.contains(&key)
    }
}

/// The transitive closure. Dead processes are followed too, but are no members.
struct Walk<'a> {
    index: &'a ProcessIndex<'a>,
    reached: Vec<bool>,
    queue: Vec<usize>,
    /// Already followed. Following them again for each member would be quadratic for a large session.
    sessions: Vec<i32>,
    groups: Vec<i32>,
    keys: Vec<u64>,
}

impl<'a> Walk<'a> {
    fn new(index: &'a ProcessIndex<'a>) -> Self {
        let reached = vec![false; index.processes.len()];
        Self { index, reached, queue: Vec::new(), sessions: Vec::new(), groups: Vec::new(), keys: Vec::new() }
    }

    fn reach(&mut self, found: impl IntoIterator<Item = usize>) {
        for at in found {
            let process = &self.index.processes[at];
            if !self.reached[at] && process.pid > 1 && !self.index.exempt.contains(&process.pid) {
                self.reached[at] = true;
                self.queue.push(at);
            }
        }
    }

    fn reach_session(&mut self, session: i32) {
        if insert_sorted(&mut self.sessions, session) {
            self.reach(self.index.by_session.find(session));
        }
    }

    fn reach_group(&mut self, group: i32) {
        if insert_sorted(&mut self.groups, group) {
            self.reach(self.index.by_group.find(group));
        }
    }

    fn reach_key(&mut self, key: u64) {
        if insert_sorted(&mut self.keys, key) {
            self.reach(self.index.by_key.find(key));
        }
    }

    fn follow(&mut self, root: &TreeRoot) {
        let index = self.index;
        while let Some(at) = self.queue.pop() {
            let process = &index.processes[at];
            self.reach(index.by_parent.find(process.pid));
            self.reach(index.by_group.find(process.pid));
            self.reach(index.by_session.find(process.pid));
            if !index.exempt_sessions.contains(&process.session) {
                self.reach_session(process.session);
            }
            if index.is_tag_unique_to_tree(process.key) {
                self.reach_key(process.key);
            }
            if root.pid > 1 && process.pgrp == root.pid && root.has_tag(process) {
                self.reach_group(root.pid);
            }
        }
    }
}

/// Returns whether the value was not in the sorted list yet.
fn insert_sorted<T: Ord>(list: &mut Vec<T>, value: T) -> bool {
    match list.binary_search(&value) {
        Ok(_) => false,
        Err(at) => {
            list.insert(at, value);
            true
        }
    }
}

/// Positions of processes by one field. A sorted list takes a tenth of a hash map's memory, and is built once per pass.
struct Index<K = i32>(Vec<(K, u32)>);

impl<K: Copy + Ord> Index<K> {
    fn new(processes: &[ScannedProcess], key: impl Fn(&ScannedProcess) -> K) -> Self {
        let mut entries: Vec<_> = (0..).zip(processes).map(|(at, process)| (key(process), at)).collect();
        entries.sort_unstable();
        Self(entries)
    }

    fn find(&self, key: K) -> impl Iterator<Item = usize> + use<'_, K> {
        let first = self.0.partition_point(|(other, _)| *other < key);
        self.0[first..].iter().take_while(move |(other, _)| *other == key).map(|(_, at)| *at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: i32 = 50;
    const SERVER: i32 = 51;
    const KEY: u64 = 7;

    /// A process in the holder's session and group; tests change the fields that matter to them.
    fn process(pid: i32, ppid: i32) -> ScannedProcess {
        let start_time = pid as u64;
        ScannedProcess { pid, ppid, pgrp: HOLDER, session: HOLDER, state: b'S', threads: 1, start_time, key: 0 }
    }

    fn leader(pid: i32, ppid: i32) -> ScannedProcess {
        ScannedProcess { pgrp: pid, session: pid, ..process(pid, ppid) }
    }

    fn in_session(session: i32, process: ScannedProcess) -> ScannedProcess {
        ScannedProcess { pgrp: session, session, ..process }
    }

    fn tagged(process: ScannedProcess) -> ScannedProcess {
        ScannedProcess { key: KEY, ..process }
    }

    fn root(pid: i32) -> TreeRoot {
        TreeRoot { pid, start_time: pid as u64, key: KEY, environ_id: None }
    }

    fn pids(root: &TreeRoot, processes: &[ScannedProcess]) -> Vec<i32> {
        pids_with(root, processes, &[])
    }

    fn pids_with(root: &TreeRoot, processes: &[ScannedProcess], known_pids: &[i32]) -> Vec<i32> {
        let mut all = vec![process(1, 0), leader(2, 0), leader(HOLDER, 1), process(SERVER, HOLDER)];
        all.extend_from_slice(processes);
        all.sort_by_key(|process| process.pid);
        let index = ProcessIndex::with_own_pid(HOLDER, &all, &[SERVER]);
        index.members(root, known_pids).iter().map(|process| process.pid).collect()
    }

    #[test]
    fn the_tag_alone_makes_a_member() {
        let processes = [tagged(process(90, 1)), tagged(process(91, 1)), process(92, 1)];
        assert_eq!(pids(&TreeRoot::from_key(KEY), &processes), [90, 91]);
        assert_eq!(pids(&TreeRoot::from_key(8), &processes), []);
    }

    #[test]
    fn without_a_tag_descent_group_and_session_are_followed() {
        let processes = [
            leader(60, HOLDER),
            in_session(60, process(61, 60)),
            leader(62, 61),
            process(63, 62),
            in_session(60, process(64, 1)),
            in_session(62, process(65, 1)),
            process(70, 1),
            leader(71, 1),
        ];
        assert_eq!(pids(&root(60), &processes), [60, 61, 62, 63, 64, 65]);
    }

    #[test]
    fn key_zero_matches_no_process() {
        let untagged = TreeRoot { key: 0, ..root(60) };
        assert_eq!(pids(&untagged, &[process(60, HOLDER), process(70, 1)]), [60]);
        assert_eq!(pids(&TreeRoot::from_key(0), &[process(60, HOLDER)]), []);
    }

    #[test]
    fn a_reused_root_pid_is_no_member() {
        let reused = ScannedProcess { start_time: 999, ..leader(60, 1) };
        let processes = [reused, in_session(60, process(61, 60))];
        assert_eq!(pids(&root(60), &processes), []);
        assert_eq!(pids(&TreeRoot { start_time: 0, ..root(60) }, &processes), []);
    }

    #[test]
    fn a_dead_root_is_no_member_but_its_session_is() {
        let zombie = ScannedProcess { state: b'Z', ..leader(60, HOLDER) };
        assert_eq!(pids(&root(60), &[zombie, in_session(60, process(61, 1))]), [61]);
    }

    #[test]
    fn the_group_of_a_reaped_root_counts_only_with_a_tagged_member() {
        let processes = [in_session(60, process(61, 1))];
        assert_eq!(pids(&root(60), &processes), []);
        let with_tagged = [processes[0], tagged(in_session(60, process(62, 1)))];
        assert_eq!(pids(&root(60), &with_tagged), [61, 62]);
    }

    #[test]
    fn a_group_in_the_holders_session_needs_a_tagged_member_or_the_root() {
        let in_group = |pid| ScannedProcess { pgrp: 60, ..process(pid, 1) };
        assert_eq!(pids(&root(60), &[in_group(61), in_group(62)]), []);
        assert_eq!(pids(&root(60), &[in_group(61), tagged(in_group(62))]), [61, 62]);
        assert_eq!(pids(&root(60), &[in_group(60), in_group(61)]), [60, 61]);
    }

    #[test]
    fn the_holders_own_session_is_not_followed() {
        let processes = [tagged(process(60, HOLDER)), process(61, HOLDER), process(62, 1)];
        assert_eq!(pids(&root(60), &processes), [60]);
    }

    #[test]
    fn sessions_of_other_namespaces_are_not_followed() {
        let processes = [tagged(in_session(0, process(60, HOLDER))), in_session(0, process(61, 1))];
        assert_eq!(pids(&root(60), &processes), [60]);
    }

    #[test]
    fn holder_server_and_init_are_never_members() {
        let processes = [
            tagged(process(1, 0)),
            tagged(leader(HOLDER, 1)),
            tagged(process(SERVER, HOLDER)),
            process(60, HOLDER),
            process(61, SERVER),
        ];
        let index = ProcessIndex::with_own_pid(HOLDER, &processes, &[SERVER]);
        for pid in [0, 1, SERVER] {
            assert_eq!(index.members(&root(pid), &[0, 1, HOLDER, SERVER, -1]), []);
        }
    }

    #[test]
    fn the_holders_pid_stands_for_all_its_descendants() {
        let processes = [process(60, HOLDER), leader(61, 60), process(62, SERVER), process(63, 1)];
        assert_eq!(pids(&root(HOLDER), &processes), [60, 61]);
    }

    #[test]
    fn a_holder_inside_the_tree_is_a_member_with_its_trees() {
        let inner = |process| ScannedProcess { key: 8, ..process };
        let processes = [
            tagged(process(60, HOLDER)),
            inner(leader(61, 60)),
            inner(leader(62, 1)),
            process(63, 62),
            ScannedProcess { key: 9, ..leader(64, 1) },
        ];
        assert_eq!(pids(&root(60), &processes), [60, 61, 62, 63]);
    }

    #[test]
    fn the_holders_own_tag_is_not_followed() {
        let outer = |process| ScannedProcess { key: 8, ..process };
        let processes = [outer(leader(HOLDER, 1)), outer(process(60, HOLDER)), outer(process(70, 1))];
        let index = ProcessIndex::with_own_pid(HOLDER, &processes, &[]);
        let pids: Vec<i32> = index.members(&root(60), &[]).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [60]);
    }

    #[test]
    fn known_pids_are_members_with_their_descendants() {
        let processes = [process(60, 1), process(61, 60), process(62, 1)];
        assert_eq!(pids_with(&TreeRoot::from_key(KEY), &processes, &[60, 12345]), [60, 61]);
    }

    #[test]
    fn a_zombie_with_running_threads_is_a_member() {
        let processes = [tagged(ScannedProcess { state: b'Z', threads: 2, ..process(60, HOLDER) })];
        assert_eq!(pids(&root(60), &processes), [60]);
    }

    #[test]
    fn members_are_ordered_by_start_time_not_by_pid() {
        let wrapped = ScannedProcess { start_time: 100, ..tagged(process(55, 90)) };
        assert_eq!(pids(&TreeRoot::from_key(KEY), &[tagged(process(90, 1)), wrapped]), [90, 55]);
    }
}
