//! Much output, each byte of it for each of those who want it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::counting::{MB, check, counting, follow, go, head, read_open, start_counting};
use crate::harness::http::Events;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, proc};
use crate::meanwhile::measured;

/// A lossless socket and a followed output, both from the first byte to the last.
fn every_byte(spec: Value, bytes: u64) {
    let outlive = Outlive::start();
    let id = outlive.start_process(spec);
    if outlive.info(&id)["tty"] == true {
        outlive.wait_output(&id, "raw");
    }
    let skip = head(outlive.http(), &id);
    let before = proc::memory_kib(outlive.server_pid(), "RssAnon");
    let begun = Instant::now();
    let ((), server, holder) = measured(&outlive, || {
        std::thread::scope(|scope| {
            let http = outlive.http();
            let mut socket = Socket::connect(http, &id, &format!("from={skip}&framing=raw"), false);
            assert_eq!(socket.ready["flow"], "lossless");
            socket.offset = 0;
            let mut open = follow(http, &id, skip);
            scope.spawn(move || {
                let end = read_open(&mut open, 0, u64::MAX);
                assert_eq!(end, bytes, "the followed output is complete");
            });
            go(&outlive, &id);
            loop {
                match socket.next() {
                    Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
                    Frame::Control(frame) if frame["type"] == "exit" => {
                        assert_eq!((socket.offset, &frame["exitCode"]), (bytes, &json!(0)));
                        assert_eq!(frame["offset"], bytes + skip);
                        break;
                    }
                    other => panic!("unexpected {other:?} at {}", socket.offset),
                }
            }
        });
    });
    let rate = bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
    println!(
        "{} MB to two clients at {rate:.0} MB/s each; RssAnon server {before} → {server} KiB, holder {holder} KiB",
        bytes / MB
    );
    assert!(server < before + 24 * 1024, "the server's memory is bounded: {before} → {server} KiB");
    assert!(holder < 2 * 1024, "the holder's memory is bounded: {holder} KiB");
}

#[test]
fn a_gigabyte_through_a_pipe() {
    every_byte(json!({ "command": counting(1000 * MB), "shell": true }), 1000 * MB);
}

#[test]
fn two_hundred_megabytes_through_a_terminal() {
    let line = format!("stty raw -echo; printf raw; {}", counting(200 * MB));
    // In raw mode a line ends as it was typed.
    every_byte(json!({ "command": line, "shell": true, "tty": true }), 200 * MB);
}

#[test]
fn sixteen_lossless_readers_of_different_speed() {
    const BYTES: u64 = 40 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, Some(1 << 20));
    let sockets: Vec<_> = (0..16u32).map(|_| Socket::connect(http, &id, "from=0", true)).collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (speed, mut socket) in (0u32..).zip(sockets) {
            scope.spawn(move || {
                let mut since_pause = 0;
                loop {
                    match socket.next() {
                        Frame::Bytes { offset, bytes, .. } => {
                            check(offset, &bytes);
                            since_pause += bytes.len();
                        }
                        Frame::Control(frame) if frame["type"] == "exit" => break,
                        other => panic!("reader {speed}: unexpected {other:?} at {}", socket.offset),
                    }
                    // Slow on purpose: the last one gets about ten megabytes per second.
                    if since_pause > 1 << 20 {
                        since_pause = 0;
                        std::thread::park_timeout(Duration::from_millis(u64::from(speed) * 6));
                    }
                }
                assert_eq!(socket.offset, BYTES);
            });
        }
        go(&outlive, &id);
    });
    println!("{} MB to each of sixteen readers in {:?}", BYTES / MB, begun.elapsed());
}

#[test]
fn followed_logs_have_every_byte() {
    const BYTES: u64 = 24 * MB;
    let outlive = Outlive::start();
    let id = start_counting(&outlive, BYTES, None);
    let open = outlive.http().open("GET", &format!("/v1/processes/{id}/logs?follow=true&end=exit"), &[], None).unwrap();
    let mut events = Events::new(open);
    go(&outlive, &id);
    let (mut offset, mut sequence) = (0, 0);
    while let Some(event) = events.next() {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "log" => {
                sequence += 1;
                assert_eq!(data["sequence"], sequence);
                assert_eq!(event.id, sequence.to_string());
                assert_eq!(data["offset"], offset);
                assert_eq!(data["stream"], "stdout");
                let bytes = base64::engine::general_purpose::STANDARD.decode(data["data"].as_str().unwrap()).unwrap();
                check(offset, &bytes);
                offset += bytes.len() as u64;
            }
            "exit" => assert_eq!((offset, &data["exitCode"]), (BYTES, &json!(0))),
            other => panic!("unexpected {other}: {data}"),
        }
    }
    assert_eq!(offset, BYTES);
    println!("{sequence} entries");
}
