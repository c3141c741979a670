//! `GET /v1/sandboxes/{id}/proxy/{port}/terminal`: a WebSocket that starts a terminal and attaches to it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::net::TcpStream;

use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

const PATH: &str = "/v1/sandboxes/any-id/proxy/44772/terminal";

struct Terminal {
    socket: WebSocket<TcpStream>,
    output: String,
}

#[derive(Debug, PartialEq)]
enum End {
    Exit(Value),
    Close(Option<u16>),
}

impl Terminal {
    fn open(outlive: &Outlive, path: &str) -> Self {
        let stream = outlive.http().connect().unwrap();
        let url = format!("ws://127.0.0.1:{}{path}", outlive.port);
        let (socket, _) = tungstenite::client(url, stream).unwrap_or_else(|error| panic!("{path}: {error:?}"));
        Self { socket, output: String::new() }
    }

    fn send(&mut self, message: impl Into<Message>) {
        self.socket.send(message.into()).unwrap();
    }

    /// Reads until the output contains a text.
    fn until(&mut self, text: &str) {
        while !self.output.contains(text) {
            if let Some(end) = self.read() {
                panic!("{end:?} before {text:?} in {:?}", self.output);
            }
        }
    }

    fn read(&mut self) -> Option<End> {
        match self.socket.read() {
            Ok(Message::Binary(bytes)) => self.output.push_str(&String::from_utf8_lossy(&bytes)),
            Ok(Message::Text(text)) => return Some(End::Exit(serde_json::from_str(&text).unwrap())),
            Ok(Message::Close(frame)) => return Some(End::Close(frame.map(|frame| frame.code.into()))),
            Ok(_) => {}
            Err(error) => panic!("{error} after {:?}", self.output),
        }
        None
    }

    fn end(&mut self) -> End {
        loop {
            if let Some(end) = self.read() {
                return end;
            }
        }
    }
}

#[test]
fn a_command_runs_on_a_terminal_of_the_given_size() {
    let outlive = Outlive::start();
    let mut terminal = Terminal::open(&outlive, &format!("{PATH}?cols=101&rows=31&command=stty+size"));
    assert_eq!(terminal.end(), End::Exit(json!({ "type": "exit", "exit_code": 0 })));
    assert_eq!(terminal.output, "31 101\r\n");
    assert_eq!(terminal.end(), End::Close(Some(1000)));
}

#[test]
fn a_shell_reads_raw_input_and_json_control_frames() {
    let outlive = Outlive::start();
    let mut terminal = Terminal::open(&outlive, &format!("{PATH}?command=sh"));
    terminal.send(Message::binary(&b"stty -echo; stty size; echo rea''dy\n"[..]));
    terminal.until("24 80\r\n");
    terminal.until("ready");
    terminal.send(Message::text(r#"{"type":"resize","cols":91,"rows":41}"#));
    terminal.send(Message::text(r#"{"type":"stdin","data":"stty size\n"}"#));
    terminal.until("41 91\r\n");
    terminal.send(Message::binary(&b"exec sleep 1000\n"[..]));
    terminal.send(Message::text(r#"{"type":"ping"}"#));
    assert_eq!(terminal.end(), End::Exit(json!({ "type": "pong" })));
    terminal.send(Message::text(r#"{"type":"signal","signal":"SIGKILL"}"#));
    assert_eq!(terminal.end(), End::Exit(json!({ "type": "exit", "exit_code": -1, "signal": "SIGKILL" })));
}

#[test]
fn without_a_command_the_users_shell_runs() {
    let environment = vec![("SHELL".to_owned(), "/bin/sh".to_owned())];
    let outlive = Outlive::start_with(Setup { environment, ..Setup::default() });
    let mut terminal = Terminal::open(&outlive, PATH);
    terminal.send(Message::binary(&b"echo shell: $((6 * 7)); exit 7\n"[..]));
    assert_eq!(terminal.end(), End::Exit(json!({ "type": "exit", "exit_code": 7 })));
    assert!(terminal.output.contains("shell: 42\r\n"), "{}", terminal.output);
}

#[test]
fn a_terminal_ends_with_its_client_unless_it_has_a_tag() {
    let outlive = Outlive::start();
    let running = || outlive.get("/v1/processes?status=running").json["processes"].as_array().unwrap().len();
    let mut alone = Terminal::open(&outlive, &format!("{PATH}?command=cat"));
    alone.send(Message::binary(&b"x\n"[..]));
    alone.until("x\r\nx\r\n");
    alone.socket.close(None).unwrap();
    eventually("the end of the terminal", || (running() == 0).then_some(()));
    let mut first = Terminal::open(&outlive, &format!("{PATH}?command=cat&tag=shared"));
    first.send(Message::binary(&b"one\n"[..]));
    first.until("one\r\none\r\n");
    first.socket.close(None).unwrap();
    let mut second = Terminal::open(&outlive, &format!("{PATH}?tag=shared"));
    second.until("one\r\none\r\n");
    assert_eq!(running(), 1);
}

#[test]
fn other_ids_and_ports_are_404() {
    let outlive = Outlive::start();
    let paths = ["any%20id/proxy/1", "any/proxy/0", "any/proxy/65536", "any/proxy/http"];
    for path in paths {
        let response = outlive.get(&format!("/v1/sandboxes/{path}/terminal"));
        assert_eq!((response.status, response.code()), (404, "not_found"), "{path}: {}", response.text());
    }
    let response = outlive.get(PATH);
    assert_eq!((response.status, response.code()), (400, "expected_websocket"), "{}", response.text());
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ];
    let response = outlive.http().send("GET", &format!("{PATH}?cols=70000"), &upgrade, None);
    assert_eq!((response.status, response.code()), (400, "invalid_value"), "{}", response.text());
    let pipes = outlive.start_process(json!({ "command": "cat", "tag": "pipes" }));
    let response = outlive.http().send("GET", &format!("{PATH}?tag=pipes"), &upgrade, None);
    assert_eq!((response.status, response.code()), (409, "not_a_terminal"), "{pipes}: {}", response.text());
}
