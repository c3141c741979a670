//! Measurements, run by `cargo test --release -p outlive-holder --test tree -- --ignored --nocapture measure`.

use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, ProcessIndex, scan};

use crate::support::{TestKiller, Tree};

const PROCESSES: usize = 1000;

/// Best and median of 50 runs.
fn measure(mut work: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<_> = (0..50)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort();
    (times[0], times[times.len() / 2])
}

#[test]
#[ignore = "a measurement: run alone, with --nocapture"]
fn measure_a_pass() {
    let line = format!("for i in $(seq {}); do sleep 1000 & done; wait", PROCESSES - 1);
    let tree = Tree::start(&line);
    tree.wait_for_count(PROCESSES);
    let processes = scan::all().expect("/proc can be read");
    println!("processes: {}", processes.len());
    println!("one scan: {:?}", measure(|| drop(scan::all())));
    println!("index: {:?}", measure(|| drop(ProcessIndex::new(&processes, &[]))));
    let index = ProcessIndex::new(&processes, &[]);
    println!("members of the tree of 1,000: {:?}", measure(|| drop(index.members(&tree.root, &[]))));
    let small = Tree::start("sleep 1000 & wait");
    small.wait_for_count(2);
    println!("members of a tree of 2: {:?}", measure(|| drop(index.members(&small.root, &[]))));
    let killer = TestKiller::start();
    let started = Instant::now();
    killer.kill_and_check(&small);
    println!("kill of a tree of 2 among them: {:?}", started.elapsed());
    let started = Instant::now();
    let job = killer.submit(&tree.root, None, Action::Signal(18));
    killer.wait_for_result(job);
    println!("signal to a tree of 1,000: {:?}", started.elapsed());
    let started = Instant::now();
    let result = killer.kill(&tree.root);
    println!("kill of a tree of 1,000: {:?} {result:?}", started.elapsed());
    assert_eq!(tree.running(), []);
}
