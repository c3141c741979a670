//! The event stream and followed logs: order, resumption, filters, and the end of the stream.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use harness::http::{Event, EventStream};
use harness::socket::Socket;
use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};

fn follow(outlive: &Outlive, path: &str, last_event_id: Option<&str>) -> EventStream {
    let headers: Vec<(&str, &str)> = last_event_id.map(|id| ("last-event-id", id)).into_iter().collect();
    let open = outlive.http().open("GET", path, &headers, None).unwrap();
    assert_eq!(open.status, 200, "{path}");
    assert_eq!(open.header("content-type"), Some("text/event-stream"));
    EventStream::new(open)
}

fn parse_data(event: &Event) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

/// Returns the name, the reason (or an empty string) and the process id of an event.
fn summarize(event: &Event) -> (String, String, String) {
    let body = parse_data(event);
    assert_eq!(body["type"], event.name.as_str());
    assert!(body["atMs"].is_u64());
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    (event.name.clone(), text(&body["reason"]), text(&body["process"]["id"]))
}

/// Parses the sequence number of an event id, and checks its epoch.
fn parse_sequence(outlive: &Outlive, event: &Event) -> u64 {
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    event
        .id
        .strip_prefix(&format!("{epoch}-"))
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{}", event.id))
}

fn force_delete(outlive: &Outlive, id: &str) {
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
}

// ---- /v1/events ----

#[test]
fn lifecycle_events_arrive_in_order() {
    let outlive = Outlive::start();
    let mut events = follow(&outlive, "/v1/events", None);
    let id = outlive.start_process(json!({ "command": "cat", "tty": true, "start": false, "tag": "t" }));
    let call = |rest: &str| outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None);
    call("start");
    let socket = Socket::connect(outlive.http(), &id, "", false);
    outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": 101, "rows": 31 }));
    let headers = [("content-type", "application/json")];
    outlive.http().send("PATCH", &format!("/v1/processes/{id}"), &headers, Some(b"{\"label\":\"l\"}"));
    socket.disconnect();
    eventually("the detach", || (outlive.info(&id)["attachments"] == 0).then_some(()));
    call("stop?waitMs=30000");
    outlive.wait_exit(&id);
    force_delete(&outlive, &id);
    let expected = [
        ("process.created", ""),
        ("process.updated", "started"),
        ("process.updated", "attached"),
        ("process.updated", "resized"),
        ("process.updated", "patched"),
        ("process.updated", "detached"),
        ("process.updated", "stopRequested"),
        ("process.exited", ""),
    ];
    let mut last = None;
    for (name, reason) in expected {
        let event = events.next().unwrap();
        assert_eq!(summarize(&event), (name.to_owned(), reason.to_owned(), id.clone()));
        let number = parse_sequence(&outlive, &event);
        assert!(last.is_none_or(|last| number == last + 1), "{last:?} then {number}");
        last = Some(number);
        let process = &parse_data(&event)["process"];
        match reason {
            "resized" => assert_eq!((&process["cols"], &process["rows"]), (&json!(101), &json!(31))),
            "patched" => assert_eq!(process["label"], "l"),
            "stopRequested" => assert_eq!(process["stopRequested"], true),
            _ => {}
        }
        if name == "process.exited" {
            assert_eq!((&process["status"], &process["exitReason"]), (&json!("exited"), &json!("stopped")));
        }
    }
    // A forced delete first repeats the request to kill the rest of the tree.
    assert_eq!(summarize(&events.skip_to("process.deleted")).2, id);
}

#[test]
fn last_event_id_resumes_without_loss_across_a_server_crash() {
    let outlive = Outlive::start();
    let mut all = follow(&outlive, "/v1/events", None);
    let ids: Vec<String> = (0..5).map(|_| outlive.start_shell("true")).collect();
    for id in &ids {
        outlive.wait_exit(id);
    }
    let last = outlive.start_shell("true");
    let mut seen = Vec::new();
    loop {
        let event = all.next().unwrap();
        let is_last = event.name == "process.exited" && summarize(&event).2 == last;
        seen.push(event);
        if is_last {
            break;
        }
    }
    // Each process has one created and one exited event, in any order among the processes.
    assert_eq!(seen.len(), 12, "{seen:?}");
    let resume_from = |position: usize, by_query: bool| {
        let id = &seen[position].id;
        let mut resumed = if by_query {
            follow(&outlive, &format!("/v1/events?after={id}"), None)
        } else {
            follow(&outlive, "/v1/events", Some(id))
        };
        for event in &seen[position + 1..] {
            let again = resumed.next().unwrap();
            assert_eq!((&again.id, &again.name, &again.data), (&event.id, &event.name, &event.data));
        }
    };
    for position in [0, 3, 10] {
        resume_from(position, false);
        resume_from(position, true);
    }
    outlive.kill_server();
    for position in [0, 5] {
        resume_from(position, false);
    }
    // The next event has the next number.
    let mut resumed = follow(&outlive, "/v1/events", Some(&seen[11].id));
    let next = outlive.start_shell("true");
    let event = resumed.next().unwrap();
    assert_eq!(summarize(&event).2, next);
    assert_eq!(parse_sequence(&outlive, &event), parse_sequence(&outlive, &seen[11]) + 1);
}

