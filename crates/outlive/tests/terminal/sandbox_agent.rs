//! The socket of sandbox-agent's API.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::http::Http;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};
use crate::read_to_close;

fn post(outlive: &Outlive, id: &str, rest: &str) {
    let response = outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None);
    assert_eq!(response.status, 200, "{}", response.text());
}

fn connect(http: Http, id: &str, query: &str) -> Socket {
    Socket::open(http, &format!("/v1/processes/{id}/terminal/ws{query}"), false, None).unwrap()
}

#[test]
fn the_socket_sends_only_sandbox_agents_frames() {
    let outlive = Outlive::start();
    let id =
        outlive.start_process(json!({ "command": "stty raw -echo; echo up; cat; exit 6", "shell": true, "tty": true }));
    outlive.wait_output(&id, "up");
    let mut socket = connect(outlive.http(), &id, "");
    assert_eq!(socket.ready, json!({ "processId": id, "type": "ready" }));
    // There is no replay by default: the first bytes are new.
    socket.type_text("abc");
    assert_eq!(socket.read_until("abc"), b"abc");
    socket.send_control(json!({ "type": "input", "data": "AP8=", "encoding": "base64" }));
    assert_eq!(socket.next(), Frame::Bytes { offset: 3, stream: 0, bytes: vec![0, 255] });
    // A resize sends no frame on this socket.
    socket.resize(99, 33);
    eventually("the resize", || (outlive.info(&id)["cols"] == 99).then_some(()));
    outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": 98, "rows": 32 }));
    for (bad, message) in [
        (Message::Text("{".into()), "invalid terminal frame: "),
        (Message::Text("{\"type\":\"dance\"}".into()), "invalid terminal frame: "),
        (Message::Text("{\"type\":\"input\"}".into()), "invalid terminal frame: "),
        (Message::Text("{\"type\":\"resize\",\"cols\":1}".into()), "invalid terminal frame: "),
        (Message::Binary(b"x".to_vec().into()), "binary input is not supported; use text JSON frames"),
        (
            Message::Text(json!({ "type": "input", "data": "x".repeat(65_537) }).to_string().into()),
            "input payload exceeds maxInputBytesPerRequest (65536)",
        ),
    ] {
        socket.inner.send(bad).unwrap();
        match socket.next() {
            Frame::Control(frame) => {
                assert_eq!(frame["type"], "error", "{frame}");
                assert!(frame["message"].as_str().unwrap().starts_with(message), "{frame}");
            }
            other => panic!("{other:?}"),
        }
    }
    let info = outlive.info(&id);
    assert_eq!((&info["cols"], &info["rows"]), (&json!(98), &json!(32)));
    // A replay is sent only on request.
    let mut replay = connect(outlive.http(), &id, "?from=0");
    assert_eq!(replay.next(), Frame::Bytes { offset: 0, stream: 0, bytes: b"up\nabc\x00\xff".to_vec() });
    let mut tail = connect(outlive.http(), &id, "?tail=2");
    assert_eq!(tail.next(), Frame::Bytes { offset: 0, stream: 0, bytes: vec![0, 255] });
    // A close does not end the process.
    tail.send_control(json!({ "type": "close" }));
    assert_eq!(read_to_close(&mut tail), None, "an empty close frame");
    assert_eq!(outlive.info(&id)["status"], "running");
    post(&outlive, &id, "kill");
    assert_eq!(socket.next(), Frame::Control(json!({ "exitCode": null, "type": "exit" })));
    assert_eq!(socket.next(), Frame::Closed(None));
    // The socket of an exited process sends ready, exit and close.
    let exited = outlive.start_process(json!({ "command": "exit 6", "shell": true, "tty": true }));
    outlive.wait_exit(&exited);
    let mut late = connect(outlive.http(), &exited, "");
    assert_eq!(late.next(), Frame::Control(json!({ "exitCode": 6, "type": "exit" })));
    assert_eq!(late.next(), Frame::Closed(None));
}
