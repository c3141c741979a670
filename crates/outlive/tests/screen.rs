//! Screens of terminals: as snapshots, as repaints on attach and after a gap, and after a server crash.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::socket::{Frame, Socket};
use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};

/// Starts a raw terminal that prints `printed` and then waits for input.
fn start_terminal(outlive: &Outlive, printed: &str, extra: &Value) -> String {
    let mut spec = json!({
        "command": "sh",
        "args": ["-c", "stty raw -echo; printf \"$1\"; exec cat", "sh", printed],
        "tty": true,
        "cols": 40,
        "rows": 10,
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    outlive.start_process(spec)
}

fn get_screen(outlive: &Outlive, id: &str) -> Value {
    let response = outlive.get(&format!("/v1/processes/{id}/screen"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json
}

/// Reads up to the next repaint; returns its control frame and its bytes.
fn read_repaint(socket: &mut Socket) -> (Value, String) {
    let frame = loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == "repaint" => break frame,
            Frame::Closed(code) => panic!("closed with {code:?} before a repaint"),
            _ => {}
        }
    };
    let (length, mut bytes) = (frame["bytes"].as_u64().unwrap() as usize, Vec::new());
    while bytes.len() < length {
        match socket.next() {
            Frame::Bytes { bytes: more, .. } => bytes.extend(more),
            other => panic!("{other:?} within a repaint"),
        }
    }
    assert_eq!(bytes.len(), length);
    (frame, String::from_utf8(bytes).unwrap())
}

#[test]
fn a_screen_is_available_in_every_format() {
    let outlive = Outlive::start();
    let id = start_terminal(
        &outlive,
        "\\033]2;a title\\007\\033[31mred\\033[m plain\\r\\n\\033[?2004h<b>&\\033[3;5Hx",
        &json!({}),
    );
    outlive.wait_output(&id, "5Hx");
    let shown = get_screen(&outlive, &id);
    assert_eq!(shown["lines"].as_array().unwrap().len(), 10);
    assert_eq!(shown["lines"][0], "red plain");
    assert_eq!(shown["lines"][2], "    x");
    assert_eq!(shown["cursor"], json!({ "row": 2, "col": 5, "visible": true, "shape": "default" }));
    assert_eq!((&shown["title"], &shown["cols"], &shown["rows"]), (&json!("a title"), &json!(40), &json!(10)));
    assert_eq!((&shown["modes"]["bracketedPaste"], &shown["alternate"]), (&json!(true), &json!(false)));
    assert_eq!((&shown["offset"], &shown["approximate"]), (&outlive.info(&id)["outputEnd"], &json!(false)));
    let get = |format: &str| outlive.get(&format!("/v1/processes/{id}/screen?format={format}"));
    let text = get("text");
    assert_eq!(
        (String::from_utf8_lossy(&text.body).as_ref(), text.header("content-type")),
        ("red plain\n<b>&\n    x\n", Some("text/plain; charset=utf-8"))
    );
    let svg = get("svg");
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.body.starts_with(b"<svg") && svg.text().contains("&lt;b&gt;&amp;"), "{}", svg.text());
    let ansi = get("ansi");
    // The repaint ends before the last character, and the log continues with that character.
    assert_eq!(ansi.header("x-outlive-offset").unwrap().parse::<u64>().unwrap() + 1, shown["offset"].as_u64().unwrap());
    assert!(ansi.body.starts_with(b"\x1bc") && ansi.text().contains("\x1b[0;31mred"), "{:?}", ansi.text());
    assert_eq!((get("gif").status, get("gif").code()), (400, "invalid_query"));
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    let refused = outlive.get(&format!("/v1/processes/{pipes}/screen"));
    assert_eq!((refused.status, refused.code()), (409, "not_a_terminal"));
}

// Regression: the model of a window of four thousand million cells took all memory.
#[test]
fn a_model_of_a_huge_window_is_clamped() {
    let outlive = Outlive::start();
    let id = start_terminal(&outlive, "up", &json!({ "cols": 65_535, "rows": 65_535 }));
    outlive.wait_output(&id, "up");
    let server = outlive.server_pid();
    let shown = get_screen(&outlive, &id);
    assert_eq!((&shown["cols"], &shown["rows"], &shown["lines"][0]), (&json!(640), &json!(240), &json!("up")));
    assert_eq!(outlive.server_pid(), server);
}

// Regression: a short text with changing links was repainted as hundreds of megabytes.
#[test]
fn a_repaint_of_many_long_links_is_small() {
    let outlive = Outlive::start();
    let link = "u".repeat(1000);
    let row = format!("\\033]8;;http://{link}\\033\\\\x\\033]8;;\\033\\\\y");
    let script =
        format!("stty raw -echo; for i in $(seq 20); do printf '{}'; done; printf done; exec cat", row.repeat(20));
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    outlive.wait_output(&id, "done");
    let painted = outlive.get(&format!("/v1/processes/{id}/screen?format=ansi&scrollback=1000"));
    assert!(painted.body.len() < 1_000_000, "{} bytes", painted.body.len());
}

// Regression: while an escape sequence was not terminated, no client could attach.
#[test]
fn clients_attach_within_an_unterminated_sequence() {
    let outlive = Outlive::start();
    let script = "stty raw -echo; printf 'before\\033P'; head -c 200000 /dev/zero | tr '\\0' x; printf Z; exec cat";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "maxLogBytes": 262_144 }));
    outlive.wait_output(&id, "Z");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (frame, bytes) = read_repaint(&mut socket);
    assert_eq!((&frame["approximate"], &frame["offset"]), (&json!(true), &outlive.info(&id)["outputEnd"]), "{bytes:?}");
}

