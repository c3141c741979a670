//! Benchmarks of outlive against the raw kernel baseline and against other servers. Run them with `cargo xtask bench`.
//!
//! `workloads/` defines what is measured, `raw/` is the baseline without a server, `contenders/` has the servers,
//! `interleave` runs the rounds in turn and `report/` prints the results. `guard/` counts instructions instead of time,
//! `prove/` has the measurements of `cargo xtask prove`.

mod api;
mod build_log;
mod child;
mod contenders;
mod daemon;
mod guard;
mod http;
mod incoming;
mod interleave;
mod measure;
mod pattern;
mod procfs;
mod prove;
mod raw;
mod report;
mod scratch;
mod sse;
mod statistics;
mod websocket;
mod workloads;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::interleave::SharedDaemons;
use crate::report::{Row, RunInfo, chart, json, table};
use crate::workloads::Effort;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--rounds N] [--only NAME]... | --guard [--update]
       cargo xtask prove NAME

  --quick      measure less, for a first look
  --rounds N   rounds per workload (default 7, with --quick 3)
  --only NAME  run only this workload and do not save the results; repeatable
  --guard      count instructions and system calls of the hot paths and compare them with guard.toml
  --update     with --guard: write the counts to guard.toml";

const DEFAULT_ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 3;

#[derive(Default)]
struct Options {
    quick: bool,
    rounds: Option<usize>,
    only: Vec<String>,
    guard: bool,
    update: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("child") => child::main(&arguments[1..]).map(|()| true),
        Some("prove") => prove::run(&arguments[1..]),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => parse_options(&arguments)
            .and_then(|options| if options.guard { guard::run(options.update) } else { run_workloads(&options) }),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--quick" => options.quick = true,
            "--guard" => options.guard = true,
            "--update" => options.update = true,
            "--rounds" => {
                let rounds: usize = arguments.next().ok_or("--rounds needs a number")?.parse()?;
                options.rounds = Some(rounds.max(1));
            }
            "--only" => options.only.push(arguments.next().ok_or("--only needs a name")?.to_owned()),
            other => return Err(format!("unknown argument `{other}`\n\n{USAGE}").into()),
        }
    }
    let known: Vec<&str> = workloads::all().iter().map(|workload| workload.name()).collect();
    if let Some(unknown) = options.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown workload `{unknown}`; known are: {}", known.join(", ")).into());
    }
    Ok(options)
}

/// Returns whether every workload ran without a failure.
fn run_workloads(options: &Options) -> Result<bool> {
    let rounds = options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { DEFAULT_ROUNDS });
    let effort = Effort { quick: options.quick, rounds };
    let contenders = contenders::all();
    let names: Vec<&'static str> = contenders.iter().map(|contender| contender.name()).collect();
    let (started, load_before) = (Instant::now(), procfs::load_average());
    println!("{} cores, load average {load_before:.2}\n\n{}", cores(), table::header(&names));

    let mut rows = Vec::new();
    let mut failures = Vec::new();
    let mut shared = SharedDaemons::new(&contenders);
    for mut workload in workloads::all() {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == workload.name()) {
            continue;
        }
        let result = interleave::measure(workload.as_mut(), effort, &mut shared);
        println!("{} ({:.0} s)", result.workload, result.seconds);
        for series in &result.series {
            let row = Row::from_series(series);
            println!("  {}", table::line(&row));
            rows.push((result.workload, row));
        }
        for failure in result.failures {
            println!("  failed: {failure}");
            failures.push(format!("{}: {failure}", result.workload));
        }
    }
    drop(shared);

    let info = RunInfo {
        cores: cores(),
        load_before,
        load_after: procfs::load_average(),
        quick: options.quick,
        rounds,
        seconds: started.elapsed().as_secs_f64(),
        contenders: names,
        taken_at: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let document = json::document(&info, &rows, &failures);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    println!("\n{}", table::footer(&info, &rows));
    // With --only the file would hold a part of the results and look complete.
    if options.only.is_empty() {
        save_results(&document, &chart::draw(&info, &rows))?;
    }
    Ok(failures.is_empty())
}

fn save_results(document: &serde_json::Value, chart: &str) -> Result<()> {
    let directory = package_dir().join("results");
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("latest.json"), format!("{document:#}\n"))?;
    fs::write(directory.join("latest.svg"), chart)?;
    println!("wrote results/latest.json and results/latest.svg");
    Ok(())
}

/// The directory of this package. cargo sets the variable when it runs the binary; the compiled-in value is for a direct
/// call.
fn package_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
