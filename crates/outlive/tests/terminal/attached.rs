//! A terminal to attach to, and what is asked of whoever is attached.

use serde_json::{Value, json};

use crate::harness::Outlive;
use crate::harness::socket::{Frame, Socket};

/// Reads on until a control frame of this type.
pub(crate) fn control(socket: &mut Socket, kind: &str) -> Value {
    loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == kind => return frame,
            Frame::Closed(code) => panic!("closed with {code:?} before {kind}"),
            _ => {}
        }
    }
}

/// Returns when the server has acted on everything that this client has sent.
pub(crate) fn settle(socket: &mut Socket) {
    socket.control(json!({ "type": "nonsense" }));
    assert_eq!(control(socket, "error")["code"], "invalid_frame");
}

pub(crate) fn end(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Frame::Closed(code) = socket.next() {
            return code;
        }
    }
}

pub(crate) fn raw_terminal(outlive: &Outlive) -> String {
    let id =
        outlive.start_process(json!({ "command": "stty raw -echo; echo up; exec cat", "shell": true, "tty": true }));
    outlive.wait_output(&id, "up\n");
    id
}

pub(crate) fn attachments(outlive: &Outlive, id: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"].as_array().unwrap().clone()
}
