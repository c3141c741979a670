//! With real cgroups, where this machine lets us make them.

use std::path::Path;
use std::time::Instant;

use outlive_holder::tree::{Action, Cgroups, cgroup};

use crate::support::{Desk, Tree, await_that, runs};

const DAEMON: &str = "(env -i setsid sleep 1000 &); (env -i setsid /bin/bash -c 'sleep 1000; :' &)";

/// A daemon that only its cgroup still ties to its root: no mark, no environment, no parent, no session.
fn start_daemon(path: &Path) -> (Tree, Vec<i32>) {
    let mut tree = Tree::start_inside(cgroup::procs_fd(path).expect("cgroup.procs"), DAEMON);
    tree.root.environ_id = None;
    tree.reap();
    await_that("three daemons in the cgroup", || cgroup::procs(path).len() == 3);
    let pids = cgroup::procs(path);
    (tree, pids)
}

fn await_empty(path: &Path) {
    await_that("the cgroup is empty", || !cgroup::is_populated(path).expect("cgroup.events"));
}

#[test]
fn a_tree_in_a_cgroup_goes_without_any_other_tie() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_kill").expect("a cgroup");
    assert!(!cgroup::is_populated(&path).expect("cgroup.events"));
    let (tree, pids) = start_daemon(&path);
    assert!(cgroup::is_populated(&path).expect("cgroup.events"));
    assert_eq!(cgroup::remove(&path).expect_err("not empty").raw_os_error(), Some(libc::EBUSY));

    let desk = Desk::open();
    desk.post(&tree.root, Some(path.clone()), Action::Kill);
    assert_eq!(desk.await_done(tree.key).survivors, 0);
    assert!(pids.iter().all(|pid| !runs(*pid)));
    await_empty(&path);
    assert_eq!(cgroup::oom_kills(&path), 0);
    cgroup::remove(&path).expect("empty now");
    assert!(!path.exists());
    cgroup::remove(&path).expect("gone already is fine");
}

#[test]
fn a_signal_reaches_the_whole_cgroup() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_signal").expect("a cgroup");
    let (tree, pids) = start_daemon(&path);
    let desk = Desk::open();
    desk.post(&tree.root, Some(path.clone()), Action::Signal(15));
    assert_eq!(desk.await_done(tree.key).signalled, 3);
    await_that("all have ended", || pids.iter().all(|pid| !runs(*pid)));
    await_empty(&path);
    cgroup::remove(&path).expect("empty now");
}

#[test]
fn cgroups_that_a_program_made_inside_are_taken_along_and_removed() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_nested").expect("a cgroup");
    let inner = path.join("a/b");
    std::fs::create_dir_all(&inner).expect("nested cgroups");
    let tree = Tree::start_inside(cgroup::procs_fd(&inner).expect("cgroup.procs"), "sleep 1000");
    assert_eq!(cgroup::procs(&path), [tree.root.pid]);
    let desk = Desk::open();
    desk.post(&tree.root, Some(path.clone()), Action::Kill);
    assert_eq!(desk.await_done(tree.key).survivors, 0);
    await_empty(&path);
    cgroup::remove(&path).expect("empty now");
    assert!(!path.exists());
}

#[test]
fn a_missing_cgroup_does_not_hinder_the_kill() {
    let tree = Tree::start("setsid sleep 1000 & wait");
    tree.await_count(2);
    let desk = Desk::open();
    desk.post(&tree.root, Some("/nonexistent/cgroup".into()), Action::Kill);
    assert_eq!(desk.await_done(tree.key).survivors, 0);
    assert_eq!(tree.running(), []);
    assert_eq!(cgroup::oom_kills(Path::new("/nonexistent/cgroup")), 0);
    assert!(cgroup::is_populated(Path::new("/nonexistent/cgroup")).is_err());
}

#[test]
fn a_name_can_be_used_again_when_its_cgroup_is_empty() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let path = cgroups.create("proc_again").expect("a cgroup");
    assert_eq!(cgroups.create("proc_again").expect("empty, so replaced"), path);
    cgroup::remove(&path).expect("empty");
}

#[test]
fn what_a_dead_holder_left_is_cleared_away() {
    let Some(cgroups) = Cgroups::probe() else {
        return;
    };
    let sample = cgroups.create("proc_sample").expect("a cgroup");
    let place = sample.ancestors().nth(2).expect("above the base");
    let gone = std::process::Command::new("true").spawn().and_then(|mut child| {
        child.wait()?;
        Ok(child.id())
    });
    let leftover = place.join(format!("outlive-{}", gone.expect("true runs")));
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
    let began = Instant::now();
    for _ in 0..rounds {
        let path = cgroups.create("proc_measure").expect("a cgroup");
        std::fs::remove_dir(&path).expect("empty");
    }
    println!("mkdir + rmdir: {:?}", began.elapsed() / rounds);
    let path = cgroups.create("proc_measure").expect("a cgroup");
    let began = Instant::now();
    for _ in 0..rounds {
        drop(cgroup::procs_fd(&path).expect("cgroup.procs"));
    }
    println!("open cgroup.procs: {:?}", began.elapsed() / rounds);
    let mut tree = Tree::start("exec sleep 1000");
    let pid = tree.root.pid.to_string();
    let other = cgroups.create("proc_other").expect("a cgroup");
    let mut slowest = std::time::Duration::ZERO;
    let mut total = std::time::Duration::ZERO;
    for _ in 0..rounds / 2 {
        for place in [&path, &other] {
            let began = Instant::now();
            std::fs::write(place.join("cgroup.procs"), &pid).expect("it moves");
            total += began.elapsed();
            slowest = slowest.max(began.elapsed());
        }
    }
    println!("moving a process in: {:?}, slowest {slowest:?}", total / rounds);
    tree.child.kill().expect("our child");
    tree.reap();
    await_empty(&path);
    await_empty(&other);
    cgroup::remove(&path).expect("empty");
    cgroup::remove(&other).expect("empty");
}
