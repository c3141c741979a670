//! The death of holder and server together, and of the machine: a new outlive with the same history directory lists every
//! process once, with an exact prefix of its output.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup, eventually};
use crate::load::random_below;
use crate::mounts::Mounted;
use crate::numbered_output::assert_bytes;

/// Rounds of the default run. `cargo xtask prove history-crash` does more.
const DEFAULT_ROUNDS: u32 = 4;

/// Output is synced at most this long after it was printed …
const MAX_UNSYNCED_TIME: Duration = Duration::from_secs(2);
/// … or when this much is unsynced.
const MAX_UNSYNCED_BYTES: u64 = 4 << 20;

/// A twentieth of it is the limit of the history, which must hold all rounds.
const DISK_BYTES: u64 = 16 << 30;

/// Prints numbered lines at a pace, and reports the number printed so far in a file that does not lie on the disk.
const REPORTING_PRINTER: &str = r#"
import os, sys, time
report, rate, first, printed = sys.argv[1], float(sys.argv[2]), 100_000_000, 0
times = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
started = time.monotonic()
while True:
    text = b"".join(b"%d\n" % (first + number) for number in range(printed // 10, printed // 10 + 1000))
    while text: text = text[os.write(1, text):]
    printed += 10_000
    os.write(times, b"%d %d\n" % (time.monotonic() * 1000, printed))
    early = printed / rate - (time.monotonic() - started)
    if early > 0: time.sleep(early)
"#;

struct Program {
    id: String,
    report: std::path::PathBuf,
}

fn rounds() -> u32 {
    std::env::var("OUTLIVE_PROVE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_ROUNDS)
}

fn serve(directory: &Path) -> Outlive {
    Outlive::start_with(Setup { history: Some(directory.to_owned()), ..Setup::default() })
}

/// Three programs with different rates, beside short ones.
fn start_programs(outlive: &Outlive, reports: &Path, round: u32) -> Vec<Program> {
    [20_000_u64, 1_000_000, 8_000_000]
        .into_iter()
        .map(|rate| {
            let report = reports.join(format!("{round}-{rate}"));
            let arguments = json!(["-c", REPORTING_PRINTER, report, rate.to_string()]);
            let id = outlive.start_process(json!({ "command": "python3", "args": arguments }));
            Program { id, report }
        })
        .collect()
}

/// Milliseconds of the monotonic clock, as the programs report them.
fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// How much the program had printed when `at_ms` had come.
fn printed_until(report: &Path, at_ms: u64) -> u64 {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let mut printed = 0;
    for (time, bytes) in &mut lines {
        let (Ok(time), Ok(bytes)) = (time.parse::<u64>(), bytes.parse::<u64>()) else { break };
        if time > at_ms {
            break;
        }
        printed = bytes;
    }
    printed
}

/// Checks one program in the list of a new outlive; returns how many bytes are stored, and how many of its tail are not.
fn assert_exact_prefix(outlive: &Outlive, listed: &[Value], program: &Program, died_ms: u64) -> (u64, u64) {
    let found: Vec<&Value> = listed.iter().filter(|process| process["id"] == program.id.as_str()).collect();
    let promised = printed_until(&program.report, died_ms.saturating_sub(MAX_UNSYNCED_TIME.as_millis() as u64 + 500));
    if found.is_empty() {
        assert_eq!(promised, 0, "{} is not listed", program.id);
        return (0, 0);
    }
    assert_eq!(found.len(), 1, "{} is listed {} times", program.id, found.len());
    assert_eq!(found[0]["status"], "lost", "{}", found[0]);
    let response = outlive.get(&format!("/v1/processes/{}/output?from=0", program.id));
    assert_eq!(response.status, 200, "{}", response.text());
    assert_bytes(0, &response.body);
    let stored = response.body.len() as u64;
    let all = printed_until(&program.report, died_ms);
    assert!(
        stored >= promised || all.saturating_sub(stored) <= MAX_UNSYNCED_BYTES,
        "{}: {stored} of {all} bytes, {promised} of them older than {MAX_UNSYNCED_TIME:?}",
        program.id
    );
    (stored, all.saturating_sub(stored))
}

/// The output of the first and the last programs of earlier rounds stays what it was.
fn assert_same_as_before(outlive: &Outlive, before: &[(String, u64)]) {
    for (id, length) in before.iter().take(3).chain(before.iter().rev().take(3)).filter(|(_, length)| *length > 0) {
        let response = outlive.get(&format!("/v1/processes/{id}/output?from=0"));
        assert_eq!((response.status, response.body.len() as u64), (200, *length), "{id}: {}", response.code());
        assert_bytes(0, &response.body);
    }
}

/// `lose_power` is called at a random moment, when everything still runs.
fn run_rounds(directory: &Path, lose_power: impl Fn(), restore_power: impl Fn()) {
    let reports = tempfile::tempdir().unwrap();
    let mut known: Vec<(String, u64)> = Vec::new();
    let (mut largest, started) = (0, Instant::now());
    for round in 0..rounds() {
        let outlive = serve(directory);
        let programs = start_programs(&outlive, reports.path(), round);
        eventually("all programs print", || programs.iter().all(|program| program.report.exists()).then_some(()));
        // The random moment is the point of the test.
        thread::park_timeout(Duration::from_micros(random_below(3_000_000)));
        let died_ms = monotonic_ms();
        lose_power();
        outlive.kill_everything();
        restore_power();

        let outlive = serve(directory);
        let listed = outlive.get("/v1/processes?boot=all&all=true").json["processes"].as_array().unwrap().clone();
        assert_same_as_before(&outlive, &known);
        for program in programs {
            let (stored, missing) = assert_exact_prefix(&outlive, &listed, &program, died_ms);
            largest = largest.max(missing);
            known.push((program.id, stored));
        }
        assert_eq!(outlive.stop(), 0);
        println!("round {}: {} processes, at most {largest} bytes of a tail missing so far", round + 1, listed.len());
    }
    println!("{} rounds in {:?}", rounds(), started.elapsed());
}

#[test]
fn power_losses_leave_an_exact_prefix_of_every_output() {
    let Some(disk) = Mounted::ext4(DISK_BYTES) else { return };
    let directory = disk.path().join("history");
    run_rounds(&directory, || disk.lose_power(), || disk.restore_power());
}

#[test]
fn kills_of_holder_and_server_together_leave_an_exact_prefix_of_every_output() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    run_rounds(&scratch.path().join("history"), || (), || ());
}
