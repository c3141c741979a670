//! Memory of server and holder with and without history: idle, at the peak of the load of the `memory` workload, and
//! after it.

use std::thread;
use std::time::Duration;

use super::Finding;
use super::server::Server;
use crate::Result;
use crate::contenders::{Contender, Outlive};
use crate::procfs;
use crate::statistics::Spread;
use crate::workloads::{Effort, memory};

const ROUNDS: usize = 3;
const SETTLE_TIME: Duration = Duration::from_secs(3);

pub fn measure() -> Result<Vec<Finding>> {
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        println!("memory, round {} of {ROUNDS}", round + 1);
        for (with_history, samples) in [false, true].into_iter().zip(&mut samples) {
            samples.push(sample(with_history)?);
        }
    }
    let median = |with_history: usize, field: usize| {
        let values: Vec<f64> = samples[with_history].iter().map(|sample: &[f64; 3]| sample[field]).collect();
        Spread::from_values(&values).map_or(f64::NAN, |spread| spread.median)
    };
    let mut findings = Vec::new();
    for (field, name) in ["idle", "at its peak under load", "after the load"].into_iter().enumerate() {
        let (off, on) = (median(0, field), median(1, field));
        let both = format!("{:.1} → {:.1} MB", off / 1e6, on / 1e6);
        findings.push(Finding::note(format!("memory {name}, history off → on"), both));
        findings.push(Finding::at_most("… times", on / off, 1.1, " ×"));
    }
    Ok(findings)
}

/// Idle, peak and after.
fn sample(with_history: bool) -> Result<[f64; 3]> {
    let server = Server::start(with_history)?;
    let pids = Outlive.pids(&server.daemon)?;
    thread::sleep(SETTLE_TIME);
    let idle = memory::memory_without_logs(&pids)?;
    procfs::reset_peak(pids.server)?;
    memory::load(Effort { quick: false, rounds: 1 }, &Outlive, &server.daemon)?;
    let peak = procfs::memory(pids.server)?.peak;
    thread::sleep(SETTLE_TIME);
    let after = memory::memory_without_logs(&pids)?;
    Ok([idle, peak, after].map(|bytes| bytes as f64))
}
