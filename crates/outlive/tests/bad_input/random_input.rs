//! Random bytes as bodies, as frames, and instead of HTTP.

use std::io::{Read, Write};

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::socket::Socket;
use crate::harness::{self, Outlive};
use crate::{JSON, assert_problem};

/// A xorshift generator with a fixed seed, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, max_len: usize) -> Vec<u8> {
        let len = self.below(max_len + 1);
        (0..len).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn random_bodies_do_not_crash_the_server() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let exited = outlive.start_shell("echo x");
    outlive.wait_exit(&exited);
    let mut random = Random(0x5eed_0123_4567_89ab);
    let paths = ["start", "signal", "wait", "input", "resize"].map(|rest| format!("/v1/processes/{exited}/{rest}"));
    let paths = ["/v1/processes", "/v1/processes/run", "/v1/processes/config", "/v1/config"]
        .into_iter()
        .map(str::to_owned)
        .chain(paths.into_iter().skip(1));
    for path in paths {
        for _ in 0..60 {
            let response = outlive.http().send("POST", &path, JSON, Some(&random.bytes(200)));
            assert!((400..500).contains(&response.status), "{path}: {}", response.text());
            assert_problem(&response, response.status, response.code(), &path);
        }
    }
    // Valid bodies with a few mutated bytes reach deeper into the parsers.
    let valid = [
        (
            "/v1/processes/run",
            json!({ "command": "true", "args": ["a"], "timeoutMs": 900, "env": { "A": "b" }, "maxOutputBytes": 9 }),
        ),
        (
            "/v1/processes",
            json!({ "command": "true", "tag": "t", "start": false, "pty": { "cols": 9, "rows": 9 }, "limits": { "openFiles": 99 } }),
        ),
    ];
    for (path, body) in valid {
        for _ in 0..150 {
            let mut bytes = body.to_string().into_bytes();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.next() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\"{}[]:,0-e\\u"[random.below(12)]),
                }
            }
            let response = outlive.http().send("POST", path, JSON, Some(&bytes));
            assert!(response.status < 500, "{path} {}: {}", String::from_utf8_lossy(&bytes), response.text());
        }
    }
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
    assert_eq!(outlive.server_pid(), server);
}

#[test]
fn random_frames_crash_neither_the_server_nor_the_program() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let id = outlive.start_process(
        json!({ "command": "stty raw -echo; echo up; exec cat >/dev/null", "shell": true, "tty": true }),
    );
    outlive.wait_output(&id, "up");
    let mut random = Random(0xfeed_0123_4567_89ab);
    let frames = [
        r#"{"type":"input","data":"x"}"#,
        r#"{"type":"input"}"#,
        r#"{"type":"input","data":"?","encoding":"base64"}"#,
        r#"{"type":"input","data":"x","encoding":"hex"}"#,
        r#"{"type":"resize","cols":80,"rows":24}"#,
        r#"{"type":"resize","cols":-1,"rows":24}"#,
        r#"{"type":"signal","signal":"WINCH"}"#,
        r#"{"type":"signal","signal":99}"#,
        r#"{"type":"ack","offset":18446744073709551615}"#,
        r#"{"type":"ack","offset":0}"#,
        r#"{"type":"dance"}"#,
        "{}",
        "[]",
        "",
        "null",
    ];
    for socket in ["connect", "terminal/ws"] {
        for _ in 0..20 {
            let path = format!("/v1/processes/{id}/{socket}");
            let mut client = Socket::open(outlive.http(), &path, false, None).unwrap();
            for _ in 0..30 {
                let message = match random.below(5) {
                    0 => Message::Binary(random.bytes(300).into()),
                    1 => Message::Text(String::from_utf8_lossy(&random.bytes(300)).into_owned().into()),
                    2 => Message::Ping(random.bytes(100).into()),
                    3 => Message::Pong(random.bytes(100).into()),
                    _ => Message::Text(frames[random.below(frames.len())].into()),
                };
                if client.inner.send(message).is_err() {
                    break;
                }
            }
            // Then bytes that are not even frames.
            let _ = client.inner.get_mut().write_all(&random.bytes(500));
            client.disconnect();
        }
    }
    // A message beyond the limit closes that connection, and nothing else.
    let mut client = Socket::connect(outlive.http(), &id, "", false);
    let _ = client.inner.send(Message::Binary(vec![b'x'; 3 << 20].into()));
    let mut last = client.next();
    while !matches!(last, harness::socket::Frame::Closed(_)) {
        last = client.next();
    }
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
    assert_eq!(outlive.server_pid(), server);
    assert_eq!(outlive.info(&id)["status"], "running");
    let metrics = outlive.get("/metrics");
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let counted = text.lines().filter(|line| line.contains("malformed")).any(|line| {
        line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).is_some_and(|number| number > 0.0)
    });
    assert!(counted, "malformed frames are counted: {text}");
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let mut random = Random(0xabcd_0123_4567_89ab);
    for _ in 0..50 {
        let mut stream = outlive.http().connect().unwrap();
        let mut garbage = random.bytes(2_000);
        garbage.extend_from_slice(b"\r\n\r\n");
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        assert!(!response.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&response));
    }
    assert_eq!(outlive.server_pid(), server);
}
