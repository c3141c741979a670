//! Flow: every byte for those who want every byte, and nobody held up for longer than promised.
//!
//! Programs print consecutive numbers of nine digits, so that every byte follows from its offset.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod harness;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use base64::Engine as _;
use harness::http::{Events, Http, Open};
use harness::socket::{Frame, Socket};
use harness::{Outlive, eventually, proc};
use serde_json::{Value, json};

const FIRST: u64 = 100_000_000;
const LINE: u64 = 10;
const MB: u64 = 1_000_000;
/// A reader that a program waits for is waited for as long. It cannot be seen from outside but by how much longer the program takes.
const HELD_UP: Duration = Duration::from_secs(10);

/// The command that prints `bytes` bytes once it has read a line.
fn counting(bytes: u64) -> String {
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

fn check(offset: u64, bytes: &[u8]) {
    assert!(bytes == expected(offset, bytes.len()), "wrong bytes in {offset}..{}", offset + bytes.len() as u64);
}

fn start_counting(outlive: &Outlive, bytes: u64, ring: Option<u64>) -> String {
    let mut spec = json!({ "command": counting(bytes), "shell": true });
    if let Some(ring) = ring {
        spec["maxLogBytes"] = ring.into();
    }
    outlive.start_process(spec)
}

fn go(outlive: &Outlive, id: &str) {
    let answer = outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "go\n", "encoding": "utf8" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// How much a process has printed.
fn head(http: Http, id: &str) -> u64 {
    let answer = http.get(&format!("/v1/processes/{id}/output?to=0&flow=live"));
    answer.header("x-outlive-head").unwrap().parse().unwrap()
}

/// Waits until the program is held up.
fn until_stopped(http: Http, id: &str) -> u64 {
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
fn read_all(socket: &mut Socket) -> u64 {
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

fn read_until(socket: &mut Socket, least: u64) {
    while socket.offset < least {
        match socket.next() {
            Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
            other => panic!("unexpected {other:?} at {}", socket.offset),
        }
    }
}

fn follow(http: Http, id: &str, from: u64) -> Open {
    let open = http.open("GET", &format!("/v1/processes/{id}/output?follow=true&from={from}"), &[], None).unwrap();
    assert_eq!(open.status, 200);
    assert_eq!(open.header("x-outlive-offset"), Some(from.to_string().as_str()));
    open
}

/// Reads an open output to its end, or to `least`; returns the offset it came to.
fn read_open(open: &mut Open, mut offset: u64, least: u64) -> u64 {
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

/// Highest memory of server and holder while `work` is done.
fn measured<T>(outlive: &Outlive, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let (server, holder) = (outlive.server_pid(), outlive.holder_pid());
    let over = AtomicBool::new(false);
    let (most_server, most_holder) = (AtomicU64::new(0), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                most_server.fetch_max(proc::memory_kib(server, "RssAnon"), SeqCst);
                most_holder.fetch_max(proc::memory_kib(holder, "RssAnon"), SeqCst);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let _over = Finally(&over);
        work()
    });
    (result, most_server.into_inner(), most_holder.into_inner())
}

struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

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

/// Cut off with as much as possible unread, and back some seconds later.
fn cut_and_back(ring: Option<u64>, acknowledge: bool) {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, ring);
    let mut socket = Socket::connect(http, &id, "from=0", true);
    go(&outlive, &id);
    for round in 1..=2u64 {
        while socket.offset < round * 30 * MB {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
                other => panic!("unexpected {other:?}"),
            }
            if acknowledge {
                socket.control(json!({ "type": "ack", "offset": socket.offset }));
            }
        }
        // Does not read any more: every buffer on the way fills up, and is lost with the connection.
        let stopped = until_stopped(http, &id);
        let offset = socket.cut();
        std::thread::park_timeout(Duration::from_secs(2));
        println!("cut off at {offset}, {} behind the head", stopped - offset);
        socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        assert_eq!(socket.ready["flow"], "lossless");
    }
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES, "what was left behind holds nobody up");
}

#[test]
fn a_client_that_was_cut_off_misses_nothing() {
    cut_and_back(None, false);
}

#[test]
fn a_client_that_was_cut_off_misses_nothing_of_a_small_ring() {
    cut_and_back(Some(256 * 1024), false);
}

#[test]
fn an_acknowledging_client_that_was_cut_off_misses_nothing() {
    cut_and_back(Some(64 * 1024), true);
}

#[test]
fn a_followed_output_that_was_cut_off_misses_nothing() {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, None);
    let mut open = follow(http, &id, 0);
    // A plain body has no answers that tell what has arrived: what can be in flight must be less than half a ring.
    rustix::net::sockopt::set_socket_recv_buffer_size(open.stream(), 256 * 1024).unwrap();
    go(&outlive, &id);
    let offset = read_open(&mut open, 0, 40 * MB);
    println!("cut off {} behind the head", until_stopped(http, &id) - offset);
    open.stream().shutdown(std::net::Shutdown::Both).unwrap();
    drop(open);
    std::thread::park_timeout(Duration::from_secs(2));
    let mut open = follow(http, &id, offset);
    assert_eq!(read_open(&mut open, offset, u64::MAX), BYTES);
}

