//! What hostile clients do. In each: memory stays bounded, others are served, and it is as before afterwards.
//!
//! How long others had to wait is printed, not asserted: it says as much about the machine as about outlive.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use harness::socket::{Frame, Socket};
use harness::{Outlive, Setup, eventually, proc};
use serde_json::json;

/// More than idle, at any moment.
const MOST_KIB: u64 = 64 << 10;

fn with_token() -> Outlive {
    let outlive = Outlive::with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    // Everything that is made once is made now.
    for _ in 0..20 {
        assert_eq!(outlive.get("/v1/health").status, 200);
    }
    outlive
}

/// Does the harm while another client asks for the health all the time.
fn under_attack<T>(what: &str, outlive: &Outlive, harm: impl FnOnce() -> T) -> T {
    let pid = outlive.server_pid();
    let idle = proc::memory_kib(pid, "VmRSS");
    let mut before: Vec<Duration> = (0..100).map(|_| ask(outlive)).collect();
    let over = AtomicBool::new(false);
    let (result, mut during) = std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let mut times = Vec::new();
            while !over.load(Relaxed) {
                times.push(ask(outlive));
            }
            times
        });
        let result = {
            // Also if it panics.
            let _over = Finally(&over);
            harm()
        };
        (result, prober.join().unwrap())
    });
    let peak = proc::memory_kib(pid, "VmHWM");
    eprintln!(
        "{what}: idle {} KiB, peak +{} KiB; health p50/p99 {:?}/{:?} before, {:?}/{:?} during ({} asked)",
        idle,
        peak.saturating_sub(idle),
        quantile(&mut before, 0.5),
        quantile(&mut before, 0.99),
        quantile(&mut during, 0.5),
        quantile(&mut during, 0.99),
        during.len(),
    );
    assert_eq!(outlive.server_pid(), pid, "the same server as before");
    assert!(peak < idle + MOST_KIB, "{what}: {idle} KiB idle, {peak} KiB at the peak");
    assert!(!during.is_empty());
    result
}

struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// On a connection of its own, as somebody who comes new.
fn ask(outlive: &Outlive) -> Duration {
    let begun = Instant::now();
    assert_eq!(outlive.get("/v1/health").status, 200);
    begun.elapsed()
}

fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[test]
fn ten_thousand_half_open_connections() {
    allow_many_files();
    let outlive = with_token();
    under_attack("half-open connections", &outlive, || {
        let mut open = Vec::new();
        for number in 0..10_000 {
            match outlive.http().connect() {
                Ok(mut stream) => {
                    if number % 2 == 0 {
                        let _ = stream.write_all(b"GET / HT");
                    }
                    open.push(stream);
                }
                // Out of our own descriptors or ports: enough.
                Err(_) => break,
            }
        }
        assert!(open.len() > 5_000, "{}", open.len());
    });
}

/// Sends as much as goes without waiting, to somebody who will never read the answers.
fn send_and_never_read(outlive: &Outlive, bytes: &[u8]) -> Option<TcpStream> {
    let stream = outlive.http().connect().ok()?;
    stream.set_nonblocking(true).unwrap();
    let mut stream = stream;
    let _ = stream.write(bytes);
    Some(stream)
}

/// Such a client counted as not yet heard, could not be sent away, and its friends took all places.
#[test]
fn many_who_ask_and_never_read() {
    allow_many_files();
    let outlive = with_token();
    let asks = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(160);
    under_attack("unread answers", &outlive, || {
        let open: Vec<_> = (0..4_000).map_while(|_| send_and_never_read(&outlive, &asks)).collect();
        assert!(open.len() > 2_000, "{}", open.len());
        for _ in 0..50 {
            ask(&outlive);
        }
    });
}

/// The same by HTTP/2 made the server keep hundreds of answers for each.
#[test]
fn many_who_ask_by_http2_and_never_read() {
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }
    allow_many_files();
    let outlive = with_token();
    let path = "/v1/openapi.json";
    let mut headers = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    headers.extend_from_slice(path.as_bytes());
    headers.extend_from_slice(b"\x01\x09localhost");
    let mut asks = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Windows as large as they may be.
    asks.extend(frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    asks.extend(frame(8, 0, 0, &0x7ffe_0000_u32.to_be_bytes()));
    for number in 0..250 {
        asks.extend(frame(1, 5, 1 + 2 * number, &headers));
    }
    for _ in 0..2_500 {
        asks.extend(frame(6, 0, 0, b"12345678"));
    }
    under_attack("unread answers by HTTP/2", &outlive, || {
        let open: Vec<_> = (0..2_000).map_while(|_| send_and_never_read(&outlive, &asks)).collect();
        assert!(open.len() > 1_000, "{}", open.len());
        for _ in 0..50 {
            ask(&outlive);
        }
    });
}

