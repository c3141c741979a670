//! What a terminal shows: by itself, when attaching, after a gap, and after the death of the server.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::socket::{Frame, Socket};
use harness::{Outlive, eventually};
use serde_json::{Value, json};

/// A terminal that prints what it is told, byte for byte, and waits.
fn terminal(outlive: &Outlive, printed: &str, more: &Value) -> String {
    let mut spec = json!({
        "command": "sh",
        "args": ["-c", "stty raw -echo; printf \"$1\"; exec cat", "sh", printed],
        "tty": true,
        "cols": 40,
        "rows": 10,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    outlive.start_process(spec)
}

fn screen(outlive: &Outlive, id: &str) -> Value {
    let answer = outlive.get(&format!("/v1/processes/{id}/screen"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json
}

/// The repaint that comes next, and its bytes.
fn repaint(socket: &mut Socket) -> (Value, String) {
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
            other => panic!("{other:?} in the midst of a repaint"),
        }
    }
    assert_eq!(bytes.len(), length);
    (frame, String::from_utf8(bytes).unwrap())
}

#[test]
fn a_screen_in_every_format() {
    let outlive = Outlive::start();
    let id = terminal(
        &outlive,
        "\\033]2;a title\\007\\033[31mred\\033[m plain\\r\\n\\033[?2004h<b>&\\033[3;5Hx",
        &json!({}),
    );
    outlive.wait_output(&id, "5Hx");
    let shown = screen(&outlive, &id);
    assert_eq!(shown["lines"].as_array().unwrap().len(), 10);
    assert_eq!(shown["lines"][0], "red plain");
    assert_eq!(shown["lines"][2], "    x");
    assert_eq!(shown["cursor"], json!({ "row": 2, "col": 5, "visible": true, "shape": "default" }));
    assert_eq!((&shown["title"], &shown["cols"], &shown["rows"]), (&json!("a title"), &json!(40), &json!(10)));
    assert_eq!((&shown["modes"]["bracketedPaste"], &shown["alternate"]), (&json!(true), &json!(false)));
    assert_eq!((&shown["offset"], &shown["approximate"]), (&outlive.info(&id)["outputEnd"], &json!(false)));
    let of = |format: &str| outlive.get(&format!("/v1/processes/{id}/screen?format={format}"));
    let text = of("text");
    assert_eq!(
        (String::from_utf8_lossy(&text.body).as_ref(), text.header("content-type")),
        ("red plain\n<b>&\n    x\n", Some("text/plain; charset=utf-8"))
    );
    let svg = of("svg");
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.body.starts_with(b"<svg") && svg.text().contains("&lt;b&gt;&amp;"), "{}", svg.text());
    let ansi = of("ansi");
    // The last character is not in it: the log goes on with it.
    assert_eq!(ansi.header("x-outlive-offset").unwrap().parse::<u64>().unwrap() + 1, shown["offset"].as_u64().unwrap());
    assert!(ansi.body.starts_with(b"\x1bc") && ansi.text().contains("\x1b[0;31mred"), "{:?}", ansi.text());
    assert_eq!((of("gif").status, of("gif").code()), (400, "invalid_query"));
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    let refused = outlive.get(&format!("/v1/processes/{pipes}/screen"));
    assert_eq!((refused.status, refused.code()), (409, "not_a_terminal"));
}

#[test]
fn a_window_of_four_thousand_million_cells_took_all_memory() {
    let outlive = Outlive::start();
    let id = terminal(&outlive, "up", &json!({ "cols": 65_535, "rows": 65_535 }));
    outlive.wait_output(&id, "up");
    let server = outlive.server_pid();
    let shown = screen(&outlive, &id);
    assert_eq!((&shown["cols"], &shown["rows"], &shown["lines"][0]), (&json!(640), &json!(240), &json!("up")));
    assert_eq!(outlive.server_pid(), server);
}

#[test]
fn a_short_text_whose_links_change_was_repainted_as_hundreds_of_megabytes() {
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

#[test]
fn a_sequence_without_an_end_kept_everybody_out() {
    let outlive = Outlive::start();
    let script = "stty raw -echo; printf 'before\\033P'; head -c 200000 /dev/zero | tr '\\0' x; printf Z; exec cat";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "maxLogBytes": 262_144 }));
    outlive.wait_output(&id, "Z");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (frame, bytes) = repaint(&mut socket);
    assert_eq!((&frame["approximate"], &frame["offset"]), (&json!(true), &outlive.info(&id)["outputEnd"]), "{bytes:?}");
}

#[test]
fn one_character_repeated_for_ever_is_worked_out_at_once() {
    let outlive = Outlive::start();
    let script = "stty raw -echo; for i in $(seq 2000); do printf 'x\\033[2147483647b'; done; printf Z; exec cat";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true }));
    outlive.wait_output(&id, "Z");
    // It answers within its time, however much that leaves out.
    assert_eq!(screen(&outlive, &id)["rows"], 24);
}