#[test]
fn huge_repeat_counts_do_not_delay_a_screen() {
    let outlive = Outlive::start();
    let script = "stty raw -echo; for i in $(seq 2000); do printf 'x\\033[2147483647b'; done; printf Z; exec cat";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    outlive.wait_output(&id, "Z");
    // The model gives up after a time limit and the request returns what it has so far.
    assert_eq!(get_screen(&outlive, &id)["rows"], 24);
}

#[test]
fn cached_screen_models_are_bounded() {
    let outlive = Outlive::start();
    let script = "seq 1 2000; exec cat";
    let ids: Vec<String> =
        (0..40).map(|_| outlive.start_process(json!({ "command": script, "shell": true, "tty": true }))).collect();
    for id in &ids {
        outlive.wait_output(id, "2000\r\n");
    }
    let memory = || harness::proc::memory_kib(outlive.server_pid(), "RssAnon");
    let before = memory();
    for id in &ids {
        assert_eq!(get_screen(&outlive, id)["lines"][22], "2000");
    }
    // A model with a thousand lines of scrollback takes more than 3 MB.
    assert!(memory() < before + 60_000, "{before} KiB, then {}", memory());
}

#[test]
fn an_exited_process_still_has_a_screen() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "printf 'the last words'", "shell": true, "tty": true }));
    outlive.wait_exit(&id);
    assert_eq!(get_screen(&outlive, &id)["lines"][0], "the last words");
}

#[test]
fn an_attachment_starts_with_a_repaint_and_continues_at_its_offset() {
    let outlive = Outlive::start();
    let id = start_terminal(&outlive, "one\\r\\n\\033[?1049h\\033[1mtwo\\033[3", &json!({}));
    outlive.wait_output(&id, "two\x1b\\[3");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (frame, bytes) = read_repaint(&mut socket);
    assert_eq!((&frame["cols"], &frame["rows"], &frame["approximate"]), (&json!(40), &json!(10), &json!(false)));
    assert_eq!(frame["offset"], socket.ready["offset"]);
    assert!(bytes.contains("one") && bytes.contains("\x1b[?47h") && bytes.contains("tw"), "{bytes:?}");
    // The live bytes follow: the last character, the incomplete sequence, and the input that completes it.
    socket.type_text("1mX");
    assert_eq!(socket.read_until("X"), b"o\x1b[31mX");
    let problem = outlive.http().send("GET", &format!("/v1/processes/{id}/connect?screen=true&from=0"), &[], None);
    assert_eq!(problem.status, 400, "{}", problem.text());
}

#[test]
fn a_repaint_has_the_size_that_the_client_asks_for() {
    let outlive = Outlive::start();
    let id = start_terminal(&outlive, "up", &json!({}));
    outlive.wait_output(&id, "up");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true&cols=60&rows=20", false);
    let (frame, _) = read_repaint(&mut socket);
    assert_eq!((&frame["cols"], &frame["rows"]), (&json!(60), &json!(20)));
    let shown = get_screen(&outlive, &id);
    assert_eq!((&shown["cols"], &shown["rows"]), (&json!(60), &json!(20)));
}

