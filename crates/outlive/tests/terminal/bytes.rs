//! The bytes themselves: whole, in both directions, and the exit after the last of them.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::attached::{control, end, raw_terminal};
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually, proc};

#[test]
fn frames_of_pipes_name_their_stream_unless_raw() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo out; read x; echo err >&2; read x");
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
        let id = if tty { raw_terminal(&outlive) } else { outlive.shell("echo up; exec cat") };
        outlive.wait_output(&id, "up\n");
        let mut socket = Socket::connect(outlive.http(), &id, "", !tty);
        let mut expected = Vec::new();
        for round in 0..8 {
            let piece = if round == 0 { &all } else { &much };
            if round % 2 == 0 {
                socket.inner.send(Message::Binary(piece.clone().into())).unwrap();
            } else {
                let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, piece);
                socket.control(json!({ "type": "input", "data": data, "encoding": "base64" }));
            }
            expected.extend_from_slice(piece);
        }
        let mut got = Vec::new();
        while got.len() < expected.len() {
            match socket.next() {
                Frame::Bytes { bytes, .. } => got.extend_from_slice(&bytes),
                other => panic!("{other:?} after {} of {}", got.len(), expected.len()),
            }
        }
        assert!(got == expected, "tty {tty}: not the same bytes");
        // How much was taken is told to whoever comes next.
        let again = Socket::connect(outlive.http(), &id, "", !tty);
        assert_eq!(again.ready["inputOffset"], expected.len());
        socket.inner.send(Message::Binary(vec![b'x'; 65_537].into())).unwrap();
        assert_eq!(control(&mut socket, "error")["code"], "input_too_large");
    }
}

/// Starts, reads to the exit, and looks again afterwards.
fn echo(outlive: &Outlive, number: usize, tty: bool) {
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
    // Whoever was told of the exit finds the process exited.
    let info = outlive.info(&id);
    assert_eq!((&info["status"], &info["outputEnd"]), (&json!("exited"), &json!(expected.len())));
    assert_eq!(end(&mut socket), Some(1000));
    assert_eq!(outlive.output(&id), expected);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
}

fn a_thousand_echoes(tty: bool) {
    let outlive = Outlive::start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let outlive = &outlive;
            scope.spawn(move || (0..125).for_each(|turn| echo(outlive, thread * 125 + turn, tty)));
        }
    });
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
    eventually("no zombie", || (proc::zombies_of(outlive.holder_pid()) == 0).then_some(()));
}

#[test]
fn the_exit_comes_after_the_last_byte_on_pipes() {
    a_thousand_echoes(false);
}

#[test]
fn the_exit_comes_after_the_last_byte_on_terminals() {
    a_thousand_echoes(true);
}
