//! Counts instead of times: how many instructions and system calls the server spends on one turn of each hot path.
//!
//! Counts are the same on a busy machine and on an idle one, so they can be compared with a budget that is checked in.
//! They are taken by callgrind from the shipped binary as it is (counted_server.rs); the hardware's own counters are
//! not there in most virtual machines.

mod budget;
mod callgrind;
mod counted_server;
mod hot_paths;

use crate::Result;
use budget::Budget;
pub use callgrind::execute as execute_under_callgrind;

/// One turn of a hot path.
#[derive(Clone, Copy)]
struct Cost {
    instructions: f64,
    system_calls: f64,
}

/// Counts, compares, and says whether all is within the budget.
pub fn run(update: bool) -> Result<bool> {
    callgrind::check_installed()?;
    let measured = hot_paths::count()?;
    if update {
        Budget::write(&measured)?;
        println!("guard.toml is written");
    }
    let budget = Budget::read()?;
    println!("{:<34} {:>13} {:>13} {:>8}", "in the server, per turn", "counted", "budget", "");
    let mut is_within = true;
    let mut line = |name: &str, counted: f64, allowed: Option<f64>, tolerance: f64| {
        let (text, is_good) = match allowed {
            Some(allowed) => {
                let excess = (counted / allowed - 1.0) * 100.0;
                (format!("{allowed:>13.1} {excess:>+7.1} %"), excess <= tolerance)
            }
            None => (format!("{:>13} {:>9}", "none", ""), false),
        };
        println!("{name:<34} {counted:>13.1} {text}{}", if is_good { "" } else { "  OVER" });
        is_within &= is_good;
    };
    for (name, cost) in &measured {
        let allowed = budget.cost(name);
        let instructions = allowed.map(|cost| cost.instructions);
        line(&format!("{name} instructions"), cost.instructions, instructions, budget.instruction_tolerance);
        let calls = allowed.map(|cost| cost.system_calls);
        line(&format!("{name} system calls"), cost.system_calls, calls, budget.system_call_tolerance);
    }
    // Whatever the budget says: what is held must not be paid for by what is started.
    let of = |name: &str| measured.iter().find(|(other, _)| *other == name).map(|(_, cost)| *cost);
    if let (Some(without), Some(with)) = (of(hot_paths::RUN_TRUE), of(hot_paths::RUN_TRUE_WITH_LOGS)) {
        let name = "run_true with / without 1 GB";
        line(name, with.instructions, Some(without.instructions), budget.instruction_tolerance);
    }
    println!("{}", if is_within { "within the budget" } else { "over the budget" });
    Ok(is_within)
}
