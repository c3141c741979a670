//! Which of the seen processes belong to which tree: pure functions over one pass.
//!
//! A process is a member if it carries the mark, is the root, or is in a cgroup or environment that names
//! the tree; further if its parent is a member, or if it shares a mark, session or group that certainly
//! belongs to the tree. The last needs care: the number of a group says nothing once it was empty, for it
//! may be someone else's by now. What makes it certain:
//!
//! * Marks and sessions are only inherited or newly made. So those of any member are either the ones that
//!   we ourselves (or another of the untouchable) have, or were made inside the tree, and then all who have
//!   them are the tree's. Marks inside the tree that differ from its own are those of an outlive that runs
//!   in it.
//! * A group or session numbered like a member that still exists (a zombie counts) was made by that member:
//!   the kernel gives no pid out again while it is in use as either.
//! * A marked member in the group numbered like the root shows that this group has lived on since.

use super::mark;
use super::scan::{Procs, Seen};

/// Where a tree begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The pid of the command, 0 if unknown. May stay set after it was reaped: `start_time` guards against
    /// reuse. Our own pid stands for everything below us, whatever its mark.
    pub pid: i32,
    /// Its start time; with 0 the pid is believed only if the process carries the mark.
    pub start_time: u64,
    /// The key of the mark, 0 if none was given.
    pub key: u64,
    /// Set if the mark could not be put on: environments are then searched for this OUTLIVE_PROCESS_ID.
    /// They cannot be read without risk (see `environ`), hence not by default.
    pub environ_id: Option<String>,
}

impl Root {
    /// Takes down what identifies a process that was just spawned (its exec done, not reaped) and checks
    /// that it carries the mark. `id` is its OUTLIVE_PROCESS_ID.
    pub fn of(pid: i32, key: u64, id: &str) -> Self {
        let start_time = Procs::open().and_then(|procs| Ok(procs.stat(pid)?.start_time));
        let marked = mark::key_of(pid) == Some(key);
        Self { pid, start_time: start_time.unwrap_or(0), key, environ_id: (!marked).then(|| id.to_owned()) }
    }

    /// A tree of which only the mark is known.
    pub fn marked(key: u64) -> Self {
        Self { pid: 0, start_time: 0, key, environ_id: None }
    }

    fn is(&self, seen: &Seen) -> bool {
        let same_process = self.start_time != 0 && seen.start_time == self.start_time;
        self.pid != 0 && seen.pid == self.pid && (same_process || self.carries_mark(seen))
    }

    fn carries_mark(&self, seen: &Seen) -> bool {
        self.key != 0 && seen.key == self.key
    }
}

/// The living members of one tree, oldest first. Never pid 1, this process, or one of `exempt`.
/// For several trees in one pass make a [`Forest`].
pub fn members(root: &Root, seen: &[Seen], exempt: &[i32]) -> Vec<Seen> {
    Forest::new(seen, exempt).members(root, &[])
}

/// One pass, indexed, so that a tree costs what it has members and not what the machine has processes.
pub struct Forest<'a> {
    seen: &'a [Seen],
    by_pid: Index,
    by_parent: Index,
    by_group: Index,
    by_session: Index,
    by_key: Index<u64>,
    own_pid: i32,
    /// Us, the exempt and init: never members, nor does anything that they share prove one.
    untouchable: Vec<i32>,
    /// Sessions and marks of the untouchable.
    outside_sessions: Vec<i32>,
    outside_keys: Vec<u64>,
}

impl<'a> Forest<'a> {
    pub fn new(seen: &'a [Seen], exempt: &[i32]) -> Self {
        Self::around(std::process::id() as i32, seen, exempt)
    }

