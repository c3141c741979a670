//! Ordinary trees, nasty trees, and trees that cannot be told by their mark.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, Root};
use rustix::process::Signal;

use crate::support::{Desk, Tree, await_that, runs};

#[test]
fn children_and_grandchildren_in_other_sessions_go_too() {
    let mut tree = Tree::start("(sleep 1000; :) & setsid bash -c 'sleep 1000 & sleep 1000; :' & wait");
    tree.await_count(6);
    let done = Desk::open().kill_all_of(&tree);
    assert!(done.signalled >= 6, "{done:?}");
    assert_eq!(tree.child.wait().expect("our child").signal(), Some(9));
}

#[test]
fn a_daemon_with_an_empty_environment_goes_after_its_root_was_reaped() {
    let desk = Desk::open();
    for _ in 0..20 {
        let mut tree = Tree::start("(env -i setsid /bin/bash -c '(sleep 1000; :) & sleep 1000; :' &)");
        tree.reap();
        tree.await_count(4);
        assert_eq!(desk.kill_all_of(&tree).signalled, 4);
    }
}

#[test]
fn a_supervisor_cannot_bring_its_children_back() {
    let desk = Desk::open();
    for _ in 0..20 {
        let restart = "while :; do (sleep 0.01 & sleep 1000) & wait -n; done";
        let tree = Tree::start(&format!("for i in 1 2 3; do setsid bash -c '{restart}' & done; wait"));
        tree.await_count(10);
        desk.kill_all_of(&tree);
    }
}

#[test]
fn two_guards_that_restart_each_other_go() {
    let desk = Desk::open();
    let guard = r#"guard() { while :; do bash -c "$1; guard '$1'" & wait $!; done; }; export -f guard"#;
    for _ in 0..5 {
        let tree = Tree::start(&format!("{guard}; guard 'sleep 0.02' & guard 'sleep 0.03' & guard 'sleep 1'"));
        tree.await_count(8);
        desk.kill_all_of(&tree);
    }
}

#[test]
fn ignoring_signals_helps_against_term_but_not_against_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().join("ready");
    let line =
        format!("trap '' TERM HUP INT; (sleep 1000; :) & touch {}; while :; do sleep 1000; done", ready.display());
    let tree = Tree::start(&line);
    await_that("the traps are set", || ready.exists());
    tree.await_count(4);
    let desk = Desk::open();
    assert_eq!(desk.send(&tree.root, Signal::TERM).signalled, 4);
    assert_eq!(tree.running().len(), 4);
    assert_eq!(desk.kill_all_of(&tree).signalled, 4);
}

#[test]
fn a_stopped_process_can_act_on_term() {
    let mut tree = Tree::start("trap 'exit 7' TERM; kill -STOP $$; while :; do sleep 1000 & wait $!; done");
    await_that("it has stopped itself", || is_stopped(&tree));
    Desk::open().send(&tree.root, Signal::TERM);
    assert_eq!(tree.child.wait().expect("our child").code(), Some(7));
}

#[test]
fn a_program_that_sheds_its_mark_is_found_by_descent_and_session() {
    let tree = Tree::start("(ulimit -R 1000000; setsid sleep 1001; :) & (ulimit -R 1000000; exec sleep 1002) & wait");
    let pid = tree.root.pid;
    await_that("two sleepers without the mark", || sleepers(&tree).len() == 2);
    let shed = sleepers(&tree);
    assert!(shed.iter().all(|seen| seen.key == 0));
    Desk::open().kill_all_of(&tree);
    assert!(!runs(pid) && shed.iter().all(|seen| !runs(seen.pid)));
}

fn sleepers(tree: &Tree) -> Vec<outlive_holder::tree::Seen> {
    let seen = outlive_holder::tree::scan::all().expect("/proc can be read");
    let members = outlive_holder::tree::members(&tree.root, &seen, &[]);
    let sleeps = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n");
    members.into_iter().filter(|seen| seen.key == 0 && sleeps(seen.pid)).collect()
}

