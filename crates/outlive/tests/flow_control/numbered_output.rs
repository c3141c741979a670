//! A program that prints consecutive numbers of nine digits, so that every byte follows from its offset, and readers
//! that check every byte.

use std::io::Read;
use std::time::Duration;

use serde_json::json;

use crate::harness::http::{Http, StreamingResponse};
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

pub(crate) const FIRST_NUMBER: u64 = 100_000_000;
pub(crate) const LINE_BYTES: u64 = 10;
pub(crate) const MB: u64 = 1_000_000;

/// Returns a shell command that prints `bytes` bytes once it has read a line.
pub(crate) fn number_printer(bytes: u64) -> String {
    format!("read go; exec seq {FIRST_NUMBER} {}", FIRST_NUMBER + bytes / LINE_BYTES - 1)
}

/// Returns the `len` bytes that the program prints at `offset`.
fn expected_bytes(offset: u64, len: usize) -> Vec<u8> {
    let mut line = *b"000000000\n";
    for (position, digit) in (FIRST_NUMBER + offset / LINE_BYTES).to_string().bytes().enumerate() {
        line[position] = digit;
    }
    let skip = (offset % LINE_BYTES) as usize;
    let mut text = Vec::with_capacity(len + 2 * LINE_BYTES as usize);
    while text.len() < skip + len {
        text.extend_from_slice(&line);
        for position in (0..9).rev() {
            if line[position] < b'9' {
                line[position] += 1;
                break;
            }
            line[position] = b'0';
        }
    }
    text.truncate(skip + len);
    text.drain(..skip);
    text
}

pub(crate) fn assert_bytes(offset: u64, bytes: &[u8]) {
    assert!(bytes == expected_bytes(offset, bytes.len()), "wrong bytes in {offset}..{}", offset + bytes.len() as u64);
}

/// Starts a process that prints `bytes` bytes after [`release`]; `ring` is the size of its log.
pub(crate) fn start_printer(outlive: &Outlive, bytes: u64, ring: Option<u64>) -> String {
    let mut spec = json!({ "command": number_printer(bytes), "shell": true });
    if let Some(ring) = ring {
        spec["maxLogBytes"] = ring.into();
    }
    outlive.start_process(spec)
}

/// Lets the process start to print.
pub(crate) fn release(outlive: &Outlive, id: &str) {
    let response = outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "go\n", "encoding": "utf8" }));
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Returns how many bytes a process has printed.
pub(crate) fn head(http: Http, id: &str) -> u64 {
    let response = http.get(&format!("/v1/processes/{id}/output?to=0&flow=live"));
    response.header("x-outlive-head").unwrap().parse().unwrap()
}

/// Waits until backpressure has stopped the program; returns the number of bytes that it has printed.
pub(crate) fn wait_blocked(http: Http, id: &str) -> u64 {
    let mut before = 0;
    eventually("the program is blocked", || {
        std::thread::park_timeout(Duration::from_millis(150));
        let now = head(http, id);
        let same = now > 0 && now == before;
        before = now;
        same.then_some(now)
    })
}

/// Reads to the exit frame and checks every byte; returns the number of bytes.
pub(crate) fn read_all(socket: &mut Socket) -> u64 {
    let start = socket.offset;
    loop {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
            Frame::Control(frame) if frame["type"] == "exit" => {
                assert_eq!(frame["offset"], socket.offset, "{frame}");
                return socket.offset - start;
            }
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
}

pub(crate) fn read_to_offset(socket: &mut Socket, target: u64) {
    while socket.offset < target {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
}

pub(crate) fn follow(http: Http, id: &str, from: u64) -> StreamingResponse {
    let open = http.open("GET", &format!("/v1/processes/{id}/output?follow=true&from={from}"), &[], None).unwrap();
    assert_eq!(open.status, 200);
    assert_eq!(open.header("x-outlive-offset"), Some(from.to_string().as_str()));
    open
}

/// Reads a followed output to its end, or at least to `target`; returns the offset reached.
pub(crate) fn read_followed(open: &mut StreamingResponse, mut offset: u64, target: u64) -> u64 {
    let mut buffer = vec![0; 256 * 1024];
    while offset < target {
        let count = open.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        assert_bytes(offset, &buffer[..count]);
        offset += count as u64;
    }
    offset
}
