//! Real cgroups, on machines that permit them.

use std::path::Path;
use std::time::Instant;

use outlive_holder::tree::{Action, Cgroups, cgroup};

use crate::support::{TestKiller, Tree, is_running, wait_until};

const DAEMON: &str = "(env -i setsid sleep 1000 &); (env -i setsid /bin/bash -c 'sleep 1000; :' &)";

/// Daemons that only their cgroup connects to their root: no tag, no environment, no parent, no session.
fn start_daemons(path: &Path) -> (Tree, Vec<i32>) {
    let mut tree = Tree::start_in_cgroup(cgroup::procs_fd(path).expect("cgroup.procs"), DAEMON);
    tree.root.environ_id = None;
    tree.reap();
    wait_until("three daemons in the cgroup", || cgroup::procs(path).len() == 3);
    let pids = cgroup::procs(path);
    (tree, pids)
}

fn wait_until_empty(path: &Path) {
    wait_until("the cgroup is empty", || !cgroup::is_populated(path).expect("cgroup.events"));
}

#[test]
fn processes_connected_only_by_their_cgroup_are_killed() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_kill").expect("a cgroup");
    assert!(!cgroup::is_populated(&path).expect("cgroup.events"));
    let (tree, pids) = start_daemons(&path);
    assert!(cgroup::is_populated(&path).expect("cgroup.events"));
    assert_eq!(cgroup::remove(&path).expect_err("not empty").raw_os_error(), Some(libc::EBUSY));

    let killer = TestKiller::start();
    let job = killer.submit(&tree.root, Some(path.clone()), Action::Kill);
    assert_eq!(killer.wait_for_result(job).survivors, 0);
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    wait_until_empty(&path);
    cgroup::remove(&path).expect("empty now");
    assert!(!path.exists());
    cgroup::remove(&path).expect("a missing cgroup is no error");
}

#[test]
fn a_signal_reaches_the_whole_cgroup() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_signal").expect("a cgroup");
    let (tree, pids) = start_daemons(&path);
    let killer = TestKiller::start();
    let job = killer.submit(&tree.root, Some(path.clone()), Action::Signal(15));
    assert_eq!(killer.wait_for_result(job).signalled, 3);
    wait_until("all have ended", || pids.iter().all(|pid| !is_running(*pid)));
    wait_until_empty(&path);
    cgroup::remove(&path).expect("empty now");
}

#[test]
fn nested_cgroups_of_a_program_are_killed_and_removed() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_nested").expect("a cgroup");
    let inner = path.join("a/b");
    std::fs::create_dir_all(&inner).expect("nested cgroups");
    let tree = Tree::start_in_cgroup(cgroup::procs_fd(&inner).expect("cgroup.procs"), "sleep 1000");
    assert_eq!(cgroup::procs(&path), [tree.root.pid]);
    let killer = TestKiller::start();
    let job = killer.submit(&tree.root, Some(path.clone()), Action::Kill);
    assert_eq!(killer.wait_for_result(job).survivors, 0);
    wait_until_empty(&path);
    cgroup::remove(&path).expect("empty now");
    assert!(!path.exists());
}

#[test]
fn a_missing_cgroup_does_not_prevent_the_kill() {
    let tree = Tree::start("setsid sleep 1000 & wait");
    tree.wait_for_count(2);
    let killer = TestKiller::start();
    let job = killer.submit(&tree.root, Some("/nonexistent/cgroup".into()), Action::Kill);
    assert_eq!(killer.wait_for_result(job).survivors, 0);
    assert_eq!(tree.running(), []);
    assert!(cgroup::is_populated(Path::new("/nonexistent/cgroup")).is_err());
}

#[test]
fn the_name_of_an_empty_cgroup_can_be_reused() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_again").expect("a cgroup");
    assert_eq!(cgroups.create("proc_again").expect("empty, so replaced"), path);
    cgroup::remove(&path).expect("empty");
}

#[test]
fn leftovers_of_a_dead_holder_are_removed() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let sample = cgroups.create("proc_sample").expect("a cgroup");
    let parent = sample.ancestors().nth(2).expect("above the base");
    let dead_pid = std::process::Command::new("true").spawn().and_then(|mut child| {
        child.wait()?;
        Ok(child.id())
    });
    let leftover = parent.join(format!("outlive-{}", dead_pid.expect("true runs")));
    std::fs::create_dir_all(leftover.join("proc_old")).expect("a leftover");
    drop(Cgroups::probe());
    assert!(!leftover.exists());
    cgroup::remove(&sample).expect("empty");
}

#[test]
#[ignore = "a measurement: run alone, with --nocapture"]
fn measure_cgroups() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let rounds = 200;
    let started = Instant::now();
    for _ in 0..rounds {
        let path = cgroups.create("proc_measure").expect("a cgroup");
        std::fs::remove_dir(&path).expect("empty");
    }
    println!("mkdir + rmdir: {:?}", started.elapsed() / rounds);
    let path = cgroups.create("proc_measure").expect("a cgroup");
    let started = Instant::now();
    for _ in 0..rounds {
        drop(cgroup::procs_fd(&path).expect("cgroup.procs"));
    }
    println!("open cgroup.procs: {:?}", started.elapsed() / rounds);
    let mut tree = Tree::start("exec sleep 1000");
    let pid = tree.root.pid.to_string();
    let other = cgroups.create("proc_other").expect("a cgroup");
    let mut slowest = std::time::Duration::ZERO;
    let mut total = std::time::Duration::ZERO;
    for _ in 0..rounds / 2 {
        for cgroup in [&path, &other] {
            let started = Instant::now();
            std::fs::write(cgroup.join("cgroup.procs"), &pid).expect("it moves");
            total += started.elapsed();
            slowest = slowest.max(started.elapsed());
        }
    }
    println!("moving a process in: {:?}, slowest {slowest:?}", total / rounds);
    tree.child.kill().expect("our child");
    tree.reap();
    wait_until_empty(&path);
    wait_until_empty(&other);
    cgroup::remove(&path).expect("empty");
    cgroup::remove(&other).expect("empty");
}
