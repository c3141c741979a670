//! Readers that stop reading, or read almost nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, SetOnDrop, Setup};
use crate::numbered_output::{MB, assert_bytes, release, start_printer};

/// A WebSocket client that can read single bytes from its connection.
struct TricklingClient {
    stream: TcpStream,
    /// Bytes that were read one at a time and are not parsed yet.
    buffered: Vec<u8>,
}

impl TricklingClient {
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
        Self { stream, buffered: Vec::new() }
    }

    fn read_one_byte(&mut self) {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        self.buffered.push(byte[0]);
    }

    fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.buffered.drain(..count.min(self.buffered.len())).collect();
        let available = bytes.len();
        bytes.resize(count, 0);
        self.stream.read_exact(&mut bytes[available..]).unwrap();
        bytes
    }

    /// Reads the next frame; returns its opcode and payload.
    fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let start = self.read_bytes(2);
        let len = match start[1] {
            126 => u64::from(u16::from_be_bytes(self.read_bytes(2).try_into().unwrap())),
            127 => u64::from_be_bytes(self.read_bytes(8).try_into().unwrap()),
            small => u64::from(small),
        };
        (start[0] & 0x0f, self.read_bytes(len as usize))
    }

    /// Reads the next message; offset and stream of bytes are left at 0.
    fn next(&mut self) -> Frame {
        loop {
            match self.read_frame() {
                (1, text) => return Frame::Control(serde_json::from_slice(&text).unwrap()),
                (2, bytes) => return Frame::Bytes { offset: 0, stream: 0, bytes },
                (8, _) => return Frame::Closed(None),
                _ => {}
            }
        }
    }
}

/// Reads a stalled client to its exit frame: `became_live` comes before the first gap, and every byte is either
/// received or announced as missing. Returns the number of missed bytes.
fn read_with_gaps(mut next: impl FnMut() -> Frame, total: u64) -> u64 {
    let (mut offset, mut missed, mut became_live) = (0, 0, false);
    loop {
        let frame = match next() {
            Frame::Bytes { bytes, .. } => {
                assert_bytes(offset, &bytes);
                offset += bytes.len() as u64;
                continue;
            }
            Frame::Control(frame) => frame,
            Frame::Closed(_) => panic!("closed at {offset}"),
        };
        match frame["type"].as_str().unwrap() {
            "ready" => assert_eq!(frame["offset"], 0),
            "error" => {
                assert_eq!(frame["code"], "became_live");
                became_live = true;
            }
            "gap" => {
                assert!(became_live, "a gap before became_live");
                assert_eq!(frame["from"], offset, "a gap starts where the bytes end");
                let to = frame["to"].as_u64().unwrap();
                assert!(to > offset && to <= total);
                missed += to - offset;
                offset = to;
            }
            "exit" => {
                assert_eq!(frame["offset"], total);
                assert_eq!(offset, total, "every byte was received or announced as missing");
                assert!(became_live && missed > 0);
                return missed;
            }
            other => panic!("unexpected {other}"),
        }
    }
}

/// Lists, runs, starts, attaches and kills until `stop` is set; returns how long the slowest of these took.
fn do_other_work(http: Http, stalled: &str, stop: &AtomicBool) -> Duration {
    let (mut slowest, mut rounds) = (Duration::ZERO, 0);
    while !stop.load(SeqCst) {
        let mut time = |work: &dyn Fn()| {
            let started = Instant::now();
            work();
            slowest = slowest.max(started.elapsed());
        };
        time(&|| assert_eq!(http.get("/v1/processes").status, 200));
        time(&|| {
            let response = http.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] }));
            assert_eq!(response.json["stdout"], "x\n");
        });
        time(&|| {
            let spec = json!({ "command": "echo up; sleep 100", "shell": true });
            let id = http.post("/v1/processes", &spec).json["id"].as_str().unwrap().to_owned();
            Socket::connect(http, &id, "from=0", true).read_until("up");
            let info = http.post(&format!("/v1/processes/{id}/kill?waitMs=5000"), &Value::Null).json;
            assert_eq!(info["status"], "exited", "{info}");
        });
        time(&|| {
            let mut viewer = Socket::connect(http, stalled, "tail=10&role=viewer", true);
            assert!(matches!(viewer.next(), Frame::Bytes { .. }));
        });
        rounds += usize::from(!stop.load(SeqCst));
    }
    println!("{rounds} rounds of other work");
    assert!(rounds > 0, "no other work was done while the programs were blocked");
    slowest
}

#[test]
fn a_stalled_client_blocks_only_its_program_and_for_ten_seconds() {
    const BYTES: u64 = 300 * MB;
    let outlive = Outlive::start_with(Setup::without_history());
    let http = outlive.http();
    let (trickled, stalled) = (start_printer(&outlive, BYTES, None), start_printer(&outlive, BYTES, None));
    let mut trickling_client = TricklingClient::connect(http, &trickled);
    let mut stalled_client = Socket::connect(http, &stalled, "from=0&framing=raw", false);
    let stop = AtomicBool::new(false);
    let (exit_times, slowest) = std::thread::scope(|scope| {
        let _stop = SetOnDrop(&stop);
        let trickle = scope.spawn(|| {
            while !stop.load(SeqCst) {
                trickling_client.read_one_byte();
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        let others = scope.spawn(|| do_other_work(http, &stalled, &stop));
        let started = Instant::now();
        release(&outlive, &trickled);
        release(&outlive, &stalled);
        let exit_times = [&trickled, &stalled].map(|id| {
            assert_eq!(outlive.wait_exit(id)["exitCode"], 0);
            started.elapsed()
        });
        stop.store(true, SeqCst);
        trickle.join().unwrap();
        (exit_times, others.join().unwrap())
    });
    println!("programs exited after {exit_times:?}; slowest other request {slowest:?}");
    assert!(exit_times.iter().all(|took| *took > Duration::from_secs(9)), "a program did not wait for its reader");
    let missed = read_with_gaps(|| stalled_client.next(), BYTES);
    println!("the stalled client missed {missed} bytes");
    let missed = read_with_gaps(|| trickling_client.next(), BYTES);
    println!("the trickling client missed {missed} bytes");
}
