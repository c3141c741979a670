//! Sockets: terminals and pipes, several clients, sizes, resumption, and how they end.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::http::Http;
use harness::socket::{Frame, Socket};
use harness::{Outlive, eventually, proc};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// Reads on until a control frame of this type.
fn control(socket: &mut Socket, kind: &str) -> Value {
    loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == kind => return frame,
            Frame::Closed(code) => panic!("closed with {code:?} before {kind}"),
            _ => {}
        }
    }
}

/// Returns when the server has acted on everything that this client has sent.
fn settle(socket: &mut Socket) {
    socket.control(json!({ "type": "nonsense" }));
    assert_eq!(control(socket, "error")["code"], "invalid_frame");
}

fn end(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Frame::Closed(code) = socket.next() {
            return code;
        }
    }
}

fn raw_terminal(outlive: &Outlive) -> String {
    let id =
        outlive.start_process(json!({ "command": "stty raw -echo; echo up; exec cat", "shell": true, "tty": true }));
    outlive.wait_output(&id, "up\n");
    id
}

fn post(outlive: &Outlive, id: &str, rest: &str) {
    let answer = outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn attachments(outlive: &Outlive, id: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"].as_array().unwrap().clone()
}

#[test]
fn a_signal_to_the_foreground_spares_the_shell_and_its_jobs() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "bash", "args": ["--norc", "--noprofile", "-i"], "tty": true }));
    let type_in = |text: &str| {
        let body = json!({ "data": text, "encoding": "utf8" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &body).status, 200);
    };
    let signal =
        |id: &str| outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": "INT", "foreground": true }));
    type_in("sleep 1000 & sh -c 'echo wai''ts; exec sleep 1000'\n");
    outlive.wait_output(&id, "waits");
    eventually("the job ends", || {
        assert_eq!(signal(&id).status, 200);
        type_in("echo c''ode=$? jobs=$(jobs -p | wc -l)\n");
        let output = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
        output.contains("code=130 jobs=1").then_some(())
    });
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    assert_eq!(signal(&pipes).code(), "not_a_terminal");
}

// ---- several clients ----

#[test]
fn several_clients_see_the_same_and_may_all_type() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut all: Vec<Socket> = (0..3).map(|_| Socket::connect(outlive.http(), &id, "from=0", false)).collect();
    assert_eq!(all[0].ready["processId"], id.as_str());
    assert_eq!(
        (&all[0].ready["offset"], &all[0].ready["role"], &all[0].ready["flow"]),
        (&json!(0), &json!("writer"), &json!("lossless"))
    );
    for number in 0..3 {
        all[number].type_text(&format!("from {number};"));
        for socket in &mut all {
            socket.read_until(&format!("from {number};"));
        }
    }
    let offsets: Vec<u64> = all.iter().map(|socket| socket.offset).collect();
    assert_eq!(offsets, [24, 24, 24]);
    assert_eq!(outlive.output(&id), b"up\nfrom 0;from 1;from 2;");
    // One that leaves takes nothing with it.
    all.pop().unwrap().cut();
    all[0].type_text("on");
    all[1].read_until("on");
}

#[test]
fn a_viewer_sees_but_neither_types_nor_sizes_nor_signals() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut viewer = Socket::connect(outlive.http(), &id, "role=viewer&from=0&cols=11&rows=12", false);
    assert_eq!((&viewer.ready["role"], &viewer.ready["flow"]), (&json!("viewer"), &json!("live")));
    for frame in [json!({ "type": "input", "data": "x" }), json!({ "type": "signal", "signal": "KILL" })] {
        viewer.control(frame);
        assert_eq!(control(&mut viewer, "error")["code"], "read_only");
    }
    viewer.inner.send(Message::Binary(b"x".to_vec().into())).unwrap();
    assert_eq!(control(&mut viewer, "error")["code"], "read_only");
    viewer.resize(13, 14);
    settle(&mut viewer);
    let info = outlive.info(&id);
    assert_eq!((&info["cols"], &info["rows"], &info["status"]), (&json!(80), &json!(24), &json!("running")));
    let mut writer = Socket::connect(outlive.http(), &id, "", false);
    writer.type_text("seen");
    viewer.read_until("seen");
    assert_eq!(outlive.output(&id), b"up\nseen");
    // One that goes on typing all the same is shown the door.
    for _ in 0..200 {
        if viewer.inner.send(Message::Binary(b"x".to_vec().into())).is_err() {
            break;
        }
    }
    assert_eq!(end(&mut viewer), Some(1008));
    writer.type_text("!");
    writer.read_until("!");
}

