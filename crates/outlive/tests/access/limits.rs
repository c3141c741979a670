//! Network limits, each set by its flag and then reached.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup, eventually};

fn start_with_limits(limits: &[&str]) -> Outlive {
    let arguments = limits.iter().flat_map(|limit| ["--limit".to_owned(), (*limit).to_owned()]).collect();
    Outlive::start_with(Setup { arguments, ..Setup::default() })
}

fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

const REQUEST: &[u8] = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Opens a connection that has had one response and stays open.
fn open_answered(outlive: &Outlive) -> TcpStream {
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(REQUEST).unwrap();
    let mut buffer = [0; 4096];
    assert!(stream.read(&mut buffer).unwrap() > 0);
    stream
}

#[test]
fn connections_beyond_the_limit_are_refused_until_one_closes() {
    let outlive = start_with_limits(&["maxConnections=2"]);
    let first = open_answered(&outlive);
    let _second = open_answered(&outlive);
    let response = read_all(outlive.http().connect().unwrap());
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("too_many_connections"), "{response}");
    drop(first);
    eventually("a slot is free", || {
        let response = outlive.http().try_send("GET", "/v1/health", &[], None);
        response.ok().filter(|response| response.status == 200)
    });
}

/// An unauthenticated connection that has had a response and is idle is evicted for a new one.
#[test]
fn the_oldest_unauthenticated_connection_is_evicted() {
    let arguments = ["--limit", "maxStrangers=2"].map(str::to_owned).to_vec();
    let outlive = Outlive::start_with(Setup { arguments, token: Some("t".into()), ..Setup::default() });
    let first = open_answered(&outlive);
    let second = open_answered(&outlive);
    let third = open_answered(&outlive);
    assert_eq!(read_all(first), "", "the first is evicted");
    assert_eq!(outlive.get("/v1/health").status, 200);
    assert_eq!(read_all(second), "", "then the second");
    drop(third);
}

#[test]
fn a_slow_request_head_times_out() {
    let outlive = start_with_limits(&["headerTimeoutMs=200"]);
    let mut slow = outlive.http().connect().unwrap();
    slow.write_all(b"GET /v1/health HT").unwrap();
    assert_eq!(read_all(slow), "");
    assert_eq!(read_all(outlive.http().connect().unwrap()), "", "without a single byte too");
}

