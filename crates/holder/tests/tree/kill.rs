//! Ordinary trees, trees that resist, and trees without a tag.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, TreeRoot};
use rustix::process::Signal;

use crate::support::{TestKiller, Tree, is_running, wait_until};

#[test]
fn descendants_in_other_sessions_are_killed() {
    let mut tree = Tree::start("(sleep 1000; :) & setsid bash -c 'sleep 1000 & sleep 1000; :' & wait");
    tree.wait_for_count(6);
    let result = TestKiller::start().kill_and_check(&tree);
    assert!(result.signalled >= 6, "{result:?}");
    assert_eq!(tree.child.wait().expect("our child").signal(), Some(9));
}

#[test]
fn a_daemon_with_an_empty_environment_is_killed_after_its_root_is_reaped() {
    let killer = TestKiller::start();
    for _ in 0..20 {
        let mut tree = Tree::start("(env -i setsid /bin/bash -c '(sleep 1000; :) & sleep 1000; :' &)");
        tree.reap();
        tree.wait_for_count(4);
        assert_eq!(killer.kill_and_check(&tree).signalled, 4);
    }
}

#[test]
fn a_supervisor_cannot_restart_its_children() {
    let killer = TestKiller::start();
    for _ in 0..20 {
        let restart = "while :; do (sleep 0.01 & sleep 1000) & wait -n; done";
        let tree = Tree::start(&format!("for i in 1 2 3; do setsid bash -c '{restart}' & done; wait"));
        tree.wait_for_count(10);
        killer.kill_and_check(&tree);
    }
}

#[test]
fn processes_that_restart_each_other_are_killed() {
    let killer = TestKiller::start();
    let guard = r#"guard() { while :; do bash -c "$1; guard '$1'" & wait $!; done; }; export -f guard"#;
    for _ in 0..5 {
        let tree = Tree::start(&format!("{guard}; guard 'sleep 0.02' & guard 'sleep 0.03' & guard 'sleep 1'"));
        tree.wait_for_count(8);
        killer.kill_and_check(&tree);
    }
}

#[test]
fn a_tree_that_ignores_term_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().join("ready");
    let line =
        format!("trap '' TERM HUP INT; (sleep 1000; :) & touch {}; while :; do sleep 1000; done", ready.display());
    let tree = Tree::start(&line);
    wait_until("the traps are set", || ready.exists());
    tree.wait_for_count(4);
    let killer = TestKiller::start();
    assert_eq!(killer.send(&tree.root, Signal::TERM).signalled, 4);
    assert_eq!(tree.running().len(), 4);
    assert_eq!(killer.kill_and_check(&tree).signalled, 4);
}

#[test]
fn a_stopped_process_handles_term() {
    let mut tree = Tree::start("trap 'exit 7' TERM; kill -STOP $$; while :; do sleep 1000 & wait $!; done");
    wait_until("it has stopped itself", || is_stopped(&tree));
    TestKiller::start().send(&tree.root, Signal::TERM);
    assert_eq!(tree.child.wait().expect("our child").code(), Some(7));
}

#[test]
fn processes_that_dropped_their_tag_are_found_by_descent_and_session() {
    let tree = Tree::start("(ulimit -R 1000000; setsid sleep 1001; :) & (ulimit -R 1000000; exec sleep 1002) & wait");
    let pid = tree.root.pid;
    wait_until("two sleepers without the tag", || sleepers(&tree).len() == 2);
    let untagged = sleepers(&tree);
    assert!(untagged.iter().all(|process| process.key == 0));
    TestKiller::start().kill_and_check(&tree);
    assert!(!is_running(pid) && untagged.iter().all(|process| !is_running(process.pid)));
}

fn sleepers(tree: &Tree) -> Vec<outlive_holder::tree::ScannedProcess> {
    let processes = outlive_holder::tree::scan::all().expect("/proc can be read");
    let members = outlive_holder::tree::members(&tree.root, &processes, &[]);
    let sleeps = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n");
    members.into_iter().filter(|process| process.key == 0 && sleeps(process.pid)).collect()
}