#[test]
fn without_a_mark_the_environment_leads_to_daemons() {
    let mut tree = Tree::start_unmarked("(setsid bash -c '(sleep 1000; :) & sleep 1000; :' &)");
    assert!(tree.root.environ_id.is_some(), "the missing mark was noticed");
    tree.reap();
    let found = || {
        let seen = outlive_holder::tree::scan::all().expect("/proc can be read");
        let id = tree.root.environ_id.as_deref().expect("checked above");
        outlive_holder::tree::environ_carriers(id, &seen)
    };
    await_that("four processes with the id", || found().len() == 4);
    let desk = Desk::open();
    let done = desk.kill(&tree.root);
    assert_eq!((done.signalled, done.survivors), (4, 0));
    assert_eq!(found(), [0; 0]);
}

#[test]
fn the_environment_is_left_alone_where_the_mark_holds() {
    let tree = Tree::start("sleep 1000");
    assert_eq!(tree.root.environ_id, None);
    Desk::open().kill_all_of(&tree);
}

#[test]
fn the_neighbour_and_the_exempt_live_on() {
    let line = "sleep 1000 & sleep 1000 & wait";
    let (tree, neighbour) = (Tree::start(line), Tree::start(line));
    tree.await_count(3);
    neighbour.await_count(3);
    let spared = tree.running()[2].pid;
    let desk = Desk::open_with(vec![spared]);
    let done = desk.kill(&tree.root);
    assert_eq!((done.signalled, done.survivors), (2, 0));
    assert_eq!(tree.running().iter().map(|seen| seen.pid).collect::<Vec<_>>(), [spared]);
    assert_eq!(neighbour.running().len(), 3);
    desk.killer.set_exempt(Vec::new());
    desk.kill_all_of(&tree);
}

#[test]
fn a_reused_root_pid_is_not_signalled() {
    let stranger = Tree::start_unmarked("sleep 1000");
    let mut root = stranger.root.clone();
    root.start_time += 1;
    root.environ_id = None;
    let done = Desk::open().kill(&root);
    assert_eq!((done.signalled, done.survivors), (0, 0));
    assert!(runs(root.pid));
}

#[test]
fn many_trees_go_in_the_same_passes() {
    let trees: Vec<Tree> = (0..50).map(|_| Tree::start("sleep 1000 & setsid sleep 1000 & wait")).collect();
    for tree in &trees {
        tree.await_count(3);
    }
    let desk = Desk::open();
    for tree in &trees {
        desk.post(&tree.root, None, Action::Kill);
        desk.post(&tree.root, None, Action::Signal(15));
        desk.post(&tree.root, None, Action::Kill);
    }
    let mut done = Vec::new();
    while done.len() < trees.len() {
        done.extend(desk.next_done());
    }
    assert!(done.iter().all(|done| done.survivors == 0), "{done:?}");
    assert!(trees.iter().all(|tree| tree.running().is_empty()));
}

#[test]
fn signals_for_one_tree_join_and_none_is_dropped() {
    let tree = Tree::start("kill -STOP $$");
    let pid = tree.root.pid;
    await_that("it has stopped itself", || is_stopped(&tree));
    let desk = Desk::open();
    for signal in [Signal::USR1, Signal::USR2, Signal::USR1] {
        desk.post(&tree.root, None, Action::Signal(signal.as_raw()));
    }
    let both = 1 << (Signal::USR1.as_raw() - 1) | 1 << (Signal::USR2.as_raw() - 1);
    await_that("both signals are pending", || pending(pid) & both == both);
}

fn is_stopped(tree: &Tree) -> bool {
    tree.running().iter().any(|seen| seen.pid == tree.root.pid && seen.state == b'T')
}