#[test]
fn the_screens_of_many_terminals_are_not_all_kept() {
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
        assert_eq!(screen(&outlive, id)["lines"][22], "2000");
    }
    // A model with its thousand lines takes more than 3 MB.
    assert!(memory() < before + 60_000, "{before} KiB, then {}", memory());
}

#[test]
fn what_ended_still_has_a_screen() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "printf 'the last words'", "shell": true, "tty": true }));
    outlive.wait_exit(&id);
    assert_eq!(screen(&outlive, &id)["lines"][0], "the last words");
}

#[test]
fn an_attachment_begins_with_a_screen_and_goes_on_at_its_byte() {
    let outlive = Outlive::start();
    let id = terminal(&outlive, "one\\r\\n\\033[?1049h\\033[1mtwo\\033[3", &json!({}));
    outlive.wait_output(&id, "two\x1b\\[3");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (frame, bytes) = repaint(&mut socket);
    assert_eq!((&frame["cols"], &frame["rows"], &frame["approximate"]), (&json!(40), &json!(10), &json!(false)));
    assert_eq!(frame["offset"], socket.ready["offset"]);
    assert!(bytes.contains("one") && bytes.contains("\x1b[?47h") && bytes.contains("tw"), "{bytes:?}");
    // Live from exactly there: the last character, the sequence that was begun, and what ends it.
    socket.type_text("1mX");
    assert_eq!(socket.read_until("X"), b"o\x1b[31mX");
    let problem = outlive.http().send("GET", &format!("/v1/processes/{id}/connect?screen=true&from=0"), &[], None);
    assert_eq!(problem.status, 400, "{}", problem.text());
}

#[test]
fn a_repaint_has_the_size_of_who_asked_for_it() {
    let outlive = Outlive::start();
    let id = terminal(&outlive, "up", &json!({}));
    outlive.wait_output(&id, "up");
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true&cols=60&rows=20", false);
    let (frame, _) = repaint(&mut socket);
    assert_eq!((&frame["cols"], &frame["rows"]), (&json!(60), &json!(20)));
    let shown = screen(&outlive, &id);
    assert_eq!((&shown["cols"], &shown["rows"]), (&json!(60), &json!(20)));
}

#[test]
fn lines_above_the_screen_come_when_they_are_wanted() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "seq 1 100; exec cat", "shell": true, "tty": true, "rows": 10 }));
    outlive.wait_output(&id, "100\r\n");
    for (query, there) in [("screen=true", false), ("screen=true&scrollback=1000", true)] {
        let mut socket = Socket::connect(outlive.http(), &id, query, false);
        let (_, bytes) = repaint(&mut socket);
        assert_eq!(bytes.contains("H12\x1b"), there, "{bytes:?}");
        assert!(bytes.contains("H99\x1b"), "{bytes:?}");
    }
}

#[test]
fn who_fell_behind_is_shown_the_screen_instead() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "stty -echo; printf '\\033[?1049h'; read go; seq 1 400000; printf 'the end'; exec cat",
        "shell": true, "tty": true, "maxLogBytes": 262_144,
    }));
    outlive.wait_output(&id, "1049h");
    // It takes a little, and then nothing until the flood is over.
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
                socket.control(json!({ "type": "ack", "offset": seen }));
            }
            Frame::Closed(code) => panic!("{code:?}"),
            Frame::Control(_) => {}
        }
    };
    let (frame, bytes) = repaint(&mut socket);
    assert_eq!(frame["offset"], gap["to"]);
    assert!(bytes.contains("\x1b[?47h") && bytes.contains("400000"), "{bytes:?}");
    assert_eq!(socket.read_until("d"), b"d");
}