#[test]
fn daemons_without_a_tag_are_found_by_their_environment() {
    let mut tree = Tree::start_untagged("(setsid bash -c '(sleep 1000; :) & sleep 1000; :' &)");
    assert!(tree.root.environ_id.is_some(), "the missing tag is noticed");
    tree.reap();
    let found = || {
        let processes = outlive_holder::tree::scan::all().expect("/proc can be read");
        let id = tree.root.environ_id.as_deref().expect("checked above");
        outlive_holder::tree::processes_with_id(id, &processes)
    };
    wait_until("four processes with the id", || found().len() == 4);
    let killer = TestKiller::start();
    let result = killer.kill(&tree.root);
    assert_eq!((result.signalled, result.survivors), (4, 0));
    assert_eq!(found(), [0; 0]);
}

#[test]
fn environments_are_not_read_when_the_tag_is_set() {
    let tree = Tree::start("sleep 1000");
    assert_eq!(tree.root.environ_id, None);
    TestKiller::start().kill_and_check(&tree);
}

#[test]
fn other_trees_and_exempt_processes_are_not_signalled() {
    let line = "sleep 1000 & sleep 1000 & wait";
    let (tree, neighbour) = (Tree::start(line), Tree::start(line));
    tree.wait_for_count(3);
    neighbour.wait_for_count(3);
    let exempt = tree.running()[2].pid;
    let killer = TestKiller::start_with_exempt(vec![exempt]);
    let result = killer.kill(&tree.root);
    assert_eq!((result.signalled, result.survivors), (2, 0));
    assert_eq!(tree.running().iter().map(|process| process.pid).collect::<Vec<_>>(), [exempt]);
    assert_eq!(neighbour.running().len(), 3);
    killer.killer.set_exempt(Vec::new());
    killer.kill_and_check(&tree);
}

#[test]
fn a_reused_root_pid_is_not_signalled() {
    let other = Tree::start_untagged("sleep 1000");
    let mut root = other.root.clone();
    root.start_time += 1;
    root.environ_id = None;
    let result = TestKiller::start().kill(&root);
    assert_eq!((result.signalled, result.survivors), (0, 0));
    assert!(is_running(root.pid));
}

#[test]
fn many_trees_are_killed_in_the_same_passes() {
    let trees: Vec<Tree> = (0..50).map(|_| Tree::start("sleep 1000 & setsid sleep 1000 & wait")).collect();
    for tree in &trees {
        tree.wait_for_count(3);
    }
    let killer = TestKiller::start();
    for tree in &trees {
        killer.submit(&tree.root, None, Action::Kill);
        killer.submit(&tree.root, None, Action::Signal(15));
        killer.submit(&tree.root, None, Action::Kill);
    }
    let results = killer.wait_for_result_count(3 * trees.len());
    assert_eq!(results.len(), 3 * trees.len(), "one result per job");
    assert!(results.iter().all(|result| result.survivors == 0), "{results:?}");
    assert!(trees.iter().all(|tree| tree.running().is_empty()));
}

#[test]
fn several_signals_for_one_tree_are_all_sent() {
    let tree = Tree::start("kill -STOP $$");
    let pid = tree.root.pid;
    wait_until("it has stopped itself", || is_stopped(&tree));
    let killer = TestKiller::start();
    for signal in [Signal::USR1, Signal::USR2, Signal::USR1] {
        killer.submit(&tree.root, None, Action::Signal(signal.as_raw()));
    }
    let results = killer.wait_for_result_count(3);
    assert!(results.iter().all(|result| (result.signalled, result.survivors) == (1, 0)), "{results:?}");
    let both = 1 << (Signal::USR1.as_raw() - 1) | 1 << (Signal::USR2.as_raw() - 1);
    assert_eq!(pending(pid) & both, both, "both signals are pending");
}

fn is_stopped(tree: &Tree) -> bool {
    tree.running().iter().any(|process| process.pid == tree.root.pid && process.state == b'T')
}

