//! `--guard`: counts the instructions and system calls of the server per iteration of each hot path.
//!
//! Counts are the same on a busy machine and on an idle one, so they can be compared with a checked-in budget.
//! callgrind takes them from the unmodified release binary (`counted_server.rs`). Most virtual machines have no
//! hardware counters.

mod budget;
mod callgrind;
mod counted_server;
mod hot_paths;

use crate::Result;
use budget::Budget;
pub use callgrind::execute as execute_under_callgrind;

/// The cost of one iteration of a hot path.
#[derive(Clone, Copy)]
struct Cost {
    instructions: f64,
    system_calls: f64,
}

/// Counts all hot paths and prints them beside the budget. Returns whether every count is within the budget.
pub fn run(update: bool) -> Result<bool> {
    callgrind::check_installed()?;
    let measured = hot_paths::count()?;
    if update {
        Budget::write(&measured)?;
        println!("wrote guard.toml");
    }
    let budget = Budget::read()?;
    println!("{:<34} {:>13} {:>13} {:>8}", "in the server, per iteration", "counted", "budget", "");
    let mut is_within = true;
    let mut compare = |name: &str, counted: f64, allowed: Option<f64>, tolerance: f64| {
        let (text, is_ok) = match allowed {
            Some(allowed) => {
                let excess = (counted / allowed - 1.0) * 100.0;
                (format!("{allowed:>13.1} {excess:>+7.1} %"), excess <= tolerance)
            }
            None => (format!("{:>13} {:>9}", "none", ""), false),
        };
        println!("{name:<34} {counted:>13.1} {text}{}", if is_ok { "" } else { "  OVER" });
        is_within &= is_ok;
    };
    for (name, cost) in &measured {
        let allowed = budget.cost(name);
        let instructions = allowed.map(|cost| cost.instructions);
        compare(&format!("{name} instructions"), cost.instructions, instructions, budget.instruction_tolerance);
        let calls = allowed.map(|cost| cost.system_calls);
        compare(&format!("{name} system calls"), cost.system_calls, calls, budget.system_call_tolerance);
    }
    // Independent of the budget: neither the logs that the holder keeps nor history make a run or an echo more expensive.
    let find = |name: &str| measured.iter().find(|(other, _)| *other == name).map(|(_, cost)| *cost);
    for (name, without, with) in [
        ("run_true with / without 1 GB", hot_paths::RUN_TRUE, hot_paths::RUN_TRUE_WITH_LOGS),
        ("run_true with / without history", hot_paths::RUN_TRUE, hot_paths::RUN_TRUE_WITH_HISTORY),
        ("echo with / without history", hot_paths::ECHO, hot_paths::ECHO_WITH_HISTORY),
    ] {
        if let (Some(without), Some(with)) = (find(without), find(with)) {
            compare(name, with.instructions, Some(without.instructions), budget.instruction_tolerance);
        }
    }
    println!("{}", if is_within { "within the budget" } else { "over the budget" });
    Ok(is_within)
}
