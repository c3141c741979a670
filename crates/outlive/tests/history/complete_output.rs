//! Output far larger than the ring in memory is one log: every reader gets it from the first byte.

use base64::Engine as _;
use serde_json::json;

use crate::harness::Outlive;
use crate::harness::http::EventStream;
use crate::harness::socket::Socket;
use crate::numbered_output::{FIRST_NUMBER, LINE_BYTES, MB, assert_bytes, read_all, release};
use crate::{paced_numbers, run_cli, scratch_directory, serve, wait_on};

const BYTES: u64 = 50 * MB;

fn assert_whole_output(outlive: &Outlive, id: &str) {
    let response = outlive.get(&format!("/v1/processes/{id}/output?from=0"));
    assert_eq!((response.status, response.header("x-outlive-offset")), (200, Some("0")), "{}", response.text());
    assert_eq!(response.header("x-outlive-head"), Some(BYTES.to_string().as_str()));
    assert_eq!(response.body.len() as u64, BYTES);
    assert_bytes(0, &response.body);
}

/// Any part, also one that lies on both sides of where the ring begins.
fn assert_parts(outlive: &Outlive, id: &str) {
    let ring = 10 << 20;
    for (from, to) in [(0, 1), (1, 300_000), (4_194_300, 4_194_310), (BYTES - ring - MB, BYTES - ring + MB)] {
        let response = outlive.get(&format!("/v1/processes/{id}/output?from={from}&to={to}"));
        assert_eq!((response.status, response.body.len() as u64), (200, to - from), "{from}..{to}");
        assert_bytes(from, &response.body);
    }
}

/// Entries have consecutive sequence numbers from 1, and offsets without a hole.
fn assert_entries(outlive: &Outlive, id: &str) {
    let path = format!("/v1/processes/{id}/logs?follow=true&end=exit");
    let mut events = EventStream::new(outlive.http().open("GET", &path, &[], None).unwrap());
    let (mut sequence, mut offset) = (0, 0);
    loop {
        let event = events.next().expect("an exit");
        if event.name == "exit" {
            break;
        }
        assert_eq!(event.name, "log", "{}", event.data);
        let entry: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        sequence += 1;
        assert_eq!((entry["sequence"].as_u64(), entry["offset"].as_u64()), (Some(sequence), Some(offset)));
        let bytes = base64::engine::general_purpose::STANDARD.decode(entry["data"].as_str().unwrap()).unwrap();
        assert_bytes(offset, &bytes);
        offset += bytes.len() as u64;
    }
    assert_eq!(offset, BYTES);
    let first = outlive.get(&format!("/v1/processes/{id}/logs?head=1")).json;
    let tail = outlive.get(&format!("/v1/processes/{id}/logs?tail=3")).json;
    let sequences: Vec<u64> =
        tail["entries"].as_array().unwrap().iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, [sequence - 2, sequence - 1, sequence], "{first}");
}

#[test]
fn fifty_megabytes_are_read_whole_by_every_reader() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let id = outlive.start_process(paced_numbers(BYTES));
    // A reader from the first byte while it still prints.
    let mut early = Socket::connect(outlive.http(), &id, "from=0", true);
    assert_eq!(read_all(&mut early), BYTES);
    outlive.wait_exit(&id);
    for kill in [false, true] {
        if kill {
            outlive.kill_server();
            wait_on(&outlive);
        }
        assert_whole_output(&outlive, &id);
        assert_parts(&outlive, &id);
        assert_entries(&outlive, &id);
        let middle = BYTES / 2 + 3;
        let mut late = Socket::connect(outlive.http(), &id, &format!("from={middle}"), true);
        assert_eq!(read_all(&mut late), BYTES - middle, "attached in the middle");
    }
    let printed = run_cli(&outlive, &["logs", &id]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(printed.stdout.len() as u64, BYTES);
    assert_bytes(0, &printed.stdout);
    let tail = run_cli(&outlive, &["logs", "--tail", "1", &id]);
    let last = FIRST_NUMBER + BYTES / LINE_BYTES - 1;
    assert!(tail.stdout.ends_with(format!("{last}\n").as_bytes()), "the end of the last entry");
}

#[test]
fn a_reader_right_after_a_server_crash_or_an_upgrade_gets_stored_output() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let mut spec = paced_numbers(2 * MB);
    spec["maxLogBytes"] = json!(256 << 10);
    let id = outlive.start_process(spec);
    outlive.wait_exit(&id);
    for round in 0..4 {
        if round % 2 == 0 {
            outlive.kill_server();
        } else {
            assert_eq!(outlive.post("/v1/upgrade", &json!({})).status, 200);
        }
        let response = outlive.get(&format!("/v1/processes/{id}/output?from=0"));
        assert_eq!((response.status, response.body.len() as u64), (200, 2 * MB), "{round}: {}", response.code());
    }
}

#[test]
fn a_wait_finds_output_that_the_ring_has_overwritten() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let mut spec = paced_numbers(4 * MB);
    spec["maxLogBytes"] = json!(256 << 10);
    let id = outlive.start_process(spec);
    outlive.wait_exit(&id);
    for (from, number) in [(0, FIRST_NUMBER + 7), (1_000_000, FIRST_NUMBER + 150_000)] {
        let body = json!({ "for": "output", "pattern": number.to_string(), "from": from, "timeoutMs": 30_000 });
        let response = outlive.post(&format!("/v1/processes/{id}/wait"), &body);
        assert_eq!(response.json["outcome"], "matched", "{}", response.text());
        assert_eq!(response.json["offset"], (number - FIRST_NUMBER) * LINE_BYTES, "{}", response.text());
    }
}

#[test]
fn both_streams_of_a_small_ring_are_complete() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let script = "read go; i=0; while [ $i -lt 20000 ]; do echo \"out $i of a line that fills the ring\"; \
                  [ $((i % 10)) -ne 0 ] || echo \"err $i\" >&2; i=$((i+1)); done";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "maxLogBytes": 256 << 10 }));
    release(&outlive, &id);
    outlive.wait_exit(&id);
    let read = |stream: &str| {
        let response = outlive.get(&format!("/v1/processes/{id}/output?from=0&stream={stream}"));
        assert_eq!(response.status, 200, "{}", response.text());
        String::from_utf8(response.body).unwrap()
    };
    let out: Vec<String> = (0..20_000).map(|i| format!("out {i} of a line that fills the ring\n")).collect();
    let err: Vec<String> = (0..20_000).step_by(10).map(|i| format!("err {i}\n")).collect();
    assert!(read("stdout") == out.concat(), "stdout differs");
    assert!(read("stderr") == err.concat(), "stderr differs");
}
