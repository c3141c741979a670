//! A program that prints 100 MB/s for a minute, with and without history.

use super::Finding;
use super::server::Server;
use crate::Result;
use crate::build_log;

const BYTES_PER_SECOND: u64 = 100_000_000;
const SECONDS: u64 = 60;

pub fn measure() -> Result<Vec<Finding>> {
    let bytes = BYTES_PER_SECOND * SECONDS;
    let print = ["build-log", &bytes.to_string(), &BYTES_PER_SECOND.to_string()];
    println!("a program that prints {} MB/s for {SECONDS} s, without and with history", BYTES_PER_SECOND / 1_000_000);
    let without = Server::start(false)?.run_child(&print)?.1;
    let server = Server::start(true)?;
    let (id, with) = server.run_child(&print)?;
    let gaps = server.gaps()?;
    // The limits are enforced now, and not while the output is read.
    server.collect_garbage()?;
    let stored = check_stored(&server, &id, bytes)?;
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    Ok(vec![
        Finding::note("100 MB/s for 60 s, history off", format!("{:.1} MB/s", rate(without))),
        Finding::note("100 MB/s for 60 s, history on", format!("{:.1} MB/s", rate(with))),
        Finding::at_least("… of the rate with history off", 100.0 * without / with, 90.0, " %"),
        Finding::at_most("… gaps", gaps as f64, 0.0, ""),
        Finding::note("… readable in the end, within the limit per process", format!("{:.0} MB", stored as f64 / 1e6)),
    ])
}

/// Reads what the limits have left of a build log and compares every byte. Returns its size.
pub fn check_stored(server: &Server, id: &str, bytes: u64) -> Result<u64> {
    const PIECE_BYTES: u64 = 64_000_000;
    let first = server.daemon.connect()?.call("GET", &format!("/v1/processes/{id}/output?from=0&to=1"), None)?;
    let oldest = if first.status == 200 {
        0
    } else {
        let problem: serde_json::Value = serde_json::from_slice(&first.body)?;
        problem["details"]["oldest"].as_u64().ok_or_else(|| format!("no output: {problem}"))?
    };
    let mut offset = oldest;
    while offset < bytes {
        let piece = server.read(id, offset, bytes.min(offset + PIECE_BYTES))?;
        if piece.is_empty() || !build_log::is_at(offset, &piece) {
            return Err(format!("the {} bytes at {offset} are not those that were printed", piece.len()).into());
        }
        offset += piece.len() as u64;
    }
    Ok(bytes - oldest)
}
