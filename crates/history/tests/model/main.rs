//! The store against a naive model, with faults at every operation of the disk, kills and power losses.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod operations;
mod output;
mod verify;
mod world;

use proptest::prelude::*;

use self::operations::{Crash, DiskFault, Op, Step, step};
use self::world::{Setup, World};

/// Random histories in the default run. `cargo xtask prove history-model` sets the variable.
const DEFAULT_ROUNDS: u32 = 48;

fn rounds() -> u32 {
    std::env::var("OUTLIVE_PROVE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_ROUNDS)
}

fn run(setup: Setup, steps: &[Step]) {
    let mut world = World::new(setup);
    for step in steps {
        world.run(step);
    }
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 2000,
        // The steps of a failure are printed; a file with its seed would not outlive the next change of `step`.
        failure_persistence: None,
        ..ProptestConfig::with_cases(rounds())
    })]

    #[test]
    fn reads_equal_the_model_or_name_the_gap(steps in prop::collection::vec(step(), 1..40)) {
        run(Setup::Unlimited, &steps);
    }

    #[test]
    fn limits_remove_only_the_oldest(steps in prop::collection::vec(step(), 1..40)) {
        run(Setup::Limited, &steps);
    }
}

// Regression: a commit that failed and had happened left output readable whose record was removed.
#[test]
fn output_of_a_removed_record_is_not_readable_after_a_failed_commit() {
    let append = |slot, count| Op::Append { slot, skip: 0, lens: vec![1; count] };
    for at in 0..30 {
        let ops = [
            (Op::Put { slot: 2, ended: true }, None),
            (Op::Enforce { advance_ms: 122 }, None),
            (append(0, 5), None),
            (Op::Enforce { advance_ms: 145 }, None),
            (append(2, 3), None),
            (Op::Enforce { advance_ms: 126 }, Some(DiskFault::ShortWrite(at))),
        ];
        let steps = ops.map(|(op, fault)| Step { op, fault, crash: Crash::Kill });
        run(Setup::Limited, &steps);
    }
}

/// A history that uses everything once.
fn script() -> Vec<Op> {
    let append = |slot, skip, lens: &[u16]| Op::Append { slot, skip, lens: lens.to_vec() };
    vec![
        Op::Put { slot: 0, ended: false },
        append(0, 0, &[900, 30]),
        append(1, 0, &[1500]),
        Op::Sync,
        append(0, 0, &[4000]),
        append(1, 70, &[2000, 1, 1]),
        Op::Seal,
        append(0, 0, &[3000, 200]),
        Op::Put { slot: 1, ended: true },
        append(2, 10, &[2500]),
        Op::Delete { slot: 1 },
        append(0, 0, &[800]),
        Op::Purge,
        append(2, 0, &[4000]),
        Op::Reopen { same_boot: true },
        append(0, 0, &[100]),
        Op::Put { slot: 0, ended: true },
        Op::Seal,
        Op::Delete { slot: 0 },
        Op::Enforce { advance_ms: 5 },
        Op::Purge,
        append(2, 0, &[5000]),
        Op::Sync,
    ]
}

/// Runs the script with a fault at every operation of the disk, or at a sample of them.
fn run_with_each_fault(make_fault: impl Fn(u64) -> DiskFault, make_crash: impl Fn(u64) -> Crash) {
    let stride = if std::env::var_os("OUTLIVE_PROVE_ROUNDS").is_some() { 1 } else { 11 };
    let mut world = World::new(Setup::Unlimited);
    for op in script() {
        world.run(&Step { op, fault: None, crash: Crash::Kill });
    }
    for at in (0..world.disk_operations()).step_by(stride) {
        let mut world = World::new(Setup::Unlimited);
        world.arm(make_fault(at));
        for op in script() {
            world.run(&Step { op, fault: None, crash: make_crash(at) });
        }
        world.finish();
    }
}

#[test]
fn a_full_disk_at_any_operation_keeps_all_stored_output() {
    run_with_each_fault(DiskFault::Full, |_| Crash::Kill);
}

#[test]
fn an_io_error_at_any_operation_keeps_all_stored_output() {
    run_with_each_fault(DiskFault::Io, |_| Crash::Kill);
}

#[test]
fn a_short_write_at_any_operation_keeps_all_stored_output() {
    run_with_each_fault(DiskFault::ShortWrite, |_| Crash::Kill);
}

#[test]
fn a_kill_at_any_operation_keeps_all_stored_output() {
    run_with_each_fault(DiskFault::Stop, |_| Crash::Kill);
}

#[test]
fn a_power_loss_at_any_operation_keeps_all_synced_output() {
    run_with_each_fault(DiskFault::Stop, Crash::PowerLoss);
}
