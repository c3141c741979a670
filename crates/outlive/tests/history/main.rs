//! History: output and records on disk, read as one log with the ring in memory, also after outlive has stopped.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod after_a_restart;
mod complete_output;
mod deletion;
mod directory;
#[path = "../harness/mod.rs"]
mod harness;
#[allow(dead_code, reason = "another test binary uses the rest")]
mod mounts;
#[path = "../flow_control/numbered_output.rs"]
#[allow(dead_code, reason = "another test binary uses the rest")]
mod numbered_output;
mod selection;
mod speed;
mod stored_files;
mod terminal;

use std::path::{Path, PathBuf};

use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};

/// A directory for the histories of one test. The one for temporary files may be a tmpfs, where history is off.
fn scratch_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Starts outlive with its history in `directory`.
fn serve(directory: &Path) -> Outlive {
    serve_with(directory, Setup::default())
}

fn serve_with(directory: &Path, setup: Setup) -> Outlive {
    let outlive = start(directory, setup);
    wait_on(&outlive);
    outlive
}

/// Waits until the server has opened the history. After an upgrade the old server may still use it.
fn wait_on(outlive: &Outlive) {
    eventually("history is on", || (history_state(outlive)["state"] == "on").then_some(()));
}

/// Does not wait until history is on.
fn start(directory: &Path, setup: Setup) -> Outlive {
    Outlive::start_with(Setup { history: Some(PathBuf::from(directory)), ..setup })
}

/// Prints consecutive numbers at a rate that a debug build stores on a busy machine: history may leave a gap only when
/// it cannot keep up, which is no subject of these tests.
const PACED_NUMBERS: &str = r#"
import os, sys, time, tty
bytes, rate, first = int(sys.argv[1]), float(sys.argv[2]), 100_000_000
if os.isatty(1): tty.setraw(1)
started = time.monotonic()
for begin in range(first, first + bytes // 10, 10_000):
    text = b"".join(b"%d\n" % number for number in range(begin, min(begin + 10_000, first + bytes // 10)))
    while text: text = text[os.write(1, text):]
    early = (begin - first) * 10 / rate - (time.monotonic() - started)
    if early > 0: time.sleep(early)
"#;

/// Bytes per second of [`PACED_NUMBERS`]: a tenth of a default ring, so that a stall of the disk costs nothing.
const PACE: u64 = 10_000_000;

/// The spec of a process that prints `bytes` bytes of consecutive numbers.
fn paced_numbers(bytes: u64) -> Value {
    json!({ "command": "python3", "args": ["-c", PACED_NUMBERS, bytes.to_string(), PACE.to_string()] })
}

/// The state of history: `GET /v1/history`.
fn history_state(outlive: &Outlive) -> Value {
    let response = outlive.get("/v1/history");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json
}

/// Removes deleted output from the disk now.
fn collect_garbage(outlive: &Outlive) {
    let response = outlive.post("/v1/history/gc", &json!({}));
    assert_eq!(response.status, 200, "{}", response.text());
}

/// All processes that history and this run of outlive know.
fn list_all_boots(outlive: &Outlive) -> Vec<Value> {
    let response = outlive.get("/v1/processes?boot=all&all=true");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json["processes"].as_array().unwrap().clone()
}

/// The one process with this id in the list of all boots.
fn listed_once(outlive: &Outlive, id: &str) -> Value {
    let mut found = list_all_boots(outlive).into_iter().filter(|process| process["id"] == id);
    let process = found.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert_eq!(found.next(), None, "{id} is listed twice");
    process
}

/// Waits until the files of a history contain `text`. Output is stored up to two seconds after it was printed.
fn wait_stored(directory: &Path, text: &str) {
    eventually(&format!("{text} is stored"), || stored_files::contain(directory, text).then_some(()));
}

fn run_cli(outlive: &Outlive, arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["--url", &format!("http://127.0.0.1:{}", outlive.port)])
        .args(arguments)
        .env_remove("OUTLIVE_TOKEN")
        .output()
        .unwrap()
}
