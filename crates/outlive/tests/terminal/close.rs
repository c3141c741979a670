//! Close codes, and events that do not close a socket.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually, proc};
use crate::{read_control, read_to_close, start_raw_terminal};

#[test]
fn each_reason_for_closing_has_its_close_code() {
    let outlive = Outlive::start();
    // The process exits.
    let id = outlive.start_process(json!({ "command": "read x; kill -TERM $$", "shell": true, "tty": true }));
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.type_text("\n");
    let exit = read_control(&mut socket, "exit");
    assert_eq!((&exit["exitCode"], &exit["signal"], &exit["generation"]), (&Value::Null, &json!("SIGTERM"), &json!(1)));
    assert_eq!(read_to_close(&mut socket), Some(1000));
    // A client that connects after the exit gets the replay and the same close code.
    let mut late = Socket::connect(outlive.http(), &id, "from=0", false);
    assert_eq!(late.read_to_exit().1["signal"], "SIGTERM");
    assert_eq!(read_to_close(&mut late), Some(1000));
    // The client closes, by a control frame or by a close frame.
    let id = start_raw_terminal(&outlive);
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.send_control(json!({ "type": "close" }));
    assert_eq!(read_to_close(&mut socket), Some(1000));
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.inner.close(None).unwrap();
    read_to_close(&mut socket);
    // A frame is too large.
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    let _ = socket.inner.send(Message::Binary(vec![b'x'; (1 << 20) + 1].into()));
    assert_eq!(read_to_close(&mut socket), Some(1009));
    // A signal frame kills the process.
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.send_control(json!({ "type": "signal", "signal": "KILL" }));
    assert_eq!(read_control(&mut socket, "exit")["signal"], "SIGKILL");
}

#[test]
fn a_stopping_server_closes_with_1012_and_the_client_resumes() {
    let outlive = Outlive::start();
    let id = start_raw_terminal(&outlive);
    let mut socket = Socket::connect(outlive.http(), &id, "from=0", false);
    socket.read_until("up\n");
    let old = outlive.server_pid();
    proc::send_signal(old, rustix::process::Signal::TERM);
    assert_eq!(read_to_close(&mut socket), Some(1012));
    eventually("another server", || (outlive.server_pid() != old).then_some(()));
    let mut again = Socket::connect(outlive.http(), &id, &format!("from={}", socket.offset), false);
    again.type_text("still here");
    assert_eq!(again.read_until("still here"), b"still here");
}

#[test]
fn pings_are_answered() {
    let outlive = Outlive::start();
    let id = start_raw_terminal(&outlive);
    for path in ["connect", "terminal/ws"] {
        let mut socket = Socket::open(outlive.http(), &format!("/v1/processes/{id}/{path}"), false, None).unwrap();
        socket.inner.send(Message::Ping(b"are you there?".to_vec().into())).unwrap();
        loop {
            match socket.inner.read().unwrap() {
                Message::Pong(payload) => {
                    assert_eq!(&payload[..], b"are you there?");
                    break;
                }
                Message::Ping(_) => {}
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}