#[test]
fn a_repaint_includes_scrollback_only_on_request() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "seq 1 100; exec cat", "shell": true, "tty": true, "rows": 10 }));
    outlive.wait_output(&id, "100\r\n");
    for (query, has_scrollback) in [("screen=true", false), ("screen=true&scrollback=1000", true)] {
        let mut socket = Socket::connect(outlive.http(), &id, query, false);
        let (_, bytes) = read_repaint(&mut socket);
        assert_eq!(bytes.contains("H12\x1b"), has_scrollback, "{bytes:?}");
        assert!(bytes.contains("H99\x1b"), "{bytes:?}");
    }
}

#[test]
fn a_client_that_falls_behind_gets_a_repaint() {
    let outlive = Outlive::start_with(Setup::without_history());
    let id = outlive.start_process(json!({
        "command": "stty -echo; printf '\\033[?1049h'; read go; seq 1 400000; printf 'the end'; exec cat",
        "shell": true, "tty": true, "maxLogBytes": 262_144,
    }));
    outlive.wait_output(&id, "1049h");
    // The client reads one window, and then nothing until the program has printed everything.
    let mut socket = Socket::connect(outlive.http(), &id, "flow=live&window=4096", false);
    let input = json!({ "data": "\n", "encoding": "utf8" });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
    outlive.wait_output(&id, "the end");
    let mut seen = 0;
    let gap = loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == "gap" => break frame,
            Frame::Bytes { bytes, .. } => {
                seen += bytes.len();
                socket.send_control(json!({ "type": "ack", "offset": seen }));
            }
            Frame::Closed(code) => panic!("{code:?}"),
            Frame::Control(_) => {}
        }
    };
    let (frame, bytes) = read_repaint(&mut socket);
    assert_eq!(frame["offset"], gap["to"]);
    assert!(bytes.contains("\x1b[?47h") && bytes.contains("400000"), "{bytes:?}");
    assert_eq!(socket.read_until("d"), b"d");
}

/// Starts a terminal that prints `bytes` before its client reads, and more after the client's second key.
fn start_ahead_of_client(outlive: &Outlive, bytes: usize) -> (String, Socket) {
    let script = format!(
        "stty raw -echo; read go; head -c {bytes} /dev/zero | tr '\\0' y; printf 'before'; \
                          dd bs=1 count=2 2>/dev/null; head -c 300000 /dev/zero | tr '\\0' z; printf 'after'; exec cat"
    );
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    let socket = Socket::connect(outlive.http(), &id, "window=4096&scrollback=0", false);
    let input = json!({ "data": "\n", "encoding": "utf8" });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
    outlive.wait_output(&id, "before");
    (id, socket)
}

/// Reads and acknowledges bytes until they end with `wanted`. Panics on gaps and repaints.
fn read_until(socket: &mut Socket, wanted: &str) -> String {
    let mut seen = String::new();
    while !seen.ends_with(wanted) {
        match socket.next() {
            Frame::Bytes { bytes, .. } => {
                seen.push_str(&String::from_utf8(bytes).unwrap());
                let offset = socket.offset;
                socket.send_control(json!({ "type": "ack", "offset": offset }));
            }
            other => panic!("{other:?} at {}", socket.offset),
        }
    }
    seen
}

