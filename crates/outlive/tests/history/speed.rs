//! The reduced versions of `cargo xtask prove history-speed` and `history-flood`. They assert facts, never times: a
//! program that outruns the store is not slowed without bound, and every missing byte is announced.

use std::time::Instant;

use serde_json::json;

use crate::harness::Outlive;
use crate::harness::socket::{Frame, Socket};
use crate::numbered_output::{FIRST_NUMBER, LINE_BYTES, MB, assert_bytes};
use crate::{paced_numbers, scratch_directory, serve};

const FLOOD_BYTES: u64 = 300 * MB;

/// Reads a log from its first byte. Returns the bytes that were announced as missing.
pub(crate) fn read_with_gaps(outlive: &Outlive, id: &str, bytes: u64) -> u64 {
    let response = outlive.get(&format!("/v1/processes/{id}/output?from=0&to=1"));
    let from = if response.status == 200 {
        0
    } else {
        assert_eq!(response.code(), "offset_gone", "{}", response.text());
        response.json["details"]["oldest"].as_u64().unwrap()
    };
    let mut missing = from;
    let mut socket = Socket::connect(outlive.http(), id, &format!("from={from}"), true);
    loop {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
            Frame::Control(frame) if frame["type"] == "gap" => {
                missing += frame["to"].as_u64().unwrap() - frame["from"].as_u64().unwrap();
            }
            Frame::Control(frame) if frame["type"] == "exit" => break,
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
    assert_eq!(socket.offset, bytes, "every byte is read or announced");
    missing
}

#[test]
fn every_byte_of_a_flood_is_stored_or_announced_as_missing() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let last = FIRST_NUMBER + FLOOD_BYTES / LINE_BYTES - 1;
    let started = Instant::now();
    let id = outlive.start_process(json!({ "command": "seq", "args": [FIRST_NUMBER.to_string(), last.to_string()] }));
    outlive.wait_exit(&id);
    let rate = FLOOD_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64();
    let missing = read_with_gaps(&outlive, &id, FLOOD_BYTES);
    println!("a flood at {rate:.0} MB/s, {missing} bytes missing");
}

#[test]
fn a_steady_program_is_stored_without_a_gap_by_several_at_once() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let ids: Vec<String> = (0..3).map(|_| outlive.start_process(paced_numbers(20 * MB))).collect();
    for id in &ids {
        outlive.wait_exit(id);
        assert_eq!(read_with_gaps(&outlive, id, 20 * MB), 0);
    }
}
