//! Terminal sockets: bytes, several clients, sizes, resumption and close codes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod close;
#[path = "../harness/mod.rs"]
mod harness;
mod input_output;
mod multiple_clients;
mod resumption;
mod sandbox_agent;
mod size_policy;

use harness::Outlive;
use harness::socket::{Frame, Socket};
use serde_json::{Value, json};

/// Skips frames up to a control frame of this type.
fn read_control(socket: &mut Socket, kind: &str) -> Value {
    loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == kind => return frame,
            Frame::Closed(code) => panic!("closed with {code:?} before {kind}"),
            _ => {}
        }
    }
}

/// Returns when the server has processed all frames that this client has sent.
fn synchronize(socket: &mut Socket) {
    socket.send_control(json!({ "type": "nonsense" }));
    assert_eq!(read_control(socket, "error")["code"], "invalid_frame");
}

/// Reads up to the end of the connection; returns the close code.
fn read_to_close(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Frame::Closed(code) = socket.next() {
            return code;
        }
    }
}

/// Starts a terminal in raw mode that prints its input.
fn start_raw_terminal(outlive: &Outlive) -> String {
    let id =
        outlive.start_process(json!({ "command": "stty raw -echo; echo up; exec cat", "shell": true, "tty": true }));
    outlive.wait_output(&id, "up\n");
    id
}

fn list_attachments(outlive: &Outlive, id: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"].as_array().unwrap().clone()
}