#[test]
fn slowly_written_headers() {
    allow_many_files();
    let outlive = with_token();
    under_attack("slow headers", &outlive, || {
        let mut open: Vec<TcpStream> = (0..1_000).map(|_| outlive.http().connect().unwrap()).collect();
        for stream in &mut open {
            let _ = stream.write_all(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n");
        }
        for round in 0..60 {
            for stream in &mut open {
                let _ = stream.write_all(format!("x-{round}: {}\r\n", "y".repeat(900)).as_bytes());
            }
        }
    });
}

#[test]
fn a_flood_of_headers() {
    let outlive = with_token();
    under_attack("header flood", &outlive, || {
        for _ in 0..50 {
            let mut stream = outlive.http().connect().unwrap();
            let line = format!("x-y: {}\r\n", "z".repeat(1000));
            let _ = stream.write_all(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n");
            for _ in 0..5_000 {
                if stream.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_body_of_a_gigabyte() {
    let outlive = with_token();
    let piece = vec![b'x'; 1 << 20];
    let send = |head: &str, chunked: bool| {
        let mut stream = outlive.http().connect().unwrap();
        stream.write_all(head.replace('\n', "\r\n").as_bytes()).unwrap();
        for _ in 0..1024 {
            let framed = if chunked { [b"100000\r\n", &piece[..], b"\r\n"].concat() } else { piece.clone() };
            if stream.write_all(&framed).is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = "POST /v1/processes HTTP/1.1\nhost: localhost\ncontent-type: application/json\n";
    under_attack("a body of 1 GB", &outlive, || {
        let known = format!("{head}authorization: Bearer the-admin\n");
        for chunked in [false, true] {
            let length = if chunked { "transfer-encoding: chunked" } else { "content-length: 1073741824" };
            // To who still writes, the answer may be lost with the connection.
            let answer = send(&format!("{known}{length}\n\n"), chunked);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
            let answer = send(&format!("{head}{length}\n\n"), chunked);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 401"), "{answer}");
        }
    });
}

#[test]
fn a_frame_of_a_hundred_megabytes() {
    let outlive = with_token();
    let id = outlive.shell("cat");
    under_attack("a frame of 100 MB", &outlive, || {
        for _ in 0..8 {
            let query = "access_token=the-admin";
            let mut socket = Socket::connect(outlive.http(), &id, query, true);
            let raw = socket.inner.get_mut();
            // A binary frame with a length of 100 MB, and then as much as is taken.
            let mut head = vec![0x82, 0xff];
            head.extend_from_slice(&(100_u64 << 20).to_be_bytes());
            head.extend_from_slice(&[1, 2, 3, 4]);
            raw.write_all(&head).unwrap();
            let piece = vec![0; 1 << 20];
            for _ in 0..100 {
                if raw.write_all(&piece).is_err() {
                    break;
                }
            }
            assert!(matches!(socket.next(), Frame::Closed(_)));
        }
    });
    assert_eq!(outlive.info(&id)["outputEnd"], 0);
}

#[test]
fn a_bomb_of_compressed_nothing() {
    let outlive = with_token();
    let id = outlive.shell("cat");
    under_attack("compressed bombs", &outlive, || {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let headers = [
                ("authorization", "Bearer the-admin"),
                ("content-type", "application/json"),
                ("content-encoding", encoding),
            ];
            let answer = outlive.http().send("POST", "/v1/processes", &headers, Some(&vec![0x1f; 1 << 20]));
            assert_eq!((answer.status, answer.code()), (415, "unsupported_encoding"));
        }
        // A client that offers compression gets a socket without; a compressed frame is then an error.
        let path = format!("/v1/processes/{id}/connect?access_token=the-admin");
        let headers = [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ("sec-websocket-extensions", "permessage-deflate"),
        ];
        let open = outlive.http().open("GET", &path, &headers, None).unwrap();
        assert_eq!((open.status, open.header("sec-websocket-extensions")), (101, None));
        let mut raw = open.stream().try_clone().unwrap();
        raw.write_all(&[0xc2, 0x81, 1, 2, 3, 4, 0]).unwrap();
        eventually("it is closed", || (outlive.info(&id)["attachments"] == 0).then_some(()));
    });
}

/// Set OUTLIVE_TEST_EVENTS=1000000 for the whole of it; that takes minutes in a debug build.
#[test]
fn very_many_events_and_a_follower_that_does_not_read() {
    let outlive = with_token();
    let count: usize = std::env::var("OUTLIVE_TEST_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_000);
    let id = outlive.shell("cat");
    let follow = || outlive.http().open("GET", "/v1/events", &[("authorization", "Bearer the-admin")], None).unwrap();
    let stuck: Vec<_> = (0..10).map(|_| follow()).collect();
    under_attack(&format!("{count} events"), &outlive, || {
        const AT_ONCE: usize = 100;
        let mut stream = outlive.http().connect().unwrap();
        let mut reader = stream.try_clone().unwrap();
        let body = |number: usize| json!({ "label": format!("label {number}") }).to_string();
        let mut answered = 0;
        let mut room = vec![0; 1 << 16];
        let mut rest = Vec::new();
        for batch in 0..count / AT_ONCE {
            let mut requests = String::new();
            for number in 0..AT_ONCE {
                let body = body(batch * AT_ONCE + number);
                let _ = write!(
                    requests,
                    "PATCH /v1/processes/{id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer the-admin\r\n\
                     content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
            stream.write_all(requests.as_bytes()).unwrap();
            while answered < (batch + 1) * AT_ONCE {
                let got = reader.read(&mut room).unwrap();
                assert!(got > 0);
                rest.extend_from_slice(&room[..got]);
                answered += take_answers(&mut rest);
            }
        }
    });
    drop(stuck);
}

/// Counts the heads in what has arrived, and keeps what may be the beginning of another one.
fn take_answers(arrived: &mut Vec<u8>) -> usize {
    const HEAD: &[u8] = b"HTTP/1.1 200";
    let count = arrived.windows(HEAD.len()).filter(|window| *window == HEAD).count();
    let last = arrived.len().saturating_sub(HEAD.len() - 1);
    arrived.drain(..last);
    count
}