fn pending(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t"));
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

#[test]
fn an_invalid_signal_is_not_sent() {
    let tree = Tree::start("sleep 1000");
    let killer = TestKiller::start();
    for number in [-1, 0, 33, 65, i32::MAX] {
        let job = killer.submit(&tree.root, None, Action::Signal(number));
        assert_eq!(killer.wait_for_result(job).signalled, 0);
    }
    assert!(is_running(tree.root.pid));
}

#[test]
fn killing_an_ended_tree_returns_at_once() {
    let mut tree = Tree::start("exit 0");
    tree.reap();
    let result = TestKiller::start().kill(&tree.root);
    assert_eq!((result.signalled, result.survivors), (0, 0));
}

/// Only the cgroup v1 freezer makes a process survive SIGKILL. Skipped on machines without it.
#[test]
fn a_tree_that_survives_is_reported_and_delays_no_other() {
    let tree = Tree::start("sleep 1000");
    let Some(freezer) = Freezer::freeze(tree.root.pid) else {
        return;
    };
    let other = Tree::start("setsid sleep 1000 & wait");
    other.wait_for_count(2);
    let killer = TestKiller::start();
    let started = Instant::now();
    let stuck_job = killer.submit(&tree.root, None, Action::Kill);
    let other_job = killer.submit(&other.root, None, Action::Kill);
    // The first result is that of the other tree.
    assert_eq!(killer.wait_for_result(other_job).survivors, 0);
    assert_eq!(killer.wait_for_result(stuck_job).survivors, 1);
    assert!(started.elapsed() >= Duration::from_secs(2));
    drop(freezer);
    killer.kill_and_check(&tree);
}

struct Freezer(std::path::PathBuf);

impl Freezer {
    fn freeze(pid: i32) -> Option<Self> {
        let path = std::path::PathBuf::from(format!("/sys/fs/cgroup/freezer/outlive-test-{pid}"));
        std::fs::create_dir(&path).ok()?;
        let freezer = Self(path);
        std::fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        std::fs::write(freezer.0.join("freezer.state"), "FROZEN").ok()?;
        let state = || std::fs::read_to_string(freezer.0.join("freezer.state")).unwrap_or_default();
        wait_until("it is frozen", || state() == "FROZEN\n");
        Some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let empty = || std::fs::read_to_string(self.0.join("cgroup.procs")).is_ok_and(|text| text.is_empty());
        let deadline = Instant::now() + Duration::from_secs(5);
        while !empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Runs `kill::inner_all_descendants` in a process of its own, which has no other children.
#[test]
fn all_descendants_are_killed_at_shutdown() {
    let this = std::env::current_exe().expect("the test binary");
    let run = Command::new(this).args(["--exact", "kill::inner_all_descendants", "--ignored"]).output();
    let output = run.expect("the test binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by all_descendants_are_killed_at_shutdown"]
fn inner_all_descendants() {
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).expect("it is permitted");
    let mut trees = [
        Tree::start("sleep 1000 & wait"),
        Tree::start("(setsid sleep 1000 &)"),
        Tree::start_untagged("(env -i setsid sleep 1000 &)"),
    ];
    let exempt = Tree::start("sleep 1000");
    trees[1].reap();
    trees[2].reap();
    trees[0].wait_for_count(2);
    trees[1].wait_for_count(1);
    let me = std::process::id() as i32;
    let children = || {
        let processes = outlive_holder::tree::scan::all().expect("/proc can be read");
        processes.iter().filter(|process| process.ppid == me && !process.is_dead()).count()
    };
    wait_until("all orphans are ours", || children() == 4);
    let root = TreeRoot { environ_id: None, ..TreeRoot::from_running(me, 0, "") };
    let killer = TestKiller::start_with_exempt(vec![exempt.root.pid]);
    let result = killer.kill(&root);
    assert_eq!((result.signalled, result.survivors), (4, 0));
    assert_eq!(children(), 1);
    assert!(is_running(exempt.root.pid));
}

/// Runs `kill::inner_no_descriptor_left` in a process of its own, because it uses up all descriptors.
#[test]
fn a_holder_without_descriptors_can_still_kill() {
    let this = std::env::current_exe().expect("the test binary");
    let run = Command::new(this).args(["--exact", "kill::inner_no_descriptor_left", "--ignored"]).output();
    let output = run.expect("the test binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by a_holder_without_descriptors_can_still_kill"]
fn inner_no_descriptor_left() {
    let mut tree = Tree::start("(setsid sleep 1000; :) & sleep 1000; :");
    tree.wait_for_count(4);
    let killer = TestKiller::start();
    let mut used_up = Vec::new();
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(64), maximum: Some(64) },
    )
    .expect("lowering is permitted");
    while let Ok(file) = std::fs::File::open("/dev/null") {
        used_up.push(file);
    }
    let result = killer.kill(&tree.root);
    drop(used_up);
    assert_eq!(result.survivors, 0, "{result:?}");
    assert_eq!(tree.running(), []);
    tree.reap();
}