#[test]
fn resuming_after_an_unknown_event_starts_with_a_reset() {
    let outlive = Outlive::start();
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let mut config = outlive.get("/v1/config").json;
    config["maxEvents"] = json!(4);
    assert_eq!(outlive.post("/v1/config", &config).status, 200);
    for _ in 0..5 {
        let id = outlive.start_shell("true");
        outlive.wait_exit(&id);
    }
    for (what, last) in [
        ("dropped", format!("{epoch}-1")),
        ("in the future", format!("{epoch}-999999")),
        ("of another epoch", "abc-1".to_owned()),
    ] {
        let mut events = follow(&outlive, "/v1/events", Some(&last));
        let reset = events.next().unwrap();
        assert_eq!(reset.name, "reset", "{what}");
        assert_eq!(parse_data(&reset)["type"], "reset");
        // A client can resume from the id of the reset.
        parse_sequence(&outlive, &reset);
        let id = outlive.start_shell("true");
        loop {
            let event = events.next().unwrap();
            assert_ne!(event.name, "reset", "{what}: a second reset");
            if event.name == "process.exited" && summarize(&event).2 == id {
                break;
            }
        }
        let mut resumed = follow(&outlive, "/v1/events", Some(&reset.id));
        assert!(resumed.next().is_some());
    }
}

#[test]
fn filters_select_events_by_type_process_tag_and_session() {
    let outlive = Outlive::start();
    let start = format!("{}-0", outlive.get("/v1/health").json["bootId"].as_str().unwrap());
    let a = outlive.start_process(json!({ "command": "true", "tag": "a", "sessionId": "s" }));
    let b = outlive.start_process(json!({ "command": "true", "tag": "b" }));
    for id in [&a, &b] {
        outlive.wait_exit(id);
    }
    force_delete(&outlive, &a);
    force_delete(&outlive, &b);
    let end = outlive.start_process(json!({ "command": "true", "tag": "a", "sessionId": "s" }));
    outlive.wait_exit(&end);
    for (query, expected) in [
        ("type=process.deleted", vec![("process.deleted", &a), ("process.deleted", &b)]),
        ("type=process.deleted,%20process.exited&tag=b", vec![("process.exited", &b), ("process.deleted", &b)]),
        (
            &format!("processId={b}&type=process.created,process.deleted"),
            vec![("process.created", &b), ("process.deleted", &b)],
        ),
        ("sessionId=s&type=process.created", vec![("process.created", &a), ("process.created", &end)]),
        ("tag=a&type=process.exited", vec![("process.exited", &a), ("process.exited", &end)]),
    ] {
        let mut events = follow(&outlive, &format!("/v1/events?{query}"), Some(&start));
        for (name, id) in expected {
            let (got, _, process) = summarize(&events.next().unwrap());
            assert_eq!((got.as_str(), &process), (name, id), "{query}");
        }
    }
}

#[test]
fn one_shot_runs_emit_no_events() {
    let outlive = Outlive::start();
    let mut events = follow(&outlive, "/v1/events", None);
    outlive.post("/v1/processes/run", &json!({ "command": "true" }));
    let id = outlive.start_shell("true");
    assert_eq!(summarize(&events.next().unwrap()), ("process.created".into(), String::new(), id));
}

// ---- /logs ----

fn get_entries(outlive: &Outlive, id: &str, query: &str) -> Vec<Value> {
    let response = outlive.get(&format!("/v1/processes/{id}/logs?{query}"));
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json["processId"], id);
    response.json["entries"].as_array().unwrap().clone()
}

fn decode(entries: &[Value]) -> Vec<u8> {
    entries
        .iter()
        .flat_map(|entry| {
            assert_eq!(entry["encoding"], "base64");
            BASE64.decode(entry["data"].as_str().unwrap()).unwrap()
        })
        .collect()
}

