//! Readers that fall behind: they stop reading, or almost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::counting::{MB, check, go, start_counting};
use crate::harness::Outlive;
use crate::harness::http::Http;
use crate::harness::socket::{Frame, Socket};
use crate::meanwhile::Finally;

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
