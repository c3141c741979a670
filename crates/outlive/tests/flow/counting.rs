//! A program that prints consecutive numbers, and readers that check every byte of it.

use std::io::Read;
use std::time::Duration;

use serde_json::json;

use crate::harness::http::{Http, Open};
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

pub(crate) const FIRST: u64 = 100_000_000;
pub(crate) const LINE: u64 = 10;
pub(crate) const MB: u64 = 1_000_000;

/// The command that prints `bytes` bytes once it has read a line.
pub(crate) fn counting(bytes: u64) -> String {
    format!("read go; exec seq {FIRST} {}", FIRST + bytes / LINE - 1)
}

/// What such a program prints at `offset`.
fn expected(offset: u64, len: usize) -> Vec<u8> {
    let mut line = *b"000000000\n";
    for (place, digit) in (FIRST + offset / LINE).to_string().bytes().enumerate() {
        line[place] = digit;
    }
    let skip = (offset % LINE) as usize;
    let mut text = Vec::with_capacity(len + 2 * LINE as usize);
    while text.len() < skip + len {
        text.extend_from_slice(&line);
        for place in (0..9).rev() {
            if line[place] < b'9' {
                line[place] += 1;
                break;
            }
            line[place] = b'0';
        }
    }
    text.truncate(skip + len);
    text.drain(..skip);
    text
}

pub(crate) fn check(offset: u64, bytes: &[u8]) {
    assert!(bytes == expected(offset, bytes.len()), "wrong bytes in {offset}..{}", offset + bytes.len() as u64);
}

pub(crate) fn start_counting(outlive: &Outlive, bytes: u64, ring: Option<u64>) -> String {
    let mut spec = json!({ "command": counting(bytes), "shell": true });
    if let Some(ring) = ring {
        spec["maxLogBytes"] = ring.into();
    }
    outlive.start_process(spec)
}

pub(crate) fn go(outlive: &Outlive, id: &str) {
    let answer = outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "go\n", "encoding": "utf8" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// How much a process has printed.
pub(crate) fn head(http: Http, id: &str) -> u64 {
    let answer = http.get(&format!("/v1/processes/{id}/output?to=0&flow=live"));
    answer.header("x-outlive-head").unwrap().parse().unwrap()
}

/// Waits until the program is held up.
pub(crate) fn until_stopped(http: Http, id: &str) -> u64 {
    let mut before = 0;
    eventually("the program stops", || {
        std::thread::park_timeout(Duration::from_millis(150));
        let now = head(http, id);
        let same = now > 0 && now == before;
        before = now;
        same.then_some(now)
    })
}

/// Reads to the exit, checking every byte; returns how many came.
pub(crate) fn read_all(socket: &mut Socket) -> u64 {
    let start = socket.offset;
    loop {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
            Frame::Control(frame) if frame["type"] == "exit" => {
                assert_eq!(frame["offset"], socket.offset, "{frame}");
                return socket.offset - start;
            }
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
}

pub(crate) fn read_until(socket: &mut Socket, least: u64) {
    while socket.offset < least {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
}

pub(crate) fn follow(http: Http, id: &str, from: u64) -> Open {
    let open = http.open("GET", &format!("/v1/processes/{id}/output?follow=true&from={from}"), &[], None).unwrap();
    assert_eq!(open.status, 200);
    assert_eq!(open.header("x-outlive-offset"), Some(from.to_string().as_str()));
    open
}

/// Reads an open output to its end, or to `least`; returns the offset it came to.
pub(crate) fn read_open(open: &mut Open, mut offset: u64, least: u64) -> u64 {
    let mut room = vec![0; 256 * 1024];
    while offset < least {
        let count = open.read(&mut room).unwrap();
        if count == 0 {
            break;
        }
        check(offset, &room[..count]);
        offset += count as u64;
    }
    offset
}