#[test]
fn attachments_are_listed_with_what_they_do() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut first = Socket::connect(outlive.http(), &id, "cols=100&rows=30", false);
    let second = Socket::connect(outlive.http(), &id, "role=viewer", false);
    let list = attachments(&outlive, &id);
    assert_eq!(list.len(), 2);
    assert_eq!(
        (&list[0]["role"], &list[0]["size"], &list[0]["sizes"]),
        (&json!("writer"), &json!({ "cols": 100, "rows": 30 }), &json!(true))
    );
    assert_eq!((&list[1]["role"], list[1].get("size"), &list[1]["sizes"]), (&json!("viewer"), None, &json!(false)));
    assert!(list[0]["sinceMs"].is_u64() && list[0].get("lastInputAtMs").is_none());
    assert!(list[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{list:?}");
    assert_eq!(outlive.info(&id)["attachments"], 2);
    first.type_text("x");
    settle(&mut first);
    assert!(attachments(&outlive, &id)[0]["lastInputAtMs"].is_u64());
    second.cut();
    eventually("one is gone", || (attachments(&outlive, &id).len() == 1).then_some(()));
    first.control(json!({ "type": "close" }));
    assert_eq!(end(&mut first), Some(1000));
    eventually("all are gone", || (attachments(&outlive, &id).is_empty()).then_some(()));
    let info = outlive.info(&id);
    assert_eq!(info["status"], "running", "the process does not mind");
    assert!(info["lastAttachAtMs"].is_u64());
    // Their number is bounded.
    let mut config = outlive.get("/v1/config").json;
    config["maxAttachmentsPerProcess"] = json!(1);
    assert_eq!(outlive.post("/v1/config", &config).status, 200);
    let _one = Socket::connect(outlive.http(), &id, "", false);
    let refused = Socket::try_connect(outlive.http(), &id, "", false).err().unwrap_or_default();
    assert!(refused.contains("409"), "{refused}");
}

// ---- sizes ----

enum Step {
    Come(usize, u16, u16),
    Type(usize),
    Resize(usize, u16, u16),
    Leave(usize),
    /// By the API, not by a client.
    Set(u16, u16),
}

#[test]
fn each_size_policy_with_three_clients() {
    use Step::{Come, Leave, Resize, Set, Type};
    let outlive = Outlive::start();
    // After each step: what `stty size` says inside, as columns and rows.
    let table = [
        (
            "latest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (100, 30)),
                (Come(2, 120, 20), (100, 30)),
                (Type(1), (80, 50)),
                (Resize(2, 121, 21), (121, 21)),
                (Type(0), (100, 30)),
                (Leave(0), (121, 21)),
                (Leave(2), (80, 50)),
                (Leave(1), (80, 50)),
                (Come(0, 100, 30), (100, 30)),
                (Set(70, 22), (70, 22)),
                (Come(1, 80, 50), (70, 22)),
                (Leave(1), (70, 22)),
                (Type(0), (100, 30)),
            ],
        ),
        (
            "smallest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (80, 30)),
                (Come(2, 120, 20), (80, 20)),
                (Type(0), (80, 20)),
                (Resize(1, 60, 60), (60, 20)),
                (Leave(2), (60, 30)),
                (Leave(1), (100, 30)),
            ],
        ),
        (
            "largest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (100, 50)),
                (Come(2, 120, 20), (120, 50)),
                (Type(0), (120, 50)),
                (Resize(1, 60, 40), (120, 40)),
                (Leave(2), (100, 40)),
            ],
        ),
        (
            "fixed",
            vec![
                (Come(0, 100, 30), (90, 25)),
                (Come(1, 80, 50), (90, 25)),
                (Come(2, 120, 20), (90, 25)),
                (Resize(1, 60, 40), (90, 25)),
                (Type(2), (90, 25)),
                (Set(70, 22), (70, 22)),
                (Leave(0), (70, 22)),
            ],
        ),
    ];
    for (policy, steps) in table {
        let line = "stty -echo; echo up; n=0; while read x; do n=$((n+1)); echo \"ask $n: $(stty size).\"; done";
        let id = outlive.start_process(json!({
            "command": line, "shell": true, "pty": { "cols": 90, "rows": 25 }, "sizePolicy": policy,
        }));
        outlive.wait_output(&id, "up");
        let mut clients: [Option<Socket>; 3] = [None, None, None];
        for (number, (step, (cols, rows))) in steps.into_iter().enumerate() {
            let what = format!("{policy}, step {number}");
            match step {
                Come(who, cols, rows) => {
                    clients[who] =
                        Some(Socket::connect(outlive.http(), &id, &format!("cols={cols}&rows={rows}"), false));
                }
                Type(who) => {
                    let client = clients[who].as_mut().unwrap();
                    client.type_text(" ");
                    settle(client);
                }
                Resize(who, cols, rows) => {
                    let client = clients[who].as_mut().unwrap();
                    client.resize(cols, rows);
                    settle(client);
                }
                Leave(who) => {
                    let before = attachments(&outlive, &id).len();
                    clients[who].take().unwrap().cut();
                    eventually(&what, || (attachments(&outlive, &id).len() < before).then_some(()));
                }
                Set(cols, rows) => {
                    let size = json!({ "cols": cols, "rows": rows });
                    assert_eq!(outlive.post(&format!("/v1/processes/{id}/resize"), &size).json, size);
                }
            }
            // The question comes by the API, which is nobody's typing.
            outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "\n", "encoding": "utf8" }));
            let said = outlive.wait_output(&id, &format!("ask {}: (\\d+) (\\d+)\\.", number + 1));
            assert_eq!(said["groups"], json!([rows.to_string(), cols.to_string()]), "{what}");
            let info = outlive.info(&id);
            assert_eq!((&info["cols"], &info["rows"]), (&json!(cols), &json!(rows)), "{what}");
        }
    }
}

