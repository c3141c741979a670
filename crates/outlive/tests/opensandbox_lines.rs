//! Long lines in OpenSandbox's event streams. conformance/opensandbox tests the rest of the dialect with its SDKs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::io::Read as _;

use harness::{Outlive, proc};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// The stdout events of a command.
fn stdout_events(outlive: &Outlive, command: &str) -> Vec<Value> {
    let response = outlive.post("/opensandbox/command", &json!({ "command": command }));
    assert_eq!(response.status, 200, "{}", response.text());
    let text = String::from_utf8(response.body).unwrap();
    let events = text.split_terminator("\n\n").map(|event| serde_json::from_str::<Value>(event).unwrap());
    events.filter(|event| event["type"] == "stdout").collect()
}

// Regression: a line of 5 MB was five events, which the SDKs joined with line breaks.
#[test]
fn a_line_of_5_mb_is_one_event() {
    let outlive = Outlive::start();
    let command = r"echo before; head -c 5000000 /dev/zero | tr '\0' '\001'; echo; echo after";
    let events = stdout_events(&outlive, command);
    let texts: Vec<&str> = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!((texts.len(), texts[0], texts[2]), (3, "before", "after"));
    assert!(texts[1] == "\u{1}".repeat(5_000_000), "{}", texts[1].len());
    let unfinished = stdout_events(&outlive, r"head -c 5000000 /dev/zero | tr '\0' x");
    assert_eq!((unfinished.len(), unfinished[0]["text"].as_str().unwrap().len()), (1, 5_000_000));
}

#[test]
fn a_longer_line_comes_in_parts_and_unread_lines_do_not_fill_the_memory() {
    let outlive = Outlive::start();
    let command = r"head -c 40000000 /dev/zero; echo";
    let events = stdout_events(&outlive, command);
    let lengths: Vec<usize> = events.iter().map(|event| event["text"].as_str().unwrap().len()).collect();
    assert_eq!((lengths.len(), lengths.iter().sum()), (3, 40_000_000), "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 16 * MIB), "{lengths:?}");
    assert_eq!(events.iter().map(|event| event["partial"] == true).collect::<Vec<_>>(), [true, true, false]);

    let before = proc::memory_kib(outlive.server_pid(), "RssAnon");
    let unread: Vec<_> = (0..12)
        .map(|_| {
            let headers = [("content-type", "application/json")];
            let body = json!({ "command": "exec cat /dev/zero" }).to_string();
            let mut response =
                outlive.http().open("POST", "/opensandbox/command", &headers, Some(body.as_bytes())).unwrap();
            // The text of the first part starts only when the whole part is in memory.
            let (mut start, mut seen) = (vec![0; 1], Vec::new());
            while !seen.ends_with(b"\"stdout\",\"text\":\"") {
                assert_eq!(response.read(&mut start).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
                seen.push(start[0]);
            }
            response
        })
        .collect();
    let grown = proc::memory_kib(outlive.server_pid(), "RssAnon").saturating_sub(before);
    assert!(grown < 160 * 1024, "{grown} KiB for {} streams", unread.len());
}