    fn around(own_pid: i32, seen: &'a [Seen], exempt: &[i32]) -> Self {
        let mut untouchable = exempt.to_vec();
        untouchable.extend([0, 1, own_pid]);
        let outside = || seen.iter().filter(|seen| untouchable.contains(&seen.pid));
        // 0 is how the kernel shows a session of another pid namespace: not one session, but all of those.
        let outside_sessions = outside().map(|seen| seen.session).chain([0]).collect();
        let outside_keys = outside().map(|seen| seen.key).chain([0]).collect();
        Self {
            seen,
            by_pid: Index::new(seen, |seen| seen.pid),
            by_parent: Index::new(seen, |seen| seen.ppid),
            by_group: Index::new(seen, |seen| seen.pgrp),
            by_session: Index::new(seen, |seen| seen.session),
            by_key: Index::new(seen, |seen| seen.key),
            own_pid,
            untouchable,
            outside_sessions,
            outside_keys,
        }
    }

    /// `others` are pids known to belong to the tree by other means: in its cgroup, or by environment.
    pub fn members(&self, root: &Root, others: &[i32]) -> Vec<Seen> {
        let mut walk = Walk::new(self);
        if root.key != 0 {
            walk.reach(self.by_key.find(root.key));
        }
        for pid in others.iter().filter(|pid| **pid > 0) {
            walk.reach(self.by_pid.find(*pid));
        }
        let at_root = self.by_pid.find(root.pid).filter(|at| root.is(&self.seen[*at]));
        walk.reach(at_root);
        if root.pid == self.own_pid {
            walk.reach(self.by_parent.find(self.own_pid));
        }
        walk.follow(root);
        let mut members: Vec<Seen> = self
            .seen
            .iter()
            .zip(&walk.reached)
            .filter(|(seen, reached)| **reached && !seen.is_dead())
            .map(|(seen, _)| *seen)
            .collect();
        members.sort_by_key(|seen| (seen.start_time, seen.pid));
        members
    }

    /// Whether everything with this mark belongs to a tree as soon as one member has it.
    pub(super) fn is_made_inside(&self, key: u64) -> bool {
        !self.outside_keys.contains(&key)
    }
}

/// The fix-point: everything reached is asked once whom it leads to. The dead lead on, but are no members.
struct Walk<'a> {
    forest: &'a Forest<'a>,
    reached: Vec<bool>,
    queue: Vec<usize>,
    /// What was taken whole already: asking again for each member would make a large session quadratic.
    sessions: Vec<i32>,
    groups: Vec<i32>,
    keys: Vec<u64>,
}

impl<'a> Walk<'a> {
    fn new(forest: &'a Forest<'a>) -> Self {
        let reached = vec![false; forest.seen.len()];
        Self { forest, reached, queue: Vec::new(), sessions: Vec::new(), groups: Vec::new(), keys: Vec::new() }
    }

    fn reach(&mut self, found: impl IntoIterator<Item = usize>) {
        for at in found {
            let seen = &self.forest.seen[at];
            if !self.reached[at] && seen.pid > 1 && !self.forest.untouchable.contains(&seen.pid) {
                self.reached[at] = true;
                self.queue.push(at);
            }
        }
    }

    fn reach_session(&mut self, session: i32) {
        if insert(&mut self.sessions, session) {
            self.reach(self.forest.by_session.find(session));
        }
    }

    fn reach_group(&mut self, group: i32) {
        if insert(&mut self.groups, group) {
            self.reach(self.forest.by_group.find(group));
        }
    }

    fn reach_key(&mut self, key: u64) {
        if insert(&mut self.keys, key) {
            self.reach(self.forest.by_key.find(key));
        }
    }

    fn follow(&mut self, root: &Root) {
        let forest = self.forest;
        while let Some(at) = self.queue.pop() {
            let seen = &forest.seen[at];
            self.reach(forest.by_parent.find(seen.pid));
            self.reach(forest.by_group.find(seen.pid));
            self.reach(forest.by_session.find(seen.pid));
            if !forest.outside_sessions.contains(&seen.session) {
                self.reach_session(seen.session);
            }
            if forest.is_made_inside(seen.key) {
                self.reach_key(seen.key);
            }
            if root.pid > 1 && seen.pgrp == root.pid && root.carries_mark(seen) {
                self.reach_group(root.pid);
            }
        }
    }
}

