//! Lossless readers get every byte of large outputs, and memory stays bounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::harness::http::EventStream;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, SetOnDrop, proc};
use crate::numbered_output::{MB, assert_bytes, follow, head, number_printer, read_followed, release, start_printer};

/// Reads all output with a lossless socket and a followed output at the same time, and checks the peak memory.
fn check_every_byte(spec: Value, bytes: u64) {
    let outlive = Outlive::start();
    let id = outlive.start_process(spec);
    if outlive.info(&id)["tty"] == true {
        outlive.wait_output(&id, "raw");
    }
    let skip = head(outlive.http(), &id);
    // The binary's relocated data counts as well, and a debug build has much of it: only the growth matters.
    let before = proc::memory_kib(outlive.server_pid(), "RssAnon");
    let holder_before = proc::memory_kib(outlive.holder_pid(), "RssAnon");
    let started = Instant::now();
    let ((), server, holder) = measure_peak_memory(&outlive, || {
        std::thread::scope(|scope| {
            let http = outlive.http();
            let mut socket = Socket::connect(http, &id, &format!("from={skip}&framing=raw"), false);
            assert_eq!(socket.ready["flow"], "lossless");
            socket.offset = 0;
            let mut open = follow(http, &id, skip);
            scope.spawn(move || {
                let end = read_followed(&mut open, 0, u64::MAX);
                assert_eq!(end, bytes, "the followed output is complete");
            });
            release(&outlive, &id);
            loop {
                match socket.next() {
                    Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
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
    let rate = bytes as f64 / 1e6 / started.elapsed().as_secs_f64();
    println!(
        "{} MB to two clients at {rate:.0} MB/s each; RssAnon server {before} → {server} KiB, holder {holder_before} → {holder} KiB",
        bytes / MB
    );
    assert!(server < before + 24 * 1024, "the server's memory is bounded: {before} → {server} KiB");
    assert!(holder < holder_before + 512, "the holder's memory is bounded: {holder_before} → {holder} KiB");
}

/// Does `work`; returns its result and the peak memory of server and holder in KiB.
fn measure_peak_memory<T>(outlive: &Outlive, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let (server, holder) = (outlive.server_pid(), outlive.holder_pid());
    let stop = AtomicBool::new(false);
    let (server_peak, holder_peak) = (AtomicU64::new(0), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                server_peak.fetch_max(proc::memory_kib(server, "RssAnon"), SeqCst);
                holder_peak.fetch_max(proc::memory_kib(holder, "RssAnon"), SeqCst);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let _stop = SetOnDrop(&stop);
        work()
    });
    (result, server_peak.into_inner(), holder_peak.into_inner())
}

#[test]
fn a_gigabyte_through_a_pipe_is_complete() {
    check_every_byte(json!({ "command": number_printer(1000 * MB), "shell": true }), 1000 * MB);
}

#[test]
fn two_hundred_megabytes_through_a_terminal_are_complete() {
    let line = format!("stty raw -echo; printf raw; {}", number_printer(200 * MB));
    // In raw mode the terminal does not translate newlines.
    check_every_byte(json!({ "command": line, "shell": true, "tty": true }), 200 * MB);
}

#[test]
fn sixteen_lossless_readers_of_different_speed_get_every_byte() {
    const BYTES: u64 = 40 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, Some(1 << 20));
    let sockets: Vec<_> = (0..16u32).map(|_| Socket::connect(http, &id, "from=0", true)).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (speed, mut socket) in (0u32..).zip(sockets) {
            scope.spawn(move || {
                let mut since_pause = 0;
                loop {
                    match socket.next() {
                        Frame::Bytes { offset, bytes, .. } => {
                            assert_bytes(offset, &bytes);
                            since_pause += bytes.len();
                        }
                        Frame::Control(frame) if frame["type"] == "exit" => break,
                        other => panic!("reader {speed}: unexpected {other:?} at {}", socket.offset),
                    }
                    // The slowest reader gets about ten megabytes per second.
                    if since_pause > 1 << 20 {
                        since_pause = 0;
                        std::thread::park_timeout(Duration::from_millis(u64::from(speed) * 6));
                    }
                }
                assert_eq!(socket.offset, BYTES);
            });
        }
        release(&outlive, &id);
    });
    println!("{} MB to each of sixteen readers in {:?}", BYTES / MB, started.elapsed());
}

#[test]
fn a_log_follower_gets_every_byte() {
    const BYTES: u64 = 24 * MB;
    let outlive = Outlive::start();
    let id = start_printer(&outlive, BYTES, None);
    let open = outlive.http().open("GET", &format!("/v1/processes/{id}/logs?follow=true&end=exit"), &[], None).unwrap();
    let mut events = EventStream::new(open);
    release(&outlive, &id);
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
                assert_bytes(offset, &bytes);
                offset += bytes.len() as u64;
            }
            "exit" => assert_eq!((offset, &data["exitCode"]), (BYTES, &json!(0))),
            other => panic!("unexpected {other}: {data}"),
        }
    }
    assert_eq!(offset, BYTES);
    println!("{sequence} entries");
}