#[test]
fn a_newcomer_does_not_take_what_was_left_for_another() {
    const BYTES: u64 = 60 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, Some(256 * 1024));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    go(&outlive, &id);
    read_until(&mut socket, 5 * MB);
    until_stopped(http, &id);
    let offset = socket.cut();
    eventually("the cut is noticed", || {
        outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    // Reads all there is and as fast as it can; the program must wait for the other nevertheless.
    let mut newcomer = Socket::connect(http, &id, "", true);
    let at = newcomer.offset;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            read_all(&mut newcomer);
            assert_eq!(newcomer.offset, BYTES);
        });
        std::thread::park_timeout(Duration::from_millis(500));
        let mut socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        println!("the newcomer began {} after the other's end", at - offset);
        read_all(&mut socket);
        assert_eq!(socket.offset, BYTES);
    });
}

/// A WebSocket client down to the bytes, for reading them one at a time.
struct Sipping {
    stream: TcpStream,
    taken: Vec<u8>,
}

impl Sipping {
    fn connect(http: Http, id: &str) -> Self {
        let mut stream = http.connect().unwrap();
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        write!(
            stream,
            "GET /v1/processes/{id}/connect?from=0&framing=raw HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n",
            stream.peer_addr().unwrap()
        )
        .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        Self { stream, taken: Vec::new() }
    }

    fn sip(&mut self) {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        self.taken.push(byte[0]);
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut taken: Vec<u8> = self.taken.drain(..count.min(self.taken.len())).collect();
        let have = taken.len();
        taken.resize(count, 0);
        self.stream.read_exact(&mut taken[have..]).unwrap();
        taken
    }

    /// The next frame: its kind and payload.
    fn frame(&mut self) -> (u8, Vec<u8>) {
        let start = self.bytes(2);
        let len = match start[1] {
            126 => u64::from(u16::from_be_bytes(self.bytes(2).try_into().unwrap())),
            127 => u64::from_be_bytes(self.bytes(8).try_into().unwrap()),
            small => u64::from(small),
        };
        (start[0] & 0x0f, self.bytes(len as usize))
    }
}

/// What a laggard is told: everything in order, `became_live` before the first gap, right bytes after each.
fn told_in_order(mut next: impl FnMut() -> Option<Result<Vec<u8>, Value>>, bytes: u64) -> (u64, u64) {
    let (mut offset, mut missed, mut became_live) = (0, 0, false);
    loop {
        match next() {
            Some(Ok(bytes)) => {
                check(offset, &bytes);
                offset += bytes.len() as u64;
            }
            Some(Err(frame)) => match frame["type"].as_str().unwrap() {
                "ready" => assert_eq!(frame["offset"], 0),
                "error" => {
                    assert_eq!(frame["code"], "became_live");
                    became_live = true;
                }
                "gap" => {
                    assert!(became_live, "told before it misses anything");
                    assert_eq!(frame["from"], offset, "a gap begins where the bytes end");
                    let to = frame["to"].as_u64().unwrap();
                    assert!(to > offset && to <= bytes);
                    missed += to - offset;
                    offset = to;
                }
                "exit" => {
                    assert_eq!(frame["offset"], bytes);
                    assert_eq!(offset, bytes, "every byte was given or announced");
                    assert!(became_live && missed > 0);
                    return (offset, missed);
                }
                other => panic!("unexpected {other}"),
            },
            None => panic!("closed at {offset}"),
        }
    }
}