#[test]
fn a_slow_body_times_out() {
    let outlive = start_with_limits(&["bodyTimeoutMs=200"]);
    let mut slow = outlive.http().connect().unwrap();
    slow.write_all(b"POST /v1/processes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    let response = read_all(slow);
    assert!(response.starts_with("HTTP/1.1 408") && response.contains("body_too_slow"), "{response}");
}

#[test]
fn an_idle_connection_is_closed() {
    let outlive = start_with_limits(&["idleTimeoutMs=200"]);
    let idle = open_answered(&outlive);
    assert_eq!(read_all(idle), "");
}

#[test]
fn large_headers_and_bodies_are_refused() {
    let outlive = start_with_limits(&["maxHeaderBytes=10000", "maxBodyBytes=1000"]);
    let long = "x".repeat(20_000);
    let response = outlive.http().send("GET", "/v1/health", &[("x-long", &long)], None);
    assert_eq!(response.status, 431);
    let many: Vec<(String, &str)> = (0..200).map(|number| (format!("x-{number}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(outlive.http().send("GET", "/v1/health", &many, None).status, 431);
    let body = json!({ "command": "x".repeat(1_000) });
    let response = outlive.post("/v1/processes", &body);
    assert_eq!((response.status, response.code()), (413, "body_too_large"));
    let chunked = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let response = outlive.http().send("POST", "/v1/processes", &chunked, Some(b"{}"));
    assert_eq!((response.status, response.code()), (415, "unsupported_encoding"));
}

#[test]
fn large_socket_messages_are_refused() {
    let outlive = start_with_limits(&["maxMessageBytes=1000"]);
    let id = outlive.start_shell("cat");
    let mut socket = Socket::connect(outlive.http(), &id, "", true);
    socket.type_text(&"x".repeat(2_000));
    assert_eq!(socket.next(), Frame::Closed(Some(1009)));
}

#[test]
fn a_socket_without_pongs_is_closed() {
    let outlive = start_with_limits(&["socketTimeoutMs=1000"]);
    let id = outlive.start_shell("cat");
    // A client that never reads does not reply to pings either.
    let socket = Socket::connect(outlive.http(), &id, "", true);
    eventually("the attachment is closed", || (outlive.info(&id)["attachments"] == 0).then_some(()));
    drop(socket);
}

#[test]
fn core_limits_are_set_by_flag() {
    let outlive = start_with_limits(&[
        "maxConcurrentProcesses=1",
        "maxEvents=3",
        "maxAttachmentsPerProcess=1",
        "maxQueuedInputBytes=7",
    ]);
    let id = outlive.start_shell("cat");
    let response = outlive.post("/v1/processes", &json!({ "command": "cat" }));
    assert_eq!(response.status, 409, "{}", response.text());
    let _socket = Socket::connect(outlive.http(), &id, "", true);
    assert!(Socket::try_connect(outlive.http(), &id, "", true).is_err());
    outlive.kill_server();
    let config = outlive.get("/v1/config").json;
    assert_eq!((config["maxEvents"].as_u64(), config["maxQueuedInputBytes"].as_u64()), (Some(3), Some(7)));
}

#[test]
fn repeated_wrong_tokens_are_throttled_by_address() {
    // Loopback clients are not throttled, so this needs another address.
    let Some(address) = find_other_address() else { return };
    let arguments = vec!["--limit".to_owned(), "maxFailedAuthPerMinute=3".to_owned()];
    let outlive = Outlive::start_with(Setup {
        arguments,
        token: Some("right".into()),
        listen: Some(format!("{address}:0")),
        ..Setup::default()
    });
    let get = |token: &str| {
        let mut stream = TcpStream::connect((address, outlive.port)).unwrap();
        let head = format!(
            "GET /v1/health HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        read_all(stream)
    };
    assert!(get("right").starts_with("HTTP/1.1 200"));
    for _ in 0..3 {
        assert!(get("wrong").starts_with("HTTP/1.1 401"));
    }
    let response = get("right");
    assert!(
        response.starts_with("HTTP/1.1 429") && response.contains("retry-after: "),
        "the right token is throttled too: {response}"
    );
}

/// Finds an address of this machine that is not loopback.
fn find_other_address() -> Option<std::net::IpAddr> {
    // Connecting a UDP socket sends nothing: the kernel only chooses a route.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

// Regression: a client that requested much and never read kept all of it in memory, and could repeat that.
#[test]
fn unread_responses_are_bounded_by_a_budget() {
    let outlive = start_with_limits(&["maxUnsentBytes=16000000"]);
    let session = outlive.post("/v1/sessions", &json!({ "id": "s" }));
    assert_eq!(session.status, 200, "{}", session.text());
    let line = "head -c 9000000 /dev/zero | tr '\\0' x";
    let exec = outlive.post("/v1/sessions/s/exec", &json!({ "command": line, "maxOutputBytes": 10 }));
    let exec = format!("/v1/sessions/s/execs/{}", exec.json["execId"].as_str().unwrap());
    let path = format!("{exec}?encoding=base64&maxOutputBytes=10000000");
    let mut unread = outlive.http().connect().unwrap();
    unread.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    // The response is complete in the server, and the client reads only its first bytes.
    let mut first_bytes = [0; 15];
    unread.read_exact(&mut first_bytes).unwrap();
    assert_eq!(&first_bytes, b"HTTP/1.1 200 OK");
    let refused = outlive.get(&path);
    assert_eq!((refused.status, refused.code()), (503, "too_much_unsent"), "{}", refused.text());
    assert_eq!(outlive.get(&format!("{exec}/output")).body.len(), 9_000_000, "a streamed response needs no budget");
    drop(unread);
    let response =
        eventually("the budget is free again", || Some(outlive.get(&path)).filter(|response| response.status == 200));
    assert!(response.body.len() > 12_000_000);
}