#[test]
fn a_resize_is_told_to_all_and_to_the_program() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "trap 'stty size' WINCH; stty size; echo up; while :; do sleep 0.02; done", "shell": true, "tty": true, "cols": 91, "rows": 26,
    }));
    outlive.wait_output(&id, "26 91\r\nup");
    let mut one = Socket::connect(outlive.http(), &id, "", false);
    let mut other = Socket::connect(outlive.http(), &id, "", false);
    assert_eq!((&one.ready["cols"], &one.ready["rows"]), (&json!(91), &json!(26)));
    one.resize(70, 20);
    for socket in [&mut one, &mut other] {
        let frame = control(socket, "resized");
        assert_eq!((&frame["cols"], &frame["rows"]), (&json!(70), &json!(20)));
    }
    outlive.wait_output(&id, "20 70");
    let size = json!({ "cols": 71, "rows": 21 });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/terminal/resize"), &size).json, size);
    outlive.wait_output(&id, "21 71");
    assert_eq!(control(&mut other, "resized")["cols"], 71);
}

// ---- where reading begins ----

#[test]
fn a_client_resumes_at_its_offset_and_misses_nothing() {
    let outlive = Outlive::start();
    let id = outlive.shell("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; read x");
    let mut got = Vec::new();
    let mut offset = 0;
    let expected: Vec<u8> = (0..30_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    let mut turn = 0;
    while got.len() < expected.len() {
        turn += 1;
        let mut socket = Socket::connect(outlive.http(), &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        let before = got.len();
        while got.len() < expected.len() && got.len() - before < expected.len() / 7 {
            match socket.next() {
                Frame::Bytes { offset, stream, bytes } => {
                    assert_eq!((offset, stream), (got.len() as u64, 1));
                    got.extend_from_slice(&bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        offset = socket.cut();
    }
    assert!(turn > 1);
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    // Tail, head and beyond.
    let head = expected.len() as u64;
    for (query, begins) in
        [("tail=100", head - 100), ("tail=999999999", 0), ("tail=0", head), ("", head), (&format!("from={head}"), head)]
    {
        let mut socket = Socket::connect(outlive.http(), &id, query, true);
        assert_eq!((socket.offset, socket.ready["offset"].as_u64()), (begins, Some(begins)), "{query}");
        if begins < head {
            let mut read = Vec::new();
            while read.len() as u64 + begins < head {
                if let Frame::Bytes { bytes, .. } = socket.next() {
                    read.extend_from_slice(&bytes);
                }
            }
            assert!(read == expected[begins as usize..], "{query}");
        }
    }
    let refused =
        Socket::try_connect(outlive.http(), &id, &format!("from={}", head + 1), true).err().unwrap_or_default();
    assert!(refused.contains("400"), "{refused}");
}

#[test]
fn an_offset_that_is_gone_is_refused_and_says_so() {
    let outlive = Outlive::start();
    let id = outlive.start_process(
        json!({ "command": "head -c 3000000 /dev/zero; read x", "shell": true, "maxLogBytes": 300_000 }),
    );
    eventually("all is printed", || (outlive.info(&id)["outputEnd"] == 3_000_000).then_some(()));
    let refused = Socket::try_connect(outlive.http(), &id, "from=0", true).err().unwrap_or_default();
    assert!(refused.contains("410"), "{refused}");
    let oldest = outlive.info(&id)["outputStart"].as_u64().unwrap();
    assert!(oldest > 0);
    let socket = Socket::connect(outlive.http(), &id, &format!("from={oldest}"), true);
    assert_eq!(socket.offset, oldest);
}

#[test]
fn a_replay_of_10_mib_reaches_a_client_with_small_messages() {
    const ALL: usize = 10 << 20;
    let outlive = Outlive::start();
    for tty in [false, true] {
        let line = format!("stty raw 2>/dev/null; head -c {ALL} /dev/zero | tr '\\0' x");
        let id = outlive.start_process(json!({ "command": line, "shell": true, "tty": tty }));
        outlive.wait_exit(&id);
        let path = format!("/v1/processes/{id}/connect?from=0");
        let mut socket = Socket::open(outlive.http(), &path, !tty, Some(1 << 20)).unwrap();
        let mut count = 0;
        loop {
            match socket.next() {
                Frame::Bytes { bytes, .. } => {
                    assert!(bytes.len() <= 64 << 10, "a frame of {}", bytes.len());
                    assert!(bytes.iter().all(|byte| *byte == b'x'));
                    count += bytes.len();
                }
                Frame::Control(frame) => {
                    assert_eq!((&frame["type"], &frame["offset"]), (&json!("exit"), &json!(ALL)));
                    break;
                }
                Frame::Closed(code) => panic!("{code:?}"),
            }
        }
        assert_eq!((count, socket.offset, end(&mut socket)), (ALL, ALL as u64, Some(1000)));
    }
}

// ---- bytes ----

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

// ---- how it ends ----

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

// ---- sandbox-agent's own socket ----

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