#[test]
fn a_client_that_stalls_holds_the_program_up_for_ten_seconds_and_nobody_else() {
    const BYTES: u64 = 300 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let sipped = start_counting(&outlive, BYTES, None);
    let stopped = start_counting(&outlive, BYTES, None);
    let mut sipping = Sipping::connect(http, &sipped);
    let mut stopping = Socket::connect(http, &stopped, "from=0&framing=raw", false);
    let over = AtomicBool::new(false);
    let (released, slowest) = std::thread::scope(|scope| {
        let _over = Finally(&over);
        let sips = scope.spawn(|| {
            while !over.load(SeqCst) {
                sipping.sip();
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        // Whatever else anybody wants is done meanwhile.
        let others = scope.spawn(|| {
            let (mut slowest, mut turns) = (Duration::ZERO, 0);
            while !over.load(SeqCst) {
                let mut timed = |work: &dyn Fn()| {
                    let begun = Instant::now();
                    work();
                    slowest = slowest.max(begun.elapsed());
                };
                timed(&|| assert_eq!(http.get("/v1/processes").status, 200));
                timed(&|| {
                    let answer = http.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] }));
                    assert_eq!(answer.json["stdout"], "x\n");
                });
                timed(&|| {
                    let spec = json!({ "command": "echo up; sleep 100", "shell": true });
                    let id = http.post("/v1/processes", &spec).json["id"].as_str().unwrap().to_owned();
                    Socket::connect(http, &id, "from=0", true).read_until("up");
                    let info = http.post(&format!("/v1/processes/{id}/kill?waitMs=5000"), &Value::Null).json;
                    assert_eq!(info["status"], "exited", "{info}");
                });
                timed(&|| {
                    let mut viewer = Socket::connect(http, &stopped, "tail=10&role=viewer", true);
                    assert!(matches!(viewer.next(), Frame::Bytes { .. }));
                });
                turns += usize::from(!over.load(SeqCst));
            }
            println!("{turns} turns of other work");
            assert!(turns > 0, "nothing was done while programs were held up");
            slowest
        });
        let begun = Instant::now();
        go(&outlive, &sipped);
        go(&outlive, &stopped);
        let mut released = Vec::new();
        for id in [&sipped, &stopped] {
            assert_eq!(outlive.wait_exit(id)["exitCode"], 0);
            released.push(begun.elapsed());
        }
        over.store(true, SeqCst);
        sips.join().unwrap();
        (released, others.join().unwrap())
    });
    println!("programs done after {released:?}; slowest other call {slowest:?}");
    for took in released {
        assert!(took > Duration::from_secs(9), "a laggard is waited for");
    }
    let (_, missed) = told_in_order(
        || match stopping.next() {
            Frame::Bytes { bytes, .. } => Some(Ok(bytes)),
            Frame::Control(frame) => Some(Err(frame)),
            Frame::Closed(_) => None,
        },
        BYTES,
    );
    println!("the one that stopped missed {missed} bytes and knows which");
    let (_, missed) = told_in_order(
        || loop {
            match sipping.frame() {
                (1, text) => return Some(Err(serde_json::from_slice(&text).unwrap())),
                (2, bytes) => return Some(Ok(bytes)),
                (8, _) => return None,
                _ => {}
            }
        },
        BYTES,
    );
    println!("the one that sipped missed {missed} bytes and knows which");
}

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
fn the_hold_follows_what_is_acknowledged() {
    const BYTES: u64 = 20 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, Some(1 << 20));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    socket.control(json!({ "type": "ack", "offset": 0 }));
    go(&outlive, &id);
    let mut acknowledged = 0;
    while socket.offset < BYTES / 2 {
        // Reads all that comes; without a word from it the program gets no further than a ring.
        let stopped = until_stopped(http, &id);
        assert!(stopped > acknowledged && stopped < acknowledged + (3 << 20), "{acknowledged}..{stopped}");
        read_until(&mut socket, stopped);
        acknowledged = stopped;
        socket.control(json!({ "type": "ack", "offset": acknowledged }));
    }
    // What was read but not acknowledged is still there for whoever comes back.
    let stopped = until_stopped(http, &id);
    read_until(&mut socket, stopped);
    socket.cut();
    let mut socket = Socket::connect(http, &id, &format!("from={acknowledged}"), true);
    assert_eq!(socket.offset, acknowledged);
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES);
}

#[test]
fn no_more_is_under_way_than_a_client_says_it_can_take() {
    const WINDOW: u64 = 100_000;
    let outlive = Outlive::start();
    let id = start_counting(&outlive, MB, None);
    go(&outlive, &id);
    outlive.wait_exit(&id);
    let mut socket = Socket::connect(outlive.http(), &id, &format!("from=0&window={WINDOW}"), true);
    let mut end = 0;
    while end < MB {
        end = (end + WINDOW).min(MB);
        while socket.offset < end {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
                other => panic!("{other:?} at {}", socket.offset),
            }
        }
        assert_eq!(socket.offset, end);
        if end < MB {
            // Said in turn with the output: the answer would stand behind more of it.
            socket.control(json!({ "type": "nonsense" }));
            let answer = socket.next();
            assert!(matches!(&answer, Frame::Control(frame) if frame["code"] == "invalid_frame"), "{answer:?}");
        }
        socket.control(json!({ "type": "ack", "offset": end }));
    }
    assert!(matches!(socket.next(), Frame::Control(frame) if frame["type"] == "exit"));
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