/// A terminal that has printed `bytes` before anybody reads, and more after the second key.
fn printed_before(outlive: &Outlive, bytes: usize) -> (String, Socket) {
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

/// Acknowledges whatever comes, until this is in it. Gaps and repaints are told apart from bytes of the log.
fn take_until(socket: &mut Socket, mut taken: u64, wanted: &str) -> (u64, String) {
    let mut seen = String::new();
    while !seen.ends_with(wanted) {
        match socket.next() {
            Frame::Bytes { bytes, .. } => {
                seen.push_str(&String::from_utf8(bytes).unwrap());
                taken = socket.offset;
                socket.control(json!({ "type": "ack", "offset": taken }));
            }
            other => panic!("{other:?} after {taken} bytes"),
        }
    }
    (taken, seen)
}

#[test]
fn who_types_far_behind_is_shown_the_screen_instead_of_what_was_printed_before() {
    let outlive = Outlive::start();
    let (_, mut socket) = printed_before(&outlive, 1_000_000);
    socket.type_text("k");
    let gap = loop {
        match socket.next() {
            Frame::Control(frame) if frame["type"] == "gap" => break frame,
            Frame::Bytes { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let (shown, bytes) = repaint(&mut socket);
    assert_eq!(shown["offset"], gap["to"]);
    assert!(gap["to"].as_u64().unwrap() > 1_000_000, "everything that was printed before the key: {gap}");
    assert!(bytes.contains("befor"), "{bytes:?}");
    // What comes after that is not passed over, however much it is.
    socket.control(json!({ "type": "ack", "offset": shown["offset"] }));
    socket.type_text("l");
    let (_, seen) = take_until(&mut socket, 0, "after");
    assert_eq!(seen.matches('z').count(), 300_000);
}

#[test]
fn who_types_close_behind_misses_nothing() {
    let outlive = Outlive::start();
    let (_, mut socket) = printed_before(&outlive, 100_000);
    socket.type_text("kl");
    let (_, seen) = take_until(&mut socket, 0, "after");
    assert_eq!((seen.matches('y').count(), seen.matches('z').count()), (100_000, 300_000));
}

/// Prints a full screen once, and then so much that the log has forgotten it long since.
fn long_ago(outlive: &Outlive) -> String {
    let script = "stty raw -echo; printf '\\033[?1049h\\033[?2004h\\033[5;5Hkept\\033[1;1H'; \
                  while read line; do head -c 40000 /dev/zero | tr '\\0' '\\7'; printf \"$line\"; done";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": true, "maxLogBytes": 262_144 }));
    outlive.wait_output(&id, "kept");
    for round in 0..8 {
        eventually("the log is watched", || (metric(outlive, "screens_watched") == 1).then_some(()));
        let before = metric(outlive, "screen_checkpoints");
        for part in ["a", "b", "c"] {
            let input = json!({ "data": format!("{round}{part}\n"), "encoding": "utf8" });
            assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
            outlive.wait_output(&id, &format!("{round}{part}"));
        }
        eventually("a checkpoint", || (metric(outlive, "screen_checkpoints") > before).then_some(()));
    }
    assert!(outlive.info(&id)["outputStart"].as_u64().unwrap() > 100_000);
    id
}

fn metric(outlive: &Outlive, name: &str) -> u64 {
    let text = outlive.get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(&format!("outlive_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_the_log_has_forgotten_is_still_on_the_screen_also_for_the_next_server() {
    let outlive = Outlive::start();
    let id = long_ago(&outlive);
    let known = |shown: &Value| {
        assert_eq!((&shown["alternate"], &shown["modes"]["bracketedPaste"]), (&json!(true), &json!(true)));
        assert_eq!((&shown["lines"][4], &shown["approximate"]), (&json!("    kept"), &json!(false)), "{shown}");
    };
    known(&screen(&outlive, &id));
    outlive.kill_server();
    known(
        &eventually("the next server", || {
            outlive
                .http()
                .try_send("GET", &format!("/v1/processes/{id}/screen"), &[], None)
                .ok()
                .filter(|answer| answer.status == 200)
        })
        .json,
    );
    outlive.delete(&format!("/v1/processes/{id}?force=true"));
}

#[test]
fn a_server_that_dies_again_and_again_leaves_screens_alone_but_not_those_who_attach() {
    let outlive = Outlive::start();
    let id = terminal(&outlive, "hello", &json!({}));
    outlive.wait_output(&id, "hello");
    screen(&outlive, &id);
    for _ in 0..3 {
        outlive.kill_server();
    }
    let refused = outlive.get(&format!("/v1/processes/{id}/screen"));
    assert_eq!((refused.status, refused.code()), (503, "safe_mode"), "{}", refused.text());
    let mut socket = Socket::connect(outlive.http(), &id, "screen=true", false);
    let (shown, _) = repaint(&mut socket);
    assert_eq!((&shown["offset"], &shown["approximate"]), (&json!(0), &json!(true)));
    assert!(matches!(socket.next(), Frame::Bytes { bytes, .. } if bytes == b"hello"));
}

/// An editor printed into the shell of whoever attached late, and found no mouse.
#[test]
fn a_full_screen_program_is_shown_on_another_terminals_other_screen() {
    let outlive = Outlive::start();
    let overlay = |id: &str| outlive.get(&format!("/v1/processes/{id}/screen?format=alternate"));
    let shell = terminal(&outlive, "a shell", &json!({}));
    outlive.wait_output(&shell, "a shell");
    assert_eq!((overlay(&shell).status, overlay(&shell).body.len()), (200, 0));
    let editor = terminal(&outlive, "mine\\r\\n\\033[?1049h\\033[?1000h\\033=\\033[3;5Hdrawn\\r", &json!({}));
    outlive.wait_output(&editor, "drawn");
    let answer = overlay(&editor);
    let bytes = String::from_utf8(answer.body.clone()).unwrap();
    assert!(bytes.starts_with("\x1b[?1049h") && !bytes.contains("\x1bc"), "{bytes:?}");
    assert!(bytes.contains("drawn") && bytes.contains("\x1b[?1000h") && bytes.contains("\x1b="), "{bytes:?}");
    assert!(!bytes.contains("mine"), "{bytes:?}");
    assert_eq!(answer.header("x-outlive-offset").unwrap(), outlive.info(&editor)["outputEnd"].to_string());
}
