//! Recordings: a terminal's log with its times and sizes, also after the death of the server.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::process::{Command, Output};

use harness::Outlive;
use serde_json::{Value, json};

struct Recording {
    header: Value,
    events: Vec<(f64, String, String)>,
}

impl Recording {
    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().unwrap()).unwrap();
        Self { header, events: lines.map(|line| serde_json::from_str(line).unwrap()).collect() }
    }

    fn get(outlive: &Outlive, id: &str, query: &str) -> Self {
        let answer = outlive.get(&format!("/v1/processes/{id}/recording?{query}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/x-asciicast")),
            "{}",
            answer.text()
        );
        Self::of(&String::from_utf8(answer.body).unwrap())
    }

    fn shown(&self) -> String {
        self.events.iter().filter(|event| event.1 == "o").map(|event| event.2.as_str()).collect()
    }

    /// What is neither output nor time, with how much had been shown by then.
    fn others(&self) -> Vec<(usize, &str, &str)> {
        let mut shown = 0;
        let mut found = Vec::new();
        for (_, code, text) in &self.events {
            match code.as_str() {
                "o" => shown += text.len(),
                code => found.push((shown, code, text.as_str())),
            }
        }
        found
    }
}

/// A terminal that says its size when it is told to, and ends at `end`.
fn told(outlive: &Outlive) -> String {
    let script =
        "stty -echo; printf 'r\\351ady\\n'; while read line && [ \"$line\" != end ]; do stty size; done; exit 3";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "cols": 90, "rows": 25 }));
    outlive.wait_output(&id, "ady");
    id
}

fn say(outlive: &Outlive, id: &str, line: &str) {
    let input = json!({ "data": format!("{line}\n"), "encoding": "text" });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
}

fn resize(outlive: &Outlive, id: &str, cols: u16, rows: u16) {
    let answer = outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": cols, "rows": rows }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    say(outlive, id, "size");
    outlive.wait_output(id, &format!("{rows} {cols}"));
}

#[test]
fn output_sizes_and_end_in_both_versions_also_at_the_next_server() {
    let outlive = Outlive::start();
    let id = told(&outlive);
    resize(&outlive, &id, 100, 30);
    outlive.kill_server();
    resize(&outlive, &id, 70, 20);
    say(&outlive, &id, "end");
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
            assert_eq!(recording.shown(), all);
        }
        // A size is told before the first byte that was printed at it.
        let (first, second) = (all.find("30 100").unwrap(), all.find("20 70").unwrap());
        let resizes = [(first, "r", "100x30"), (second, "r", "70x20")];
        assert_eq!(two.others(), resizes);
        assert_eq!(three.others()[..2], resizes);
        assert_eq!(three.others()[2], (all.len(), "x", "3"));
        assert!(two.events.is_sorted_by(|a, b| a.0 <= b.0), "version 2 counts from the beginning");
        let sum: f64 = three.events.iter().filter(|event| event.1 != "x").map(|event| event.0).sum();
        assert!((sum - two.events.last().unwrap().0).abs() < 0.01, "version 3 counts from the event before");
    }
}

#[test]
fn a_recording_begins_anywhere_with_the_size_it_had_there() {
    let outlive = Outlive::start();
    let id = told(&outlive);
    resize(&outlive, &id, 100, 30);
    resize(&outlive, &id, 70, 20);
    let all = outlive.output(&id);
    let text = String::from_utf8_lossy(&all);
    let from = text.find(" 100").unwrap() - "\u{fffd}".len() + 1;
    let recording = Recording::get(&outlive, &id, &format!("from={from}"));
    assert_eq!((recording.header["width"].as_u64(), recording.header["height"].as_u64()), (Some(100), Some(30)));
    assert_eq!(recording.shown().as_bytes(), &all[from..]);
    assert_eq!(recording.others().len(), 1);
    for (from, status) in [(all.len(), 200), (all.len() + 1, 400)] {
        assert_eq!(outlive.get(&format!("/v1/processes/{id}/recording?from={from}")).status, status);
    }
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat");
    let refused = outlive.get(&format!("/v1/processes/{id}/recording"));
    assert_eq!((refused.status, refused.code()), (409, "not_a_terminal"));
    let refused = outlive.get(&format!("/v1/processes/{id}/recording?version=1"));
    assert_eq!((refused.status, refused.code()), (400, "invalid_query"));
}

#[test]
fn one_that_is_followed_ends_with_the_program() {
    let outlive = Outlive::start();
    let id = told(&outlive);
    let path = format!("/v1/processes/{id}/recording?follow=true&version=3");
    let text = std::thread::scope(|scope| {
        let following = scope.spawn(|| String::from_utf8(outlive.get(&path).body).unwrap());
        resize(&outlive, &id, 100, 30);
        say(&outlive, &id, "end");
        following.join().unwrap()
    });
    let recording = Recording::of(&text);
    assert_eq!(recording.shown(), String::from_utf8_lossy(&outlive.output(&id)));
    assert_eq!(recording.others().last().map(|other| (other.1, other.2)), Some(("x", "3")));
}

fn cli(outlive: &Outlive, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive"));
    command.args(arguments).env("OUTLIVE_STATE_DIR", outlive.state_dir()).output().unwrap()
}

#[test]
fn record_and_play() {
    let outlive = Outlive::start();
    let script = "stty -echo; printf 'caf\\303'; read x; printf '\\251 \\033[1mbold\\033[6n\\007\\n'";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    outlive.wait_output(&id, "caf");
    say(&outlive, &id, "");
    outlive.wait_exit(&id);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it.cast");
    let file = file.to_str().unwrap();
    for version in ["2", "3"] {
        let recorded = cli(&outlive, &["record", &id, "-o", file, "--format", version]);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let piped = cli(&outlive, &["record", &id, "--format", version]);
        assert_eq!(piped.stdout, std::fs::read(file).unwrap());
        // Without the question to the terminal and the bell, and what was switched on is switched off.
        for what in [file, &id] {
            let played = cli(&outlive, &["play", what, "--speed", "1000", "--idle", "0.01"]);
            assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
            let text = String::from_utf8(played.stdout).unwrap();
            assert!(
                text.starts_with("caf\u{e9} \u{1b}[1mbold\r\n") || text.contains("\u{e9} \u{1b}[1mbold\r\n"),
                "{text:?}"
            );
        }
    }
    std::fs::write(file, "{\"version\":1}\n").unwrap();
    let refused = cli(&outlive, &["play", file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("2 and 3"));
}
