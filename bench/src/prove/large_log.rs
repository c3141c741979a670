//! Reading a log of 1 GB, and what real text takes on disk.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Finding;
use super::server::Server;
use crate::Result;
use crate::build_log;
use crate::contenders::{Contender, Outlive};
use crate::statistics::quantile_us;

const LOG_BYTES: u64 = 1_000_000_000;
const BYTES_PER_SECOND: u64 = 100_000_000;
const PIECE_BYTES: u64 = 1_000_000;
const READS: usize = 100;
const CLI_CALLS: usize = 20;

pub fn measure() -> Result<Vec<Finding>> {
    println!("a build log of {} MB", LOG_BYTES / 1_000_000);
    let server = Server::start(true)?;
    let (id, _) = server.run_child(&["build-log", &LOG_BYTES.to_string(), &BYTES_PER_SECOND.to_string()])?;
    server.collect_garbage()?;
    let stored = super::steady::check_stored(&server, &id, LOG_BYTES)?;
    let (_, disk) = server.disk_use()?;
    let times = random_reads(&server, &id)?;
    let tail = time_cli(&server, &["logs", "--tail", "100", &id], false)?;
    let first = time_cli(&server, &["logs", &id], true)?;
    let milliseconds = |times: &[Duration], fraction| quantile_us(times, fraction) / 1e3;
    let mut findings = vec![
        Finding::at_least("1 GB build log, readable of it", 100.0 * stored as f64 / LOG_BYTES as f64, 100.0, " %"),
        Finding::note("… on disk", percent(disk, LOG_BYTES)),
        Finding::note("… 1 MB by offset, p50 of 100", format!("{:.1} ms", milliseconds(&times, 0.5))),
        Finding::at_most("… 1 MB by offset, p99 of 100", milliseconds(&times, 0.99), 20.0, " ms"),
        Finding::at_most("… `outlive logs --tail 100`, median", milliseconds(&tail, 0.5), 20.0, " ms"),
        Finding::note("… `outlive logs`, to the first line, median", format!("{:.1} ms", milliseconds(&first, 0.5))),
    ];
    drop(server);
    findings.extend(corpus()?);
    Ok(findings)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

fn random_reads(server: &Server, id: &str) -> Result<Vec<Duration>> {
    let mut connection = server.daemon.connect()?;
    let mut times = Vec::new();
    for number in 1..=READS as u64 {
        // Every part of the log, in an order without a pattern.
        let from = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (LOG_BYTES - PIECE_BYTES);
        let path = format!("/v1/processes/{id}/output?from={from}&to={}", from + PIECE_BYTES);
        let started = Instant::now();
        let bytes = connection.expect("GET", &path, None)?;
        times.push(started.elapsed());
        if bytes.len() as u64 != PIECE_BYTES || !build_log::is_at(from, &bytes) {
            return Err(format!("{} wrong bytes at {from}", bytes.len()).into());
        }
    }
    Ok(times)
}

/// Runs the CLI to its end, or until its first line.
fn time_cli(server: &Server, arguments: &[&str], first_line: bool) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..CLI_CALLS {
        let started = Instant::now();
        let mut child = Command::new(Outlive.program()?)
            .args(arguments)
            .args(["--url", &format!("http://{}", server.daemon.address), "--token", &server.daemon.token])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("the CLI has no stdout")?);
        let mut line = Vec::new();
        output.read_until(b'\n', &mut line)?;
        if !first_line {
            std::io::copy(&mut output, &mut std::io::sink())?;
        }
        times.push(started.elapsed());
        drop(output);
        let _ = child.kill();
        child.wait()?;
        if first_line && !build_log::is_at(0, &line) {
            return Err(format!("the first line is {:?}", String::from_utf8_lossy(&line)).into());
        }
    }
    Ok(times)
}

/// The named corpus: `git log -p` of this repository, which every checkout has.
fn corpus() -> Result<Vec<Finding>> {
    println!("the corpus: git log -p of this repository");
    let server = Server::start(true)?;
    let directory = crate::package_dir();
    let directory = directory.to_str().ok_or("the path of the repository is not UTF-8")?;
    let (id, _) = server.run("git", &["-C", directory, "--no-pager", "log", "-p"])?;
    let body = server.daemon.connect()?.expect("GET", &format!("/v1/processes/{id}"), None)?;
    let process: serde_json::Value = serde_json::from_slice(&body)?;
    let bytes = process["outputEnd"].as_u64().ok_or("the process has no outputEnd")?;
    server.collect_garbage()?;
    if server.read(&id, 0, bytes)?.len() as u64 != bytes {
        return Err("the corpus is not stored whole".into());
    }
    let (_, disk) = server.disk_use()?;
    let name = format!("corpus `git log -p`, {} MB: on disk", bytes / 1_000_000);
    Ok(vec![Finding::at_most(name, 100.0 * disk as f64 / bytes as f64, 35.0, " %")])
}
