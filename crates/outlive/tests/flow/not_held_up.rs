//! Readers that must not hold a program up, and programs that must not hold a reader up.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::counting::{FIRST, LINE, MB, check, go, head, start_counting};
use crate::harness::http::Events;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

/// A reader that a program waits for is waited for as long. It cannot be seen from outside but by how much longer the program takes.
const HELD_UP: Duration = Duration::from_secs(10);

#[test]
fn live_viewers_never_slow_the_program() {
    const BYTES: u64 = 300 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, None);
    let mut viewers: Vec<_> =
        (0..4).map(|_| Socket::connect(http, &id, "from=0&role=viewer&framing=raw", false)).collect();
    assert!(viewers.iter().all(|viewer| viewer.ready["flow"] == "live"));
    go(&outlive, &id);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    // Who had slowed it would have been told that it was waited for no longer.
    for viewer in &mut viewers {
        let (mut at, mut missed) = (0, 0);
        loop {
            match viewer.next() {
                Frame::Bytes { offset, bytes, .. } => {
                    assert_eq!(offset, at);
                    check(offset, &bytes);
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
fn a_follower_of_one_stream_does_not_wait_for_the_other() {
    const BYTES: u64 = 60 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let line = format!("read go; seq {FIRST} {}; echo done >&2", FIRST + BYTES / LINE - 1);
    let start = || outlive.start_process(json!({ "command": line, "shell": true, "maxLogBytes": 300_000 }));
    let alone = {
        let (id, begun) = (start(), Instant::now());
        go(&outlive, &id);
        outlive.wait_exit(&id);
        begun.elapsed()
    };
    let id = start();
    let logs =
        http.open("GET", &format!("/v1/processes/{id}/logs?follow=true&stream=stderr&end=exit"), &[], None).unwrap();
    let mut output =
        http.open("GET", &format!("/v1/processes/{id}/output?follow=true&stream=stderr"), &[], None).unwrap();
    let begun = Instant::now();
    go(&outlive, &id);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "done\n");
    let mut events = Events::new(logs);
    let event = events.next().unwrap();
    assert_eq!(event.name, "log", "{event:?}");
    assert_eq!(events.next().unwrap().name, "exit");
    let took = begun.elapsed();
    println!("{} MB past two followers of the other stream in {took:?}, alone {alone:?}", BYTES / MB);
    assert!(took < alone + HELD_UP, "{took:?}, alone {alone:?}");
}

#[test]
fn an_offset_that_is_gone_is_410_with_what_remains() {
    const BYTES: u64 = 30 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let half = FIRST + BYTES / LINE;
    let line = format!("seq {FIRST} {}; read go; seq {half} {}", half - 1, half + BYTES / LINE - 1);
    let begun = Instant::now();
    let id = outlive.start_process(json!({ "command": line, "shell": true, "maxLogBytes": 1 << 20 }));
    eventually("the first half is printed", || (head(http, &id) == BYTES).then_some(()));
    let alone = begun.elapsed();
    for path in [format!("/v1/processes/{id}/output?from=0"), format!("/v1/processes/{id}/output?from=0&follow=true")] {
        let answer = http.get(&path);
        assert_eq!((answer.status, answer.code()), (410, "offset_gone"), "{}", answer.text());
        let oldest = answer.json["details"]["oldest"].as_u64().unwrap();
        assert_eq!(oldest, BYTES - (1 << 20), "{}", answer.text());
        let rest = http.get(&format!("/v1/processes/{id}/output?from={oldest}"));
        assert_eq!(rest.status, 200);
        assert_eq!(rest.header("x-outlive-offset").unwrap(), oldest.to_string());
        assert_eq!(rest.body.len() as u64, BYTES - oldest);
        check(oldest, &rest.body);
    }
    let refused = Socket::try_connect(http, &id, "from=0", true);
    assert!(refused.is_err_and(|error| error.contains("410")));
    // Those who were refused hold nothing up.
    let begun = Instant::now();
    go(&outlive, &id);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    let took = begun.elapsed();
    assert!(took < alone + HELD_UP, "{took:?}, the first half {alone:?}");
}

#[test]
fn tiny_chunks_do_not_hold_a_reader_up() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "cat", "maxLogBytes": 1000 }));
    let mut socket = Socket::connect(outlive.http(), &id, "from=0", true);
    let begun = Instant::now();
    // More chunks than there are marks, each read before the next is written.
    for number in 0..20_000u32 {
        let byte = vec![number as u8];
        socket.inner.send(tokio_tungstenite::tungstenite::Message::Binary(byte.clone().into())).unwrap();
        let frame = socket.next();
        assert_eq!(frame, Frame::Bytes { offset: number.into(), stream: 1, bytes: byte });
    }
    println!("20,000 single bytes there and back in {:?}", begun.elapsed());
}
