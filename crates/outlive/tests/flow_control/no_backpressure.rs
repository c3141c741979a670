//! Readers that must not slow a program down, and output that must not stall a reader.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::http::EventStream;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup, eventually};
use crate::numbered_output::{FIRST_NUMBER, LINE_BYTES, MB, assert_bytes, head, release, start_printer};

/// A program waits this long for a stalled lossless reader, which a test sees only in the run time of the program.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn live_viewers_do_not_slow_the_program() {
    const BYTES: u64 = 300 * MB;
    let outlive = Outlive::start_with(Setup::without_history());
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, None);
    let mut viewers: Vec<_> =
        (0..4).map(|_| Socket::connect(http, &id, "from=0&role=viewer&framing=raw", false)).collect();
    assert!(viewers.iter().all(|viewer| viewer.ready["flow"] == "live"));
    release(&outlive, &id);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    // A reader that had slowed the program would get a `became_live` error.
    for viewer in &mut viewers {
        let (mut at, mut missed) = (0, 0);
        loop {
            match viewer.next() {
                Frame::Bytes { offset, bytes, .. } => {
                    assert_eq!(offset, at);
                    assert_bytes(offset, &bytes);
                    at += bytes.len() as u64;
                }
                Frame::Control(frame) if frame["type"] == "gap" => {
                    assert_eq!(frame["from"], at);
                    missed += viewer.offset - at;
                    at = viewer.offset;
                }
                Frame::Control(frame) if frame["type"] == "exit" => break,
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(at, BYTES);
        assert!(missed > 0);
    }
}

#[test]
fn a_follower_of_one_stream_does_not_slow_the_other() {
    const BYTES: u64 = 60 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let line = format!("read go; seq {FIRST_NUMBER} {}; echo done >&2", FIRST_NUMBER + BYTES / LINE_BYTES - 1);
    let start = || outlive.start_process(json!({ "command": line, "shell": true, "maxLogBytes": 300_000 }));
    let alone = {
        let (id, started) = (start(), Instant::now());
        release(&outlive, &id);
        outlive.wait_exit(&id);
        started.elapsed()
    };
    let id = start();
    let logs =
        http.open("GET", &format!("/v1/processes/{id}/logs?follow=true&stream=stderr&end=exit"), &[], None).unwrap();
    let mut output =
        http.open("GET", &format!("/v1/processes/{id}/output?follow=true&stream=stderr"), &[], None).unwrap();
    let started = Instant::now();
    release(&outlive, &id);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "done\n");
    let mut events = EventStream::new(logs);
    let event = events.next().unwrap();
    assert_eq!(event.name, "log", "{event:?}");
    assert_eq!(events.next().unwrap().name, "exit");
    let took = started.elapsed();
    println!("{} MB past two followers of the other stream in {took:?}, alone {alone:?}", BYTES / MB);
    assert!(took < alone + STALL_TIMEOUT, "{took:?}, alone {alone:?}");
}

#[test]
fn an_overwritten_offset_is_410_with_the_oldest_available() {
    const BYTES: u64 = 30 * MB;
    let outlive = Outlive::start_with(Setup::without_history());
    let http = outlive.http();
    let half = FIRST_NUMBER + BYTES / LINE_BYTES;
    let line = format!("seq {FIRST_NUMBER} {}; read go; seq {half} {}", half - 1, half + BYTES / LINE_BYTES - 1);
    let started = Instant::now();
    let id = outlive.start_process(json!({ "command": line, "shell": true, "maxLogBytes": 1 << 20 }));
    eventually("the first half is printed", || (head(http, &id) == BYTES).then_some(()));
    let alone = started.elapsed();
    for path in [format!("/v1/processes/{id}/output?from=0"), format!("/v1/processes/{id}/output?from=0&follow=true")] {
        let response = http.get(&path);
        assert_eq!((response.status, response.code()), (410, "offset_gone"), "{}", response.text());
        let oldest = response.json["details"]["oldest"].as_u64().unwrap();
        assert_eq!(oldest, BYTES - (1 << 20), "{}", response.text());
        let rest = http.get(&format!("/v1/processes/{id}/output?from={oldest}"));
        assert_eq!(rest.status, 200);
        assert_eq!(rest.header("x-outlive-offset").unwrap(), oldest.to_string());
        assert_eq!(rest.body.len() as u64, BYTES - oldest);
        assert_bytes(oldest, &rest.body);
    }
    let refused = Socket::try_connect(http, &id, "from=0", true);
    assert!(refused.is_err_and(|error| error.contains("410")));
    // The refused readers do not slow the program.
    let started = Instant::now();
    release(&outlive, &id);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    let took = started.elapsed();
    assert!(took < alone + STALL_TIMEOUT, "{took:?}, the first half {alone:?}");
}

#[test]
fn tiny_chunks_do_not_stall_a_reader() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "cat", "maxLogBytes": 1000 }));
    let mut socket = Socket::connect(outlive.http(), &id, "from=0", true);
    let started = Instant::now();
    // More chunks than the chunk index holds, each read before the next is written.
    for number in 0..20_000u32 {
        let byte = vec![number as u8];
        socket.inner.send(tokio_tungstenite::tungstenite::Message::Binary(byte.clone().into())).unwrap();
        let frame = socket.next();
        assert_eq!(frame, Frame::Bytes { offset: number.into(), stream: 1, bytes: byte });
    }
    println!("20,000 single bytes echoed in {:?}", started.elapsed());
}
