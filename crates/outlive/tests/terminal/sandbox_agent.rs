//! sandbox-agent's own socket.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::attached::end;
use crate::harness::http::Http;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

fn post(outlive: &Outlive, id: &str, rest: &str) {
    let answer = outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn sandbox_agent(http: Http, id: &str, query: &str) -> Socket {
    Socket::open(http, &format!("/v1/processes/{id}/terminal/ws{query}"), false, None).unwrap()
}

#[test]
fn the_sandbox_agent_socket_speaks_only_its_own_words() {
    let outlive = Outlive::start();
    let id =
        outlive.start_process(json!({ "command": "stty raw -echo; echo up; cat; exit 6", "shell": true, "tty": true }));
    outlive.wait_output(&id, "up");
    let mut socket = sandbox_agent(outlive.http(), &id, "");
    assert_eq!(socket.ready, json!({ "processId": id, "type": "ready" }));
    // No replay: what comes first is new.
    socket.type_text("abc");
    assert_eq!(socket.read_until("abc"), b"abc");
    socket.control(json!({ "type": "input", "data": "AP8=", "encoding": "base64" }));
    assert_eq!(socket.next(), Frame::Bytes { offset: 3, stream: 0, bytes: vec![0, 255] });
    // A resize by anybody is no frame here.
    socket.resize(99, 33);
    eventually("the resize", || (outlive.info(&id)["cols"] == 99).then_some(()));
    outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": 98, "rows": 32 }));
    for (bad, words) in [
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
                assert!(frame["message"].as_str().unwrap().starts_with(words), "{frame}");
            }
            other => panic!("{other:?}"),
        }
    }
    let info = outlive.info(&id);
    assert_eq!((&info["cols"], &info["rows"]), (&json!(98), &json!(32)));
    // Replay only for those who ask.
    let mut replay = sandbox_agent(outlive.http(), &id, "?from=0");
    assert_eq!(replay.next(), Frame::Bytes { offset: 0, stream: 0, bytes: b"up\nabc\x00\xff".to_vec() });
    let mut tail = sandbox_agent(outlive.http(), &id, "?tail=2");
    assert_eq!(tail.next(), Frame::Bytes { offset: 0, stream: 0, bytes: vec![0, 255] });
    // A close leaves the process alone.
    tail.control(json!({ "type": "close" }));
    assert_eq!(end(&mut tail), None, "an empty close frame");
    assert_eq!(outlive.info(&id)["status"], "running");
    post(&outlive, &id, "kill");
    assert_eq!(socket.next(), Frame::Control(json!({ "exitCode": null, "type": "exit" })));
    assert_eq!(socket.next(), Frame::Closed(None));
    // Also of one that has exited: ready, exit, close.
    let over = outlive.start_process(json!({ "command": "exit 6", "shell": true, "tty": true }));
    outlive.wait_exit(&over);
    let mut late = sandbox_agent(outlive.http(), &over, "");
    assert_eq!(late.next(), Frame::Control(json!({ "exitCode": 6, "type": "exit" })));
    assert_eq!(late.next(), Frame::Closed(None));
}