#[test]
fn typing_far_behind_the_output_skips_to_a_repaint() {
    let outlive = Outlive::start();
    let (_, mut socket) = start_ahead_of_client(&outlive, 1_000_000);
    socket.type_text("k");
    let gap = loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == "gap" => break frame,
            Frame::Bytes { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let (shown, bytes) = read_repaint(&mut socket);
    assert_eq!(shown["offset"], gap["to"]);
    assert!(gap["to"].as_u64().unwrap() > 1_000_000, "all output printed before the key is skipped: {gap}");
    assert!(bytes.contains("befor"), "{bytes:?}");
    // Later output is not skipped, however much it is.
    socket.send_control(json!({ "type": "ack", "offset": shown["offset"] }));
    socket.type_text("l");
    let seen = read_until(&mut socket, "after");
    assert_eq!(seen.matches('z').count(), 300_000);
}

#[test]
fn typing_close_behind_the_output_skips_nothing() {
    let outlive = Outlive::start();
    let (_, mut socket) = start_ahead_of_client(&outlive, 100_000);
    socket.type_text("kl");
    let seen = read_until(&mut socket, "after");
    assert_eq!((seen.matches('y').count(), seen.matches('z').count()), (100_000, 300_000));
}

/// Starts a program that draws a screen once and then prints until the log has overwritten it.
fn start_with_overwritten_screen(outlive: &Outlive) -> String {
    let script = "stty raw -echo; printf '\\033[?1049h\\033[?2004h\\033[5;5Hkept\\033[1;1H'; \
                  while read line; do head -c 40000 /dev/zero | tr '\\0' '\\7'; printf \"$line\"; done";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "maxLogBytes": 262_144 }));
    outlive.wait_output(&id, "kept");
    for round in 0..8 {
        eventually("the log is watched", || (read_metric(outlive, "screens_watched") == 1).then_some(()));
        let before = read_metric(outlive, "screen_checkpoints");
        for part in ["a", "b", "c"] {
            let input = json!({ "data": format!("{round}{part}\n"), "encoding": "utf8" });
            assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
            outlive.wait_output(&id, &format!("{round}{part}"));
        }
        eventually("a checkpoint", || (read_metric(outlive, "screen_checkpoints") > before).then_some(()));
    }
    assert!(outlive.info(&id)["outputStart"].as_u64().unwrap() > 100_000);
    id
}

fn read_metric(outlive: &Outlive, name: &str) -> u64 {
    let text = outlive.get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(&format!("outlive_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn overwritten_output_stays_on_the_screen_across_a_server_crash() {
    let outlive = Outlive::start_with(Setup::without_history());
    let id = start_with_overwritten_screen(&outlive);
    let assert_complete = |shown: &Value| {
        assert_eq!((&shown["alternate"], &shown["modes"]["bracketedPaste"]), (&json!(true), &json!(true)));
        assert_eq!((&shown["lines"][4], &shown["approximate"]), (&json!("    kept"), &json!(false)), "{shown}");
    };
    assert_complete(&get_screen(&outlive, &id));
    outlive.kill_server();
    assert_complete(
        &eventually("the next server", || {
            outlive
                .http()
                .try_send("GET", &format!("/v1/processes/{id}/screen"), &[], None)
                .ok()
                .filter(|response| response.status == 200)
        })
        .json,
    );
    outlive.delete(&format!("/v1/processes/{id}?force=true"));
}

#[test]
fn repeated_crashes_disable_screens_but_not_attachments() {
    let outlive = Outlive::start();
    let id = start_terminal(&outlive, "hello", &json!({}));
    outlive.wait_output(&id, "hello");
    get_screen(&outlive, &id);
    for _ in 0..3 {
        outlive.kill_server();
    }
    let refused = outlive.get(&format!("/v1/processes/{id}/screen"));
    assert_eq!((refused.status, refused.code()), (503, "safe_mode"), "{}", refused.text());
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (shown, _) = read_repaint(&mut socket);
    assert_eq!((&shown["offset"], &shown["approximate"]), (&json!(0), &json!(true)));
    assert!(matches!(socket.next(), Frame::Bytes { bytes, .. } if bytes == b"hello"));
}

// Regression: for a client that attached late, an editor drew into the client's own shell and had no mouse.
#[test]
fn an_alternate_screen_is_repainted_on_the_clients_alternate_screen() {
    let outlive = Outlive::start();
    let get_alternate = |id: &str| outlive.get(&format!("/v1/processes/{id}/screen?format=alternate"));
    let shell = start_terminal(&outlive, "a shell", &json!({}));
    outlive.wait_output(&shell, "a shell");
    assert_eq!((get_alternate(&shell).status, get_alternate(&shell).body.len()), (200, 0));
    let editor = start_terminal(&outlive, "mine\\r\\n\\033[?1049h\\033[?1000h\\033=\\033[3;5Hdrawn\\r", &json!({}));
    outlive.wait_output(&editor, "drawn");
    let response = get_alternate(&editor);
    let bytes = String::from_utf8(response.body.clone()).unwrap();
    assert!(bytes.starts_with("\x1b[?1049h") && !bytes.contains("\x1bc"), "{bytes:?}");
    assert!(bytes.contains("drawn") && bytes.contains("\x1b[?1000h") && bytes.contains("\x1b="), "{bytes:?}");
    assert!(!bytes.contains("mine"), "{bytes:?}");
    assert_eq!(response.header("x-outlive-offset").unwrap(), outlive.info(&editor)["outputEnd"].to_string());
}
