//! A program that prints as fast as it can, with and without history, beside the rate of the disk.

use super::Finding;
use super::server::{Server, sequential_write_rate};
use crate::Result;
use crate::statistics::Spread;

const BYTES: u64 = 3_000_000_000;
const ROUNDS: usize = 3;
const DISK_BYTES: usize = 2_000_000_000;

pub fn measure() -> Result<Vec<Finding>> {
    let (mut off, mut on, mut disk, mut ratios, mut gaps) = (vec![], vec![], vec![], vec![], 0);
    for round in 0..ROUNDS {
        println!(
            "round {} of {ROUNDS}: {} MB without and with history, and the disk alone",
            round + 1,
            BYTES / 1_000_000
        );
        let without = flood(&Server::start(false)?)?;
        let server = Server::start(true)?;
        let with = flood(&server)?;
        gaps += server.gaps()?;
        drop(server);
        disk.push(sequential_write_rate(DISK_BYTES)?);
        ratios.push(100.0 * with / without);
        off.push(without);
        on.push(with);
    }
    let median = |values: &[f64]| Spread::from_values(values).map_or(f64::NAN, |spread| spread.median);
    let keeps_up = median(&disk) >= median(&on);
    let gaps = if keeps_up {
        Finding::at_most("gaps, while the disk is as fast as the program", gaps as f64, 0.0, "")
    } else {
        Finding::note("gaps, the disk is slower than the program", gaps.to_string())
    };
    Ok(vec![
        Finding::note("flood through a pipe, history off", format!("{:.0} MB/s", median(&off))),
        Finding::note("flood through a pipe, history on", format!("{:.0} MB/s", median(&on))),
        Finding::at_least("… of the rate with history off", median(&ratios), 50.0, " %"),
        Finding::note("sequential writes to the same disk, synced", format!("{:.0} MB/s", median(&disk))),
        gaps,
    ])
}

fn flood(server: &Server) -> Result<f64> {
    let (id, seconds) = server.run_child(&["build-log-flood", &BYTES.to_string()])?;
    crate::api::remove(&mut server.daemon.connect()?, &id)?;
    Ok(BYTES as f64 / 1e6 / seconds)
}