/// Prints five log entries: the test writes the input for each after the one before has been read.
fn print_five_entries(outlive: &Outlive) -> String {
    let id = outlive.start_shell("while read stream word; do [ $stream = 1 ] && echo $word || echo $word >&2; done");
    for (number, (stream, word)) in [(1, "a"), (2, "b"), (1, "c"), (2, "d"), (1, "e")].into_iter().enumerate() {
        let input = json!({ "data": format!("{stream} {word}\n"), "encoding": "utf8" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
        let body = json!({ "for": "output", "pattern": word, "from": 2 * number, "timeoutMs": 60_000 });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/wait"), &body).json["outcome"], "matched");
    }
    id
}

#[test]
fn log_entries_are_numbered_and_keep_the_order_of_both_streams() {
    let outlive = Outlive::start();
    let id = print_five_entries(&outlive);
    let all = get_entries(&outlive, &id, "");
    assert_eq!(decode(&all), b"a\nb\nc\nd\ne\n");
    let shape: Vec<(u64, &str, u64)> = all
        .iter()
        .map(|entry| {
            (entry["sequence"].as_u64().unwrap(), entry["stream"].as_str().unwrap(), entry["offset"].as_u64().unwrap())
        })
        .collect();
    let expected = [(1, "stdout", 0), (2, "stderr", 2), (3, "stdout", 4), (4, "stderr", 6), (5, "stdout", 8)];
    assert_eq!(shape, expected);
    assert!(all.windows(2).all(|pair| pair[0]["timestampMs"].as_u64() <= pair[1]["timestampMs"].as_u64()));
    for (query, expected) in [
        ("stream=stdout", &b"a\nc\ne\n"[..]),
        ("stream=stderr", b"b\nd\n"),
        ("stream=combined", b"a\nb\nc\nd\ne\n"),
        ("stream=pty", b""),
        ("tail=2", b"d\ne\n"),
        ("tail=0", b""),
        ("tail=99", b"a\nb\nc\nd\ne\n"),
        ("since=3", b"d\ne\n"),
        ("since=5", b""),
        ("stream=stderr&tail=1", b"d\n"),
        ("stream=stdout&since=1", b"c\ne\n"),
        ("since=1&tail=2", b"d\ne\n"),
    ] {
        assert_eq!(decode(&get_entries(&outlive, &id, query)), expected, "{query}");
    }
    let response =
        outlive.http().send("GET", &format!("/v1/processes/{id}/logs?since=1"), &[("last-event-id", "4")], None);
    assert_eq!(
        decode(response.json["entries"].as_array().unwrap()),
        b"e\n",
        "the larger of since and Last-Event-ID applies"
    );
    // The raw output by stream and offset has the same bytes.
    for (query, expected) in [
        ("", &b"a\nb\nc\nd\ne\n"[..]),
        ("?stream=stderr", b"b\nd\n"),
        ("?from=4&to=7", b"c\nd"),
        ("?to=7&stream=stderr", b"b\nd"),
        ("?to=5&stream=stderr", b"b\n"),
        ("?from=8&stream=stderr", b""),
    ] {
        let response = outlive.get(&format!("/v1/processes/{id}/output{query}"));
        assert_eq!(response.body, expected, "{query}");
        assert_eq!(response.header("x-outlive-head"), Some("10"));
    }
}

#[test]
fn each_stream_of_a_burst_keeps_its_order() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("for i in $(seq 200); do echo o$i; echo e$i >&2; done");
    outlive.wait_exit(&id);
    for (stream, letter) in [("stdout", 'o'), ("stderr", 'e')] {
        let expected: String = (1..=200).fold(String::new(), |all, number| format!("{all}{letter}{number}\n"));
        assert_eq!(
            String::from_utf8(decode(&get_entries(&outlive, &id, &format!("stream={stream}")))).unwrap(),
            expected
        );
    }
    assert_eq!(decode(&get_entries(&outlive, &id, "")), outlive.output(&id));
}

#[test]
fn a_followed_log_replays_continues_and_ends_with_the_exit() {
    let outlive = Outlive::start();
    let id = print_five_entries(&outlive);
    let path = format!("/v1/processes/{id}/logs?follow=true&end=exit");
    let read = |mut events: EventStream| {
        let mut all = Vec::new();
        let mut numbers = Vec::new();
        loop {
            let event = events.next().expect("an exit before the end");
            match event.name.as_str() {
                "log" => {
                    let entry = parse_data(&event);
                    numbers.push(event.id.parse::<u64>().unwrap());
                    assert_eq!(entry["sequence"], *numbers.last().unwrap());
                    all.push(entry);
                }
                "exit" => {
                    assert_eq!(parse_data(&event)["exitCode"], 0);
                    assert!(events.next().is_none(), "nothing after the exit");
                    return (decode(&all), numbers);
                }
                other => panic!("{other}"),
            }
        }
    };
    std::thread::scope(|scope| {
        // All followers are connected before the rest is written.
        let full = [follow(&outlive, &path, None), follow(&outlive, &path, None)];
        let resumed = follow(&outlive, &path, Some("4"));
        let tail = follow(&outlive, &format!("{path}&tail=1"), None);
        let stderr = follow(&outlive, &format!("{path}&stream=stderr"), None);
        let full = full.map(|events| scope.spawn(|| read(events)));
        let resumed = scope.spawn(|| read(resumed));
        let tail = scope.spawn(|| read(tail));
        let stderr = scope.spawn(|| read(stderr));
        outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "1 f\n", "encoding": "utf8" }));
        outlive.wait_output(&id, "f");
        outlive.http().send("POST", &format!("/v1/processes/{id}/stdin/close"), &[], None);
        for one in full {
            let (bytes, numbers) = one.join().unwrap();
            assert_eq!((bytes, numbers), (b"a\nb\nc\nd\ne\nf\n".to_vec(), vec![1, 2, 3, 4, 5, 6]));
        }
        assert_eq!(resumed.join().unwrap(), (b"e\nf\n".to_vec(), vec![5, 6]));
        assert_eq!(tail.join().unwrap(), (b"e\nf\n".to_vec(), vec![5, 6]));
        assert_eq!(stderr.join().unwrap(), (b"b\nd\n".to_vec(), vec![2, 4]));
    });
    // After the exit a follower gets the replay, the exit and the end of the stream.
    assert_eq!(read(follow(&outlive, &path, None)).1, [1, 2, 3, 4, 5, 6]);
    // Without `end` the stream stays open until the record is deleted, as sandbox-agent's clients expect.
    let mut staying = follow(&outlive, &format!("/v1/processes/{id}/logs?follow=true"), Some("5"));
    assert_eq!(staying.next().map(|event| event.id), Some("6".into()));
    assert_eq!(staying.next().map(|event| event.name), Some("exit".into()));
    force_delete(&outlive, &id);
    assert!(staying.next().is_none());
}

