//! Each limit of the network, set by its flag and met.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup, eventually};

fn with(limits: &[&str]) -> Outlive {
    let arguments = limits.iter().flat_map(|limit| ["--limit".to_owned(), (*limit).to_owned()]).collect();
    Outlive::with(Setup { arguments, ..Setup::default() })
}

fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

const HELLO: &[u8] = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection that has been answered, and stays.
fn answered(outlive: &Outlive) -> TcpStream {
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(HELLO).unwrap();
    let mut room = [0; 4096];
    assert!(stream.read(&mut room).unwrap() > 0);
    stream
}

#[test]
fn connections_beyond_the_limit_are_turned_away_and_let_in_again() {
    let outlive = with(&["maxConnections=2"]);
    let first = answered(&outlive);
    let _second = answered(&outlive);
    let answer = read_all(outlive.http().connect().unwrap());
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
    drop(first);
    eventually("a place is free", || {
        let answer = outlive.http().try_send("GET", "/v1/health", &[], None);
        answer.ok().filter(|answer| answer.status == 200)
    });
}

/// A stranger that was answered and now keeps us waiting.
#[test]
fn a_stranger_makes_room_for_the_next_one() {
    let arguments = ["--limit", "maxStrangers=2"].map(str::to_owned).to_vec();
    let outlive = Outlive::with(Setup { arguments, token: Some("t".into()), ..Setup::default() });
    let first = answered(&outlive);
    let second = answered(&outlive);
    let third = answered(&outlive);
    assert_eq!(read_all(first), "", "the first had to go");
    assert_eq!(outlive.get("/v1/health").status, 200);
    assert_eq!(read_all(second), "", "and then the second");
    drop(third);
}

#[test]
fn a_request_has_to_be_there_in_time() {
    let outlive = with(&["headerTimeoutMs=200"]);
    let mut slow = outlive.http().connect().unwrap();
    slow.write_all(b"GET /v1/health HT").unwrap();
    assert_eq!(read_all(slow), "");
    assert_eq!(read_all(outlive.http().connect().unwrap()), "", "not even one byte");
}

#[test]
fn a_body_has_to_be_there_in_time() {
    let outlive = with(&["bodyTimeoutMs=200"]);
    let mut slow = outlive.http().connect().unwrap();
    slow.write_all(b"POST /v1/processes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    let answer = read_all(slow);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_too_slow"), "{answer}");
}

#[test]
fn a_connection_without_requests_is_closed() {
    let outlive = with(&["idleTimeoutMs=200"]);
    let idle = answered(&outlive);
    assert_eq!(read_all(idle), "");
}

#[test]
fn headers_and_bodies_have_a_size() {
    let outlive = with(&["maxHeaderBytes=10000", "maxBodyBytes=1000"]);
    let long = "x".repeat(20_000);
    let answer = outlive.http().send("GET", "/v1/health", &[("x-long", &long)], None);
    assert_eq!(answer.status, 431);
    let many: Vec<(String, &str)> = (0..200).map(|number| (format!("x-{number}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(outlive.http().send("GET", "/v1/health", &many, None).status, 431);
    let body = json!({ "command": "x".repeat(1_000) });
    let answer = outlive.post("/v1/processes", &body);
    assert_eq!((answer.status, answer.code()), (413, "body_too_large"));
    let chunked = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let answer = outlive.http().send("POST", "/v1/processes", &chunked, Some(b"{}"));
    assert_eq!((answer.status, answer.code()), (415, "unsupported_encoding"));
}

#[test]
fn messages_have_a_size() {
    let outlive = with(&["maxMessageBytes=1000"]);
    let id = outlive.shell("cat");
    let mut socket = Socket::connect(outlive.http(), &id, "", true);
    socket.type_text(&"x".repeat(2_000));
    assert_eq!(socket.next(), Frame::Closed(Some(1009)));
}

#[test]
fn a_socket_that_shows_no_sign_of_life_is_closed() {
    let outlive = with(&["socketTimeoutMs=1000"]);
    let id = outlive.shell("cat");
    // A client that never reads answers no ping either.
    let socket = Socket::connect(outlive.http(), &id, "", true);
    eventually("it is taken for dead", || (outlive.info(&id)["attachments"] == 0).then_some(()));
    drop(socket);
}

#[test]
fn limits_of_the_core_can_be_set_by_flag_too() {
    let outlive =
        with(&["maxConcurrentProcesses=1", "maxEvents=3", "maxAttachmentsPerProcess=1", "maxQueuedInputBytes=7"]);
    let id = outlive.shell("cat");
    let answer = outlive.post("/v1/processes", &json!({ "command": "cat" }));
    assert_eq!(answer.status, 409, "{}", answer.text());
    let _socket = Socket::connect(outlive.http(), &id, "", true);
    assert!(Socket::try_connect(outlive.http(), &id, "", true).is_err());
    outlive.kill_server();
    let config = outlive.get("/v1/config").json;
    assert_eq!((config["maxEvents"].as_u64(), config["maxQueuedInputBytes"].as_u64()), (Some(3), Some(7)));
}

#[test]
fn who_guesses_from_elsewhere_has_to_wait() {
    // Loopback is not slowed down, so this needs an address that is not.
    let Some(address) = other_address() else { return };
    let arguments = vec!["--limit".to_owned(), "maxFailedAuthPerMinute=3".to_owned()];
    let outlive = Outlive::with(Setup {
        arguments,
        token: Some("right".into()),
        listen: Some(format!("{address}:0")),
        ..Setup::default()
    });
    let ask = |token: &str| {
        let mut stream = TcpStream::connect((address, outlive.port)).unwrap();
        let head = format!(
            "GET /v1/health HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        read_all(stream)
    };
    assert!(ask("right").starts_with("HTTP/1.1 200"));
    for _ in 0..3 {
        assert!(ask("wrong").starts_with("HTTP/1.1 401"));
    }
    let answer = ask("right");
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: "), "not even looked at: {answer}");
}

/// An address of this machine that is not loopback.
fn other_address() -> Option<std::net::IpAddr> {
    // Nothing is sent: the kernel only chooses a way.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

/// Whoever asked for much and never read kept all of it in memory, and could ask again.
#[test]
fn answers_that_nobody_reads_have_one_budget() {
    let outlive = with(&["maxUnsentBytes=16000000"]);
    let line = "head -c 9000000 /dev/zero | tr '\\0' x";
    let id = outlive.start_process(json!({ "command": line, "shell": true }));
    outlive.wait_exit(&id);
    let path = format!("/v1/processes/{id}/logs");
    let mut unread = outlive.http().connect().unwrap();
    unread.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    // Its answer is made, and nothing but this is read of it.
    let mut begun = [0; 15];
    unread.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    let refused = outlive.get(&path);
    assert_eq!((refused.status, refused.code()), (503, "too_much_unsent"), "{}", refused.text());
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/output")).body.len(), 9_000_000, "a stream needs none of it");
    drop(unread);
    let answer = eventually("there is room again", || Some(outlive.get(&path)).filter(|answer| answer.status == 200));
    assert!(answer.body.len() > 12_000_000);
}
