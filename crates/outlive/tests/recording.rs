//! Asciicast recordings of terminals: output, times and sizes, also after a server crash.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::process::{Command, Output};

use harness::Outlive;
use serde_json::{Value, json};

struct Recording {
    header: Value,
    events: Vec<(f64, String, String)>,
}

impl Recording {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().unwrap()).unwrap();
        Self { header, events: lines.map(|line| serde_json::from_str(line).unwrap()).collect() }
    }

    fn get(outlive: &Outlive, id: &str, query: &str) -> Self {
        let response = outlive.get(&format!("/v1/processes/{id}/recording?{query}"));
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some("application/x-asciicast")),
            "{}",
            response.text()
        );
        Self::parse(&String::from_utf8(response.body).unwrap())
    }

    fn output(&self) -> String {
        self.events.iter().filter(|event| event.1 == "o").map(|event| event.2.as_str()).collect()
    }

    /// The events other than output, each with the number of output bytes before it.
    fn non_output_events(&self) -> Vec<(usize, &str, &str)> {
        let mut printed = 0;
        let mut found = Vec::new();
        for (_, code, text) in &self.events {
            match code.as_str() {
                "o" => printed += text.len(),
                code => found.push((printed, code, text.as_str())),
            }
        }
        found
    }
}

/// Starts a terminal that prints its size for each line of input, and exits on `end`.
fn start_size_printer(outlive: &Outlive) -> String {
    let script =
        "stty -echo; printf 'r\\351ady\\n'; while read line && [ \"$line\" != end ]; do stty size; done; exit 3";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "cols": 90, "rows": 25 }));
    outlive.wait_output(&id, "ady");
    id
}

fn type_line(outlive: &Outlive, id: &str, line: &str) {
    let input = json!({ "data": format!("{line}\n"), "encoding": "text" });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
}

fn resize(outlive: &Outlive, id: &str, cols: u16, rows: u16) {
    let response = outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": cols, "rows": rows }));
    assert_eq!(response.status, 200, "{}", response.text());
    type_line(outlive, id, "size");
    outlive.wait_output(id, &format!("{rows} {cols}"));
}

#[test]
fn recordings_in_both_versions_survive_server_crashes() {
    let outlive = Outlive::start();
    let id = start_size_printer(&outlive);
    resize(&outlive, &id, 100, 30);
    outlive.kill_server();
    resize(&outlive, &id, 70, 20);
    type_line(&outlive, &id, "end");
    outlive.wait_exit(&id);
    let all = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
    assert!(all.starts_with("r\u{fffd}ady"));
    for kill in [false, true] {
        if kill {
            outlive.kill_server();
        }
        let two = Recording::get(&outlive, &id, "");
        let header = |name: &str| two.header[name].as_u64();
        assert_eq!((header("version"), header("width"), header("height")), (Some(2), Some(90), Some(25)));
        let three = Recording::get(&outlive, &id, "version=3");
        assert_eq!(three.header["term"], json!({ "cols": 90, "rows": 25 }));
        for recording in [&two, &three] {
            assert_eq!(recording.output(), all);
        }
        // A resize event comes before the first byte printed at the new size.
        let (first, second) = (all.find("30 100").unwrap(), all.find("20 70").unwrap());
        let resizes = [(first, "r", "100x30"), (second, "r", "70x20")];
        assert_eq!(two.non_output_events(), resizes);
        assert_eq!(three.non_output_events()[..2], resizes);
        assert_eq!(three.non_output_events()[2], (all.len(), "x", "3"));
        assert!(two.events.is_sorted_by(|a, b| a.0 <= b.0), "version 2 counts from the beginning");
        let sum: f64 = three.events.iter().filter(|event| event.1 != "x").map(|event| event.0).sum();
        assert!((sum - two.events.last().unwrap().0).abs() < 0.01, "version 3 counts from the event before");
    }
}

#[test]
fn a_recording_from_an_offset_starts_with_the_size_at_that_offset() {
    let outlive = Outlive::start();
    let id = start_size_printer(&outlive);
    resize(&outlive, &id, 100, 30);
    resize(&outlive, &id, 70, 20);
    let all = outlive.output(&id);
    let text = String::from_utf8_lossy(&all);
    let from = text.find(" 100").unwrap() - "\u{fffd}".len() + 1;
    let recording = Recording::get(&outlive, &id, &format!("from={from}"));
    assert_eq!((recording.header["width"].as_u64(), recording.header["height"].as_u64()), (Some(100), Some(30)));
    assert_eq!(recording.output().as_bytes(), &all[from..]);
    assert_eq!(recording.non_output_events().len(), 1);
    for (from, status) in [(all.len(), 200), (all.len() + 1, 400)] {
        assert_eq!(outlive.get(&format!("/v1/processes/{id}/recording?from={from}")).status, status);
    }
}

#[test]
fn recordings_of_pipes_and_unknown_versions_are_refused() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat");
    let refused = outlive.get(&format!("/v1/processes/{id}/recording"));
    assert_eq!((refused.status, refused.code()), (409, "not_a_terminal"));
    let refused = outlive.get(&format!("/v1/processes/{id}/recording?version=1"));
    assert_eq!((refused.status, refused.code()), (400, "invalid_query"));
}

#[test]
fn a_followed_recording_ends_with_the_program() {
    let outlive = Outlive::start();
    let id = start_size_printer(&outlive);
    let path = format!("/v1/processes/{id}/recording?follow=true&version=3");
    let text = std::thread::scope(|scope| {
        let following = scope.spawn(|| String::from_utf8(outlive.get(&path).body).unwrap());
        resize(&outlive, &id, 100, 30);
        type_line(&outlive, &id, "end");
        following.join().unwrap()
    });
    let recording = Recording::parse(&text);
    assert_eq!(recording.output(), String::from_utf8_lossy(&outlive.output(&id)));
    assert_eq!(recording.non_output_events().last().map(|other| (other.1, other.2)), Some(("x", "3")));
}

fn run_cli(outlive: &Outlive, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive"));
    command.args(arguments).env("OUTLIVE_STATE_DIR", outlive.state_dir()).output().unwrap()
}

#[test]
fn the_cli_records_and_plays() {
    let outlive = Outlive::start();
    let script = "stty -echo; printf 'caf\\303'; read x; printf '\\251 \\033[1mbold\\033[6n\\007\\n'";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    outlive.wait_output(&id, "caf");
    type_line(&outlive, &id, "");
    outlive.wait_exit(&id);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("it.cast");
    let file = file.to_str().unwrap();
    for version in ["2", "3"] {
        let recorded = run_cli(&outlive, &["record", &id, "-o", file, "--format", version]);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let piped = run_cli(&outlive, &["record", &id, "--format", version]);
        assert_eq!(piped.stdout, std::fs::read(file).unwrap());
        // Playing leaves out the query to the terminal and the bell, and resets the modes at the end.
        for what in [file, &id] {
            let played = run_cli(&outlive, &["play", what, "--speed", "1000", "--idle", "0.01"]);
            assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
            let text = String::from_utf8(played.stdout).unwrap();
            assert!(
                text.starts_with("caf\u{e9} \u{1b}[1mbold\r\n") || text.contains("\u{e9} \u{1b}[1mbold\r\n"),
                "{text:?}"
            );
        }
    }
    std::fs::write(file, "{\"version\":1}\n").unwrap();
    let refused = run_cli(&outlive, &["play", file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("version 2 or 3"));
}
