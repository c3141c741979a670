//! How close outlive comes to what the kernel allows, and how it compares with others. Run it by `cargo xtask bench`.
//!
//! `workloads/` says what is measured, `raw/` how by the kernel alone, `contenders/` whom, `interleave` in which
//! order, `report/` what came of it. `guard/` counts instead of timing.

mod api;
mod child;
mod contenders;
mod daemon;
mod guard;
mod http;
mod incoming;
mod interleave;
mod measure;
mod pattern;
mod proc_figures;
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

use crate::interleave::Shared;
use crate::report::{Row, Setting, chart, json, table};
use crate::workloads::Effort;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--rounds N] [--only NAME]... | --guard [--update]

  --quick      less of everything, for a first look
  --rounds N   rounds per workload (7, quick: 3)
  --only NAME  only this workload; the results are not kept
  --guard      no timing: count what the hot paths do, and compare with guard.toml
  --update     write what was counted into guard.toml";

const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 3;

#[derive(Default)]
struct Wish {
    quick: bool,
    rounds: Option<usize>,
    only: Vec<String>,
    guard: bool,
    update: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("child") => child::main(&arguments[1..]).map(|()| true),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => wish(&arguments).and_then(|wish| if wish.guard { guard::run(wish.update) } else { bench(&wish) }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wish(arguments: &[String]) -> Result<Wish> {
    let mut wish = Wish::default();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--quick" => wish.quick = true,
            "--guard" => wish.guard = true,
            "--update" => wish.update = true,
            "--rounds" => wish.rounds = Some(words.next().ok_or("--rounds needs a number")?.parse::<usize>()?.max(1)),
            "--only" => wish.only.push(words.next().ok_or("--only needs a name")?.to_owned()),
            other => return Err(format!("unknown argument `{other}`\n\n{USAGE}").into()),
        }
    }
    let known: Vec<&str> = workloads::all().iter().map(|workload| workload.name()).collect();
    if let Some(unknown) = wish.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no workload `{unknown}`; there are: {}", known.join(", ")).into());
    }
    Ok(wish)
}

fn bench(wish: &Wish) -> Result<bool> {
    let rounds = wish.rounds.unwrap_or(if wish.quick { QUICK_ROUNDS } else { ROUNDS });
    let effort = Effort { quick: wish.quick, rounds };
    let contenders = contenders::all();
    let names: Vec<&'static str> = contenders.iter().map(|contender| contender.name()).collect();
    let (started, load_before) = (Instant::now(), proc_figures::load_average());
    println!("{} cores, load average {load_before:.2}\n\n{}", cores(), table::header(&names));

    let mut rows = Vec::new();
    let mut failures = Vec::new();
    let mut shared = Shared::new(&contenders);
    for mut workload in workloads::all() {
        if !wish.only.is_empty() && !wish.only.iter().any(|name| name == workload.name()) {
            continue;
        }
        let measured = interleave::measure(workload.as_mut(), effort, &mut shared);
        println!("{} ({:.0} s)", measured.workload, measured.seconds);
        for series in &measured.series {
            let row = Row::of(series);
            println!("  {}", table::line(&row));
            rows.push((measured.workload, row));
        }
        for failure in measured.failures {
            println!("  failed: {failure}");
            failures.push(format!("{}: {failure}", measured.workload));
        }
    }
    drop(shared);

    let setting = Setting {
        cores: cores(),
        load_before,
        load_after: proc_figures::load_average(),
        quick: wish.quick,
        rounds,
        seconds: started.elapsed().as_secs_f64(),
        contenders: names,
        taken_at: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let document = json::document(&setting, &rows, &failures);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    println!("\n{}", table::footer(&setting, &rows));
    // A part of the results would look like all of them.
    if wish.only.is_empty() {
        let folder = package_folder().join("results");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("latest.json"), format!("{document:#}\n"))?;
        fs::write(folder.join("latest.svg"), chart::draw(&setting, &rows))?;
        println!("results/latest.json and results/latest.svg are written");
    }
    Ok(failures.is_empty())
}

/// Where this package is: cargo says so when it runs us; the compiled-in value serves a direct call.
fn package_folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