fn pending(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t"));
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

#[test]
fn a_signal_that_does_not_exist_reaches_nobody() {
    let tree = Tree::start("sleep 1000");
    let desk = Desk::open();
    for number in [-1, 0, 33, 65, i32::MAX] {
        desk.post(&tree.root, None, Action::Signal(number));
        assert_eq!(desk.await_done(tree.key).signalled, 0);
    }
    assert!(runs(tree.root.pid));
}

#[test]
fn killing_what_is_gone_answers_at_once() {
    let mut tree = Tree::start("exit 0");
    tree.reap();
    let done = Desk::open().kill(&tree.root);
    assert_eq!((done.signalled, done.survivors), (0, 0));
}

/// Only the old freezer withstands SIGKILL; where it is missing there is nothing to test with.
#[test]
fn a_stubborn_tree_is_reported_and_delays_no_other() {
    let tree = Tree::start("sleep 1000");
    let Some(freezer) = Freezer::around(tree.root.pid) else {
        return;
    };
    let other = Tree::start("setsid sleep 1000 & wait");
    other.await_count(2);
    let desk = Desk::open();
    let began = Instant::now();
    desk.post(&tree.root, None, Action::Kill);
    desk.post(&other.root, None, Action::Kill);
    // The first answer is for the other one alone.
    assert_eq!(desk.await_done(other.key).survivors, 0);
    assert_eq!(desk.await_done(tree.key).survivors, 1);
    assert!(began.elapsed() >= Duration::from_secs(2));
    drop(freezer);
    desk.kill_all_of(&tree);
}

struct Freezer(std::path::PathBuf);

impl Freezer {
    fn around(pid: i32) -> Option<Self> {
        let path = std::path::PathBuf::from(format!("/sys/fs/cgroup/freezer/outlive-test-{pid}"));
        std::fs::create_dir(&path).ok()?;
        let freezer = Self(path);
        std::fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        std::fs::write(freezer.0.join("freezer.state"), "FROZEN").ok()?;
        let state = || std::fs::read_to_string(freezer.0.join("freezer.state")).unwrap_or_default();
        await_that("it is frozen", || state() == "FROZEN\n");
        Some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let empty = || std::fs::read_to_string(self.0.join("cgroup.procs")).is_ok_and(|text| text.is_empty());
        let until = Instant::now() + Duration::from_secs(5);
        while !empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Runs `kill::inner_everything` in a process of its own, which then has no children but its own.
#[test]
fn everything_below_us_goes_at_shutdown() {
    let this = std::env::current_exe().expect("the test binary");
    let run = Command::new(this).args(["--exact", "kill::inner_everything", "--ignored"]).output();
    let output = run.expect("the test binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by everything_below_us_goes_at_shutdown"]
fn inner_everything() {
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).expect("it is allowed");
    let mut trees = [
        Tree::start("sleep 1000 & wait"),
        Tree::start("(setsid sleep 1000 &)"),
        Tree::start_unmarked("(env -i setsid sleep 1000 &)"),
    ];
    let spared = Tree::start("sleep 1000");
    trees[1].reap();
    trees[2].reap();
    trees[0].await_count(2);
    trees[1].await_count(1);
    let me = std::process::id() as i32;
    let children = || {
        let seen = outlive_holder::tree::scan::all().expect("/proc can be read");
        seen.iter().filter(|seen| seen.ppid == me && !seen.is_dead()).count()
    };
    await_that("all orphans are ours", || children() == 4);
    let root = Root { environ_id: None, ..Root::of(me, 0, "") };
    let desk = Desk::open_with(vec![spared.root.pid]);
    let done = desk.kill(&root);
    assert_eq!((done.signalled, done.survivors), (4, 0));
    assert_eq!(children(), 1);
    assert!(runs(spared.root.pid));
}

/// Runs `kill::inner_no_descriptor_left` in a process of its own: it takes all descriptors away from
/// everybody there.
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
    tree.await_count(4);
    let desk = Desk::open();
    let mut taken = Vec::new();
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(64), maximum: Some(64) },
    )
    .expect("lowering is allowed");
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    let done = desk.kill(&tree.root);
    drop(taken);
    assert_eq!(done.survivors, 0, "{done:?}");
    assert_eq!(tree.running(), []);
    tree.reap();
}
