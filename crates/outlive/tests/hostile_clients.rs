//! Hostile clients. During each attack memory stays bounded, other clients are served, and the server survives.
//!
//! The latency of the other clients is printed and not asserted: it depends on the machine as much as on outlive.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use harness::socket::{Frame, Socket};
use harness::{Outlive, SetOnDrop, Setup, eventually, proc};
use serde_json::json;

/// How much more memory than when idle the server may use at any moment.
const MAX_GROWTH_KIB: u64 = 64 << 10;

fn start_with_token() -> Outlive {
    let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    // What the server allocates once is allocated now.
    for _ in 0..20 {
        assert_eq!(outlive.get("/v1/health").status, 200);
    }
    outlive
}

/// Runs `attack` while another client requests the health all the time.
fn serve_during<T>(what: &str, outlive: &Outlive, attack: impl FnOnce() -> T) -> T {
    let pid = outlive.server_pid();
    let idle = proc::memory_kib(pid, "VmRSS");
    let mut before: Vec<Duration> = (0..100).map(|_| time_request(outlive)).collect();
    let stop = AtomicBool::new(false);
    let (result, mut during) = std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let mut times = Vec::new();
            while !stop.load(SeqCst) {
                times.push(time_request(outlive));
            }
            times
        });
        let result = {
            let _stop = SetOnDrop(&stop);
            attack()
        };
        (result, prober.join().unwrap())
    });
    let peak = proc::memory_kib(pid, "VmHWM");
    eprintln!(
        "{what}: idle {} KiB, peak +{} KiB; health p50/p99 {:?}/{:?} before, {:?}/{:?} during ({} requests)",
        idle,
        peak.saturating_sub(idle),
        quantile(&mut before, 0.5),
        quantile(&mut before, 0.99),
        quantile(&mut during, 0.5),
        quantile(&mut during, 0.99),
        during.len(),
    );
    assert_eq!(outlive.server_pid(), pid, "the same server as before");
    assert!(peak < idle + MAX_GROWTH_KIB, "{what}: {idle} KiB idle, {peak} KiB at the peak");
    assert!(!during.is_empty());
    result
}

/// Times a request on a new connection.
fn time_request(outlive: &Outlive) -> Duration {
    let started = Instant::now();
    assert_eq!(outlive.get("/v1/health").status, 200);
    started.elapsed()
}

fn quantile(times: &mut [Duration], fraction: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * fraction) as usize]
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[test]
fn half_open_connections_do_not_exhaust_the_server() {
    raise_descriptor_limit();
    let outlive = start_with_token();
    serve_during("half-open connections", &outlive, || {
        let mut open = Vec::new();
        for number in 0..10_000 {
            match outlive.http().connect() {
                Ok(mut stream) => {
                    if number % 2 == 0 {
                        let _ = stream.write_all(b"GET / HT");
                    }
                    open.push(stream);
                }
                // The test has run out of descriptors or ports.
                Err(_) => break,
            }
        }
        assert!(open.len() > 5_000, "{}", open.len());
    });
}

/// Sends as many of the bytes as the socket takes without waiting, and never reads the responses.
fn send_and_never_read(outlive: &Outlive, bytes: &[u8]) -> Option<TcpStream> {
    let stream = outlive.http().connect().ok()?;
    stream.set_nonblocking(true).unwrap();
    let mut stream = stream;
    let _ = stream.write(bytes);
    Some(stream)
}

// Regression: such a connection could not be evicted, so that many of them took all connection slots.
#[test]
fn clients_that_never_read_do_not_exhaust_the_server() {
    raise_descriptor_limit();
    let outlive = start_with_token();
    let requests = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(160);
    serve_during("unread responses", &outlive, || {
        let open: Vec<_> = (0..4_000).map_while(|_| send_and_never_read(&outlive, &requests)).collect();
        assert!(open.len() > 2_000, "{}", open.len());
        for _ in 0..50 {
            time_request(&outlive);
        }
    });
}

// Regression: the server buffered hundreds of responses for each of these HTTP/2 connections.
#[test]
fn http2_clients_that_never_read_do_not_exhaust_the_server() {
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }
    raise_descriptor_limit();
    let outlive = start_with_token();
    let path = "/v1/openapi.json";
    let mut headers = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    headers.extend_from_slice(path.as_bytes());
    headers.extend_from_slice(b"\x01\x09localhost");
    let mut requests = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // The flow control windows are as large as possible.
    requests.extend(frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    requests.extend(frame(8, 0, 0, &0x7ffe_0000_u32.to_be_bytes()));
    for number in 0..250 {
        requests.extend(frame(1, 5, 1 + 2 * number, &headers));
    }
    for _ in 0..2_500 {
        requests.extend(frame(6, 0, 0, b"12345678"));
    }
    serve_during("unread responses by HTTP/2", &outlive, || {
        let open: Vec<_> = (0..2_000).map_while(|_| send_and_never_read(&outlive, &requests)).collect();
        assert!(open.len() > 1_000, "{}", open.len());
        for _ in 0..50 {
            time_request(&outlive);
        }
    });
}

