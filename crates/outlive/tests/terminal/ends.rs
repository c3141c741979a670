//! How a socket ends, and what does not end it.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::attached::{control, end, raw_terminal};
use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually, proc};

#[test]
fn each_end_has_its_close_code() {
    let outlive = Outlive::start();
    // An exit.
    let id = outlive.start_process(json!({ "command": "read x; kill -TERM $$", "shell": true, "tty": true }));
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.type_text("\n");
    let exit = control(&mut socket, "exit");
    assert_eq!((&exit["exitCode"], &exit["signal"], &exit["generation"]), (&Value::Null, &json!("SIGTERM"), &json!(1)));
    assert_eq!(end(&mut socket), Some(1000));
    // After the exit there is still the replay, and then the same end.
    let mut late = Socket::connect(outlive.http(), &id, "from=0", false);
    assert_eq!(late.read_to_exit().1["signal"], "SIGTERM");
    assert_eq!(end(&mut late), Some(1000));
    // A wish, in both ways to say it.
    let id = raw_terminal(&outlive);
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.control(json!({ "type": "close" }));
    assert_eq!(end(&mut socket), Some(1000));
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.inner.close(None).unwrap();
    end(&mut socket);
    // A frame that is too large.
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    let _ = socket.inner.send(Message::Binary(vec![b'x'; (1 << 20) + 1].into()));
    assert_eq!(end(&mut socket), Some(1009));
    // A signal, by the socket itself.
    let mut socket = Socket::connect(outlive.http(), &id, "", false);
    socket.control(json!({ "type": "signal", "signal": "KILL" }));
    assert_eq!(control(&mut socket, "exit")["signal"], "SIGKILL");
}

#[test]
fn a_server_that_ends_says_come_back_and_nothing_is_lost() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut socket = Socket::connect(outlive.http(), &id, "from=0", false);
    socket.read_until("up\n");
    let old = outlive.server_pid();
    proc::signal(old, rustix::process::Signal::TERM);
    assert_eq!(end(&mut socket), Some(1012));
    eventually("another server", || (outlive.server_pid() != old).then_some(()));
    let mut again = Socket::connect(outlive.http(), &id, &format!("from={}", socket.offset), false);
    again.type_text("still here");
    assert_eq!(again.read_until("still here"), b"still here");
}

#[test]
fn pings_are_answered_and_do_not_disturb() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
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