#[test]
fn a_log_follower_gets_every_byte_of_a_flood() {
    let outlive = Outlive::start();
    // The output is several times the ring.
    let id =
        outlive.start_process(json!({ "command": "read go; seq 1 4000000", "shell": true, "maxLogBytes": 4 << 20 }));
    let mut events = follow(&outlive, &format!("/v1/processes/{id}/logs?follow=true&end=exit"), None);
    outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "go\n", "encoding": "utf8" }));
    let (mut next, mut rest) = (1u64, Vec::new());
    loop {
        let event = events.next().expect("an exit before the end");
        match event.name.as_str() {
            "log" => {
                rest.extend(BASE64.decode(parse_data(&event)["data"].as_str().unwrap()).unwrap());
                let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                for line in std::str::from_utf8(&rest[..whole]).unwrap().lines() {
                    assert_eq!(line.parse(), Ok(next));
                    next += 1;
                }
                rest.drain(..whole);
            }
            "exit" => break,
            other => panic!("{other}: {}", event.data),
        }
    }
    assert_eq!(next, 4_000_001);
}

#[test]
fn followed_raw_output_is_complete_and_ends_with_the_exit() {
    let outlive = Outlive::start_with(Setup::without_history());
    let id = outlive.start_shell("read go; head -c 30000000 /dev/zero; echo end >&2");
    let mut open = outlive.http().open("GET", &format!("/v1/processes/{id}/output?follow=true"), &[], None).unwrap();
    outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "go\n", "encoding": "utf8" }));
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut open, &mut all)
        .unwrap_or_else(|error| panic!("after {} bytes: {error}", all.len()));
    assert_eq!(all.len(), 30_000_004);
    assert_eq!(outlive.info(&id)["status"], "exited", "the record says exited when the stream has ended");
    // An overwritten offset is refused with the oldest one that is left.
    let gone = outlive.get(&format!("/v1/processes/{id}/output?from=5"));
    assert_eq!((gone.status, gone.code()), (410, "offset_gone"), "{}", gone.text());
    let oldest = gone.json["details"]["oldest"].as_u64().unwrap();
    let rest = outlive.get(&format!("/v1/processes/{id}/output?from={oldest}"));
    assert_eq!((rest.status, rest.body.len() as u64), (200, 30_000_004 - oldest));
    assert_eq!(rest.header("x-outlive-offset"), Some(oldest.to_string().as_str()));
}