#[test]
fn slowly_written_headers_do_not_exhaust_the_server() {
    raise_descriptor_limit();
    let outlive = start_with_token();
    serve_during("slow headers", &outlive, || {
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
fn a_flood_of_headers_does_not_exhaust_the_server() {
    let outlive = start_with_token();
    serve_during("header flood", &outlive, || {
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
fn a_body_of_a_gigabyte_is_refused_without_buffering() {
    let outlive = start_with_token();
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
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    };
    let head = "POST /v1/processes HTTP/1.1\nhost: localhost\ncontent-type: application/json\n";
    serve_during("a body of 1 GB", &outlive, || {
        let known = format!("{head}authorization: Bearer the-admin\n");
        for chunked in [false, true] {
            let length = if chunked { "transfer-encoding: chunked" } else { "content-length: 1073741824" };
            // A client that is still writing may lose the response with the connection.
            let response = send(&format!("{known}{length}\n\n"), chunked);
            assert!(response.is_empty() || response.starts_with("HTTP/1.1 413"), "{response}");
            let response = send(&format!("{head}{length}\n\n"), chunked);
            assert!(response.is_empty() || response.starts_with("HTTP/1.1 401"), "{response}");
        }
    });
}

#[test]
fn a_frame_of_a_hundred_megabytes_is_refused_without_buffering() {
    let outlive = start_with_token();
    let id = outlive.start_shell("cat");
    serve_during("a frame of 100 MB", &outlive, || {
        for _ in 0..8 {
            let query = "access_token=the-admin";
            let mut socket = Socket::connect(outlive.http(), &id, query, true);
            let raw = socket.inner.get_mut();
            // The header of a binary frame of 100 MB, and then as many bytes as the server accepts.
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
fn compressed_bodies_and_frames_are_refused() {
    let outlive = start_with_token();
    let id = outlive.start_shell("cat");
    serve_during("compressed bombs", &outlive, || {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let headers = [
                ("authorization", "Bearer the-admin"),
                ("content-type", "application/json"),
                ("content-encoding", encoding),
            ];
            let response = outlive.http().send("POST", "/v1/processes", &headers, Some(&vec![0x1f; 1 << 20]));
            assert_eq!((response.status, response.code()), (415, "unsupported_encoding"));
        }
        // The server does not negotiate the offered compression, so a compressed frame is an error.
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
        eventually("the socket is closed", || (outlive.info(&id)["attachments"] == 0).then_some(()));
    });
}

/// Set OUTLIVE_TEST_EVENTS=1000000 for a longer run; that takes minutes in a debug build.
#[test]
fn event_followers_that_never_read_do_not_exhaust_the_server() {
    let outlive = start_with_token();
    let count: usize = std::env::var("OUTLIVE_TEST_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_000);
    let id = outlive.start_shell("cat");
    let follow = || outlive.http().open("GET", "/v1/events", &[("authorization", "Bearer the-admin")], None).unwrap();
    let followers: Vec<_> = (0..10).map(|_| follow()).collect();
    serve_during(&format!("{count} events"), &outlive, || {
        const BATCH: usize = 100;
        let mut stream = outlive.http().connect().unwrap();
        let mut reader = stream.try_clone().unwrap();
        let body = |number: usize| json!({ "label": format!("label {number}") }).to_string();
        let mut responses = 0;
        let mut buffer = vec![0; 1 << 16];
        let mut unparsed = Vec::new();
        for batch in 0..count / BATCH {
            let mut requests = String::new();
            for number in 0..BATCH {
                let body = body(batch * BATCH + number);
                let _ = write!(
                    requests,
                    "PATCH /v1/processes/{id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer the-admin\r\n\
                     content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
            stream.write_all(requests.as_bytes()).unwrap();
            while responses < (batch + 1) * BATCH {
                let got = reader.read(&mut buffer).unwrap();
                assert!(got > 0);
                unparsed.extend_from_slice(&buffer[..got]);
                responses += count_responses(&mut unparsed);
            }
        }
    });
    drop(followers);
}

/// Counts the response heads in the received bytes, and keeps the tail that may be part of the next head.
fn count_responses(received: &mut Vec<u8>) -> usize {
    const HEAD: &[u8] = b"HTTP/1.1 200";
    let count = received.windows(HEAD.len()).filter(|window| *window == HEAD).count();
    let last = received.len().saturating_sub(HEAD.len() - 1);
    received.drain(..last);
    count
}
