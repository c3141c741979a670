//! Measurements, not checks: `cargo test --release -p outlive-holder --test tree -- --ignored --nocapture
//! measure`.

use std::time::{Duration, Instant};

use outlive_holder::tree::{Action, Forest, scan};

use crate::support::{Desk, Tree};

const PROCESSES: usize = 1000;

/// Best and median of 50 runs.
fn measure(mut work: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<_> = (0..50)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
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
    tree.await_count(PROCESSES);
    let seen = scan::all().expect("/proc can be read");
    println!("processes: {}", seen.len());
    println!("one scan: {:?}", measure(|| drop(scan::all())));
    println!("index: {:?}", measure(|| drop(Forest::new(&seen, &[]))));
    let forest = Forest::new(&seen, &[]);
    println!("members of the tree of 1,000: {:?}", measure(|| drop(forest.members(&tree.root, &[]))));
    let small = Tree::start("sleep 1000 & wait");
    small.await_count(2);
    println!("members of a tree of 2: {:?}", measure(|| drop(forest.members(&small.root, &[]))));
    let desk = Desk::open();
    let began = Instant::now();
    desk.kill_all_of(&small);
    println!("kill of a tree of 2 among them, until nothing is left: {:?}", began.elapsed());
    let began = Instant::now();
    desk.post(&tree.root, None, Action::Signal(18));
    desk.await_done(tree.key);
    println!("signal to a tree of 1,000: {:?}", began.elapsed());
    let began = Instant::now();
    let done = desk.kill(&tree.root);
    println!("kill of a tree of 1,000: {:?} {done:?}", began.elapsed());
    assert_eq!(tree.running(), []);
}
