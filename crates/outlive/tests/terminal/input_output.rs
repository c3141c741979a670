//! Bytes in both directions, and the exit frame after the last byte.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually, proc};
use crate::{read_control, read_to_close, start_raw_terminal};

#[test]
fn frames_of_pipes_start_with_their_stream_unless_raw() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("echo out; read x; echo err >&2; read x");
    let mut tagged = Socket::connect(outlive.http(), &id, "from=0", true);
    let mut raw = Socket::connect(outlive.http(), &id, "from=0&framing=raw", false);
    assert_eq!(tagged.next(), Frame::Bytes { offset: 0, stream: 1, bytes: b"out\n".to_vec() });
    tagged.inner.send(Message::Binary(b"\n".to_vec().into())).unwrap();
    assert_eq!(tagged.next(), Frame::Bytes { offset: 4, stream: 2, bytes: b"err\n".to_vec() });
    raw.type_text("\n");
    assert_eq!(raw.read_to_exit().0, b"out\nerr\n");
    assert_eq!(tagged.read_to_exit().1["exitCode"], 0);
}

#[test]
fn input_arrives_byte_for_byte() {
    let outlive = Outlive::start();
    let all: Vec<u8> = (0..=255).collect();
    let much: Vec<u8> = (0..60_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for tty in [false, true] {
        let id = if tty { start_raw_terminal(&outlive) } else { outlive.start_shell("echo up; exec cat") };
        outlive.wait_output(&id, "up\n");
        let mut socket = Socket::connect(outlive.http(), &id, "", !tty);
        let mut expected = Vec::new();
        for round in 0..8 {
            let piece = if round == 0 { &all } else { &much };
            if round % 2 == 0 {
                socket.inner.send(Message::Binary(piece.clone().into())).unwrap();
            } else {
                let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, piece);
                socket.send_control(json!({ "type": "input", "data": data, "encoding": "base64" }));
            }
            expected.extend_from_slice(piece);
        }
        let mut received = Vec::new();
        while received.len() < expected.len() {
            match socket.next() {
                Frame::Bytes { bytes, .. } => received.extend_from_slice(&bytes),
                other => panic!("{other:?} after {} of {}", received.len(), expected.len()),
            }
        }
        assert!(received == expected, "tty {tty}: not the same bytes");
        // The next client learns how much input was written.
        let again = Socket::connect(outlive.http(), &id, "", !tty);
        assert_eq!(again.ready["inputOffset"], expected.len());
        socket.inner.send(Message::Binary(vec![b'x'; 65_537].into())).unwrap();
        assert_eq!(read_control(&mut socket, "error")["code"], "input_too_large");
    }
}

/// Starts an echo, reads it to its exit, checks its record and deletes it.
fn check_echo(outlive: &Outlive, number: usize, tty: bool) {
    let word = format!("x{number}");
    let id = outlive.start_process(json!({ "command": "echo", "args": [word], "tty": tty }));
    let expected = format!("{word}{}\n", if tty { "\r" } else { "" }).into_bytes();
    let mut socket = Socket::connect(outlive.http(), &id, "from=0", !tty);
    let (bytes, exit) = socket.read_to_exit();
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&expected), "tty {tty}");
    assert_eq!(
        (&exit["exitCode"], &exit["exitReason"], &exit["offset"]),
        (&json!(0), &json!("exited"), &json!(expected.len()))
    );
    // The record says exited when the exit frame has been sent.
    let info = outlive.info(&id);
    assert_eq!((&info["status"], &info["outputEnd"]), (&json!("exited"), &json!(expected.len())));
    assert_eq!(read_to_close(&mut socket), Some(1000));
    assert_eq!(outlive.output(&id), expected);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
}

fn check_a_thousand_echoes(tty: bool) {
    let outlive = Outlive::start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let outlive = &outlive;
            scope.spawn(move || (0..125).for_each(|turn| check_echo(outlive, thread * 125 + turn, tty)));
        }
    });
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
    eventually("no zombie", || (proc::count_zombies(outlive.holder_pid()) == 0).then_some(()));
}

#[test]
fn the_exit_frame_follows_the_last_byte_of_pipes() {
    check_a_thousand_echoes(false);
}

#[test]
fn the_exit_frame_follows_the_last_byte_of_terminals() {
    check_a_thousand_echoes(true);
}