/// Whether it was new to the sorted list.
fn insert<T: Ord>(list: &mut Vec<T>, number: T) -> bool {
    match list.binary_search(&number) {
        Ok(_) => false,
        Err(at) => {
            list.insert(at, number);
            true
        }
    }
}

/// Positions in a pass by one field: sorted, because that is a tenth of a hash map's memory and made once
/// per pass.
struct Index<K = i32>(Vec<(K, u32)>);

impl<K: Copy + Ord> Index<K> {
    fn new(seen: &[Seen], key: impl Fn(&Seen) -> K) -> Self {
        let mut entries: Vec<_> = (0..).zip(seen).map(|(at, seen)| (key(seen), at)).collect();
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

    /// A process of the holder's session 50 and group 50; tests change what matters to them.
    fn process(pid: i32, ppid: i32) -> Seen {
        let start_time = pid as u64;
        Seen { pid, ppid, pgrp: HOLDER, session: HOLDER, state: b'S', threads: 1, start_time, key: 0 }
    }

    fn leader(pid: i32, ppid: i32) -> Seen {
        Seen { pgrp: pid, session: pid, ..process(pid, ppid) }
    }

    fn inside(session: i32, seen: Seen) -> Seen {
        Seen { pgrp: session, session, ..seen }
    }

    fn marked(seen: Seen) -> Seen {
        Seen { key: KEY, ..seen }
    }

    fn root(pid: i32) -> Root {
        Root { pid, start_time: pid as u64, key: KEY, environ_id: None }
    }

    fn pids(root: &Root, processes: &[Seen]) -> Vec<i32> {
        pids_with(root, processes, &[])
    }

    fn pids_with(root: &Root, processes: &[Seen], others: &[i32]) -> Vec<i32> {
        let mut seen = vec![process(1, 0), leader(2, 0), leader(HOLDER, 1), process(SERVER, HOLDER)];
        seen.extend_from_slice(processes);
        seen.sort_by_key(|seen| seen.pid);
        let forest = Forest::around(HOLDER, &seen, &[SERVER]);
        forest.members(root, others).iter().map(|seen| seen.pid).collect()
    }

    #[test]
    fn the_mark_alone_is_enough() {
        let seen = [marked(process(90, 1)), marked(process(91, 1)), process(92, 1)];
        assert_eq!(pids(&Root::marked(KEY), &seen), [90, 91]);
        assert_eq!(pids(&Root::marked(8), &seen), []);
    }

    #[test]
    fn without_a_mark_descent_group_and_session_are_followed() {
        let seen = [
            leader(60, HOLDER),
            inside(60, process(61, 60)),
            leader(62, 61),
            process(63, 62),
            inside(60, process(64, 1)),
            inside(62, process(65, 1)),
            process(70, 1),
            leader(71, 1),
        ];
        assert_eq!(pids(&root(60), &seen), [60, 61, 62, 63, 64, 65]);
    }

    #[test]
    fn key_zero_matches_no_unmarked_process() {
        let unmarked = Root { key: 0, ..root(60) };
        assert_eq!(pids(&unmarked, &[process(60, HOLDER), process(70, 1)]), [60]);
        assert_eq!(pids(&Root::marked(0), &[process(60, HOLDER)]), []);
    }

    #[test]
    fn a_reused_pid_is_nobody_of_ours() {
        let reused = Seen { start_time: 999, ..leader(60, 1) };
        let seen = [reused, inside(60, process(61, 60))];
        assert_eq!(pids(&root(60), &seen), []);
        assert_eq!(pids(&Root { start_time: 0, ..root(60) }, &seen), []);
    }

    #[test]
    fn a_dead_root_is_no_member_but_its_session_still_is() {
        let zombie = Seen { state: b'Z', ..leader(60, HOLDER) };
        assert_eq!(pids(&root(60), &[zombie, inside(60, process(61, 1))]), [61]);
    }

    #[test]
    fn the_number_of_a_reaped_root_proves_nothing_by_itself() {
        let seen = [inside(60, process(61, 1))];
        assert_eq!(pids(&root(60), &seen), []);
        let marked_too = [seen[0], marked(inside(60, process(62, 1)))];
        assert_eq!(pids(&root(60), &marked_too), [61, 62]);
    }

    #[test]
    fn a_group_inside_the_holders_session_needs_a_marked_member_or_the_root() {
        let of_group = |pid| Seen { pgrp: 60, ..process(pid, 1) };
        assert_eq!(pids(&root(60), &[of_group(61), of_group(62)]), []);
        assert_eq!(pids(&root(60), &[of_group(61), marked(of_group(62))]), [61, 62]);
        assert_eq!(pids(&root(60), &[of_group(60), of_group(61)]), [60, 61]);
    }

    #[test]
    fn the_holders_own_session_is_never_taken_along() {
        let seen = [marked(process(60, HOLDER)), process(61, HOLDER), process(62, 1)];
        assert_eq!(pids(&root(60), &seen), [60]);
    }

    #[test]
    fn sessions_of_other_namespaces_are_not_one_session() {
        let seen = [marked(inside(0, process(60, HOLDER))), inside(0, process(61, 1))];
        assert_eq!(pids(&root(60), &seen), [60]);
    }

    #[test]
    fn holder_server_and_init_are_out_of_reach_whatever_they_carry() {
        let seen = [
            marked(process(1, 0)),
            marked(leader(HOLDER, 1)),
            marked(process(SERVER, HOLDER)),
            process(60, HOLDER),
            process(61, SERVER),
        ];
        let forest = Forest::around(HOLDER, &seen, &[SERVER]);
        for pid in [0, 1, SERVER] {
            assert_eq!(forest.members(&root(pid), &[0, 1, HOLDER, SERVER, -1]), []);
        }
    }

    #[test]
    fn our_own_pid_stands_for_everything_below_us() {
        let seen = [process(60, HOLDER), leader(61, 60), process(62, SERVER), process(63, 1)];
        assert_eq!(pids(&root(HOLDER), &seen), [60, 61]);
    }

    #[test]
    fn an_outlive_inside_goes_with_the_trees_it_marked() {
        let inner = |seen| Seen { key: 8, ..seen };
        let seen = [
            marked(process(60, HOLDER)),
            inner(leader(61, 60)),
            inner(leader(62, 1)),
            process(63, 62),
            Seen { key: 9, ..leader(64, 1) },
        ];
        assert_eq!(pids(&root(60), &seen), [60, 61, 62, 63]);
    }

    #[test]
    fn the_mark_that_we_carry_ourselves_proves_nothing() {
        let outer = |seen| Seen { key: 8, ..seen };
        let seen = [outer(leader(HOLDER, 1)), outer(process(60, HOLDER)), outer(process(70, 1))];
        let forest = Forest::around(HOLDER, &seen, &[]);
        let pids: Vec<i32> = forest.members(&root(60), &[]).iter().map(|seen| seen.pid).collect();
        assert_eq!(pids, [60]);
    }

    #[test]
    fn others_are_members_with_their_descendants() {
        let seen = [process(60, 1), process(61, 60), process(62, 1)];
        assert_eq!(pids_with(&Root::marked(KEY), &seen, &[60, 12345]), [60, 61]);
    }

    #[test]
    fn a_zombie_that_still_has_threads_is_a_member() {
        let seen = [marked(Seen { state: b'Z', threads: 2, ..process(60, HOLDER) })];
        assert_eq!(pids(&root(60), &seen), [60]);
    }

    #[test]
    fn parents_come_before_children_whatever_their_pids() {
        let wrapped = Seen { start_time: 100, ..marked(process(55, 90)) };
        assert_eq!(pids(&Root::marked(KEY), &[marked(process(90, 1)), wrapped]), [90, 55]);
    }
}
