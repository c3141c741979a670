//! Bad input gets a clear answer: problem+json with a stable code, nothing half-made, never a 500, never a hang.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::io::{Read, Write};

use harness::Outlive;
use harness::http::Answer;
use harness::socket::Socket;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, code: &str, what: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{what}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    let problem = &answer.json;
    assert!(
        problem["type"].as_str().is_some_and(|kind| kind.starts_with("urn:sandbox-agent:error:")),
        "{what}: {problem}"
    );
    assert_eq!(problem["status"], status, "{what}");
    for key in ["title", "detail"] {
        assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{what}: no {key} in {problem}");
    }
}

fn send(outlive: &Outlive, method: &str, path: &str, body: Option<&str>) -> Answer {
    let headers = if body.is_some() { JSON } else { &[] };
    outlive.http().send(method, path, headers, body.map(str::as_bytes))
}

fn listed(outlive: &Outlive) -> Value {
    outlive.get("/v1/processes?all=true").json["processes"].clone()
}

#[test]
fn bodies_that_make_no_sense_are_answered_with_the_field() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat >/dev/null");
    let on = |rest: &str| format!("/v1/processes/{id}/{rest}");
    // path, body, status, code, field, part of `expected`, part of `got`
    #[rustfmt::skip]
    let table = vec![
        ("/v1/processes".into(), "{", 400, "malformed_json", "", "", ""),
        ("/v1/processes".into(), "", 400, "malformed_json", "", "", ""),
        ("/v1/processes".into(), "{\"command\":\"true\"} x", 400, "malformed_json", "", "", ""),
        ("/v1/processes".into(), "[]", 422, "invalid_body", "", "", ""),
        ("/v1/processes".into(), "null", 422, "invalid_body", "", "", ""),
        ("/v1/processes".into(), "{}", 422, "invalid_body", "command", "a value", "nothing"),
        ("/v1/processes".into(), r#"{"command":5}"#, 422, "invalid_body", "command", "a string", "5"),
        ("/v1/processes".into(), r#"{"command":"true","args":"x"}"#, 422, "invalid_body", "args", "a sequence", "x"),
        ("/v1/processes".into(), r#"{"command":"true","args":["a",7]}"#, 422, "invalid_body", "args[1]", "a string", "7"),
        ("/v1/processes".into(), r#"{"command":"true","args":null}"#, 422, "invalid_body", "args", "a sequence", "null"),
        ("/v1/processes".into(), r#"{"command":"true","env":{"A":1}}"#, 422, "invalid_body", "env.A", "a string", "1"),
        ("/v1/processes".into(), r#"{"command":"true","cols":70000}"#, 422, "invalid_body", "cols", "u16", "70000"),
        ("/v1/processes".into(), r#"{"command":"true","timeoutMs":-1}"#, 422, "invalid_body", "timeoutMs", "u64", "-1"),
        ("/v1/processes".into(), r#"{"command":"true","start":"no"}"#, 422, "invalid_body", "start", "a boolean", "no"),
        ("/v1/processes".into(), r#"{"command":"true","ifTagExists":"maybe"}"#, 422, "invalid_body", "ifTagExists", "error", "maybe"),
        ("/v1/processes".into(), r#"{"command":"true","restart":{"mode":"sometimes"}}"#, 422, "invalid_body", "restart.mode", "always", "sometimes"),
        ("/v1/processes".into(), r#"{"command":"true","limits":{"openfiles":1}}"#, 422, "invalid_body", "limits.openfiles", "openFiles", "openfiles"),
        ("/v1/processes".into(), r#"{"command":"true","sizePolicy":"huge"}"#, 422, "invalid_body", "sizePolicy", "latest", "huge"),
        ("/v1/processes".into(), r#"{"command":"  "}"#, 400, "invalid_value", "command", "not be empty", ""),
        ("/v1/processes".into(), r#"{"command":"true","tag":""}"#, 400, "invalid_value", "tag", "", ""),
        ("/v1/processes".into(), r#"{"command":"true","tag":"a\nb"}"#, 400, "invalid_value", "tag", "control", ""),
        ("/v1/processes".into(), r#"{"command":"true","env":{"A=B":"1"}}"#, 400, "invalid_value", "env", "=", "A=B"),
        ("/v1/processes".into(), r#"{"command":"true","env":{"A":"\u0000"}}"#, 400, "invalid_value", "env", "NUL", "A"),
        ("/v1/processes".into(), r#"{"command":"true","maxLogBytes":0}"#, 400, "invalid_value", "maxLogBytes", "1 to", "0"),
        ("/v1/processes".into(), r#"{"command":"true","timeoutMs":0}"#, 400, "invalid_value", "timeoutMs", "greater than 0", "0"),
        ("/v1/processes".into(), r#"{"command":"true","shell":true,"args":["x"]}"#, 400, "invalid_value", "args", "", "1"),
        ("/v1/processes/run".into(), r#"{"command":"true","encoding":"hex"}"#, 400, "invalid_encoding", "encoding", "base64", "hex"),
        ("/v1/processes/run".into(), r#"{"command":"true","stdin":"???","stdinEncoding":"base64"}"#, 400, "invalid_base64", "", "", ""),
        ("/v1/processes/run".into(), r#"{"command":"true","onTimeout":"pray"}"#, 422, "invalid_body", "onTimeout", "kill", "pray"),
        (on("input"), r#"{"data":"%%%"}"#, 400, "invalid_base64", "data", "", ""),
        (on("input"), r#"{"data":"x","encoding":"hex"}"#, 400, "invalid_encoding", "encoding", "base64", "hex"),
        (on("input"), "{}", 422, "invalid_body", "data", "a value", "nothing"),
        (on("signal"), r#"{"signal":"SIGNOPE"}"#, 400, "invalid_value", "signal", "SIGINT", "SIGNOPE"),
        (on("signal"), r#"{"signal":0}"#, 400, "invalid_value", "signal", "1 to 64", "0"),
        (on("signal"), r#"{"signal":65}"#, 400, "invalid_value", "signal", "1 to 64", "65"),
        (on("signal"), r#"{"signal":{}}"#, 422, "invalid_body", "signal", "", ""),
        (on("resize"), r#"{"cols":80}"#, 422, "invalid_body", "rows", "a value", "nothing"),
        (on("resize"), r#"{"cols":80,"rows":65536}"#, 422, "invalid_body", "rows", "u16", "65536"),
        (on("wait"), r#"{"for":"godot"}"#, 400, "invalid_value", "for", "exit", "godot"),
        (on("wait"), r#"{"for":"output"}"#, 400, "missing_value", "pattern", "", "nothing"),
        (on("wait"), r#"{"for":"output","pattern":"("}"#, 400, "invalid_value", "pattern", "regular expression", ""),
        (on("wait"), r#"{"for":"output","pattern":"x","stream":"y"}"#, 400, "invalid_query", "stream", "stdout", "y"),
        (on("wait"), r#"{"for":"silence"}"#, 400, "missing_value", "silenceMs", "", "nothing"),
        (on("wait"), r#"{"for":"http"}"#, 400, "missing_value", "port", "", "nothing"),
        (on("wait"), r#"{"for":"http","port":1,"path":"x y"}"#, 400, "invalid_value", "path", "", "x y"),
        ("/v1/processes/config".into(), r#"{"maxOutputBytes":1}"#, 422, "invalid_body", "maxConcurrentProcesses", "a value", "nothing"),
        ("/v1/config".into(), r#"{"maxEvents":0}"#, 400, "invalid_value", "maxEvents", "greater than 0", "0"),
    ];
    for (path, body, status, code, field, expected, got) in table {
        let what = format!("{path} {body}");
        let answer = send(&outlive, "POST", &path, Some(body));
        assert_problem(&answer, status, code, &what);
        if !field.is_empty() {
            assert_eq!(answer.json["field"], field, "{what}: {}", answer.text());
        }
        for (key, part) in [("expected", expected), ("got", got)] {
            let text = answer.json[key].as_str().unwrap_or("");
            assert!(text.contains(part), "{what}: {key} {text:?} does not contain {part:?}");
        }
    }
    let patch = send(&outlive, "PATCH", &format!("/v1/processes/{id}"), Some(r#"{"colour":"red"}"#));
    assert_problem(&patch, 422, "invalid_body", "patch of an unknown field");
    let processes = listed(&outlive);
    assert_eq!(processes.as_array().map(Vec::len), Some(1), "something was half-created: {processes}");
}

#[test]
fn zero_limits_are_refused_in_the_sheets_words() {
    let outlive = Outlive::start();
    let good = outlive.get("/v1/processes/config").json;
    for (field, words) in [
        ("maxConcurrentProcesses", "maxConcurrentProcesses must be greater than 0"),
        ("defaultRunTimeoutMs", "timeouts must be greater than 0"),
        ("maxRunTimeoutMs", "timeouts must be greater than 0"),
        ("maxOutputBytes", "byte limits must be greater than 0"),
        ("maxLogBytesPerProcess", "byte limits must be greater than 0"),
        ("maxInputBytesPerRequest", "byte limits must be greater than 0"),
    ] {
        let mut bad = good.clone();
        bad[field] = json!(0);
        let answer = outlive.post("/v1/processes/config", &bad);
        assert_problem(&answer, 400, "invalid_value", field);
        assert!(answer.text().contains(words), "{}", answer.text());
        assert_eq!(answer.json["field"], field);
    }
    assert_eq!(outlive.get("/v1/processes/config").json, good, "a refused change changed something");
}

#[test]
fn query_values_that_make_no_sense_are_answered_with_the_field() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat");
    let on = |rest: &str| format!("/v1/processes/{id}{rest}");
    let table = [
        ("GET", "/v1/processes?status=asleep".to_owned(), "invalid_query", "status", "asleep"),
        ("GET", "/v1/processes?owner=nobody".to_owned(), "invalid_query", "owner", "nobody"),
        ("GET", "/v1/processes?source=thing".to_owned(), "invalid_query", "source", "thing"),
        ("GET", "/v1/processes?tty=perhaps".to_owned(), "invalid_query", "tty", "perhaps"),
        ("GET", "/v1/processes?all=7".to_owned(), "invalid_query", "all", "7"),
        ("GET", "/v1/events?type=process.born".to_owned(), "invalid_query", "type", "process.born"),
        ("GET", "/v1/events?after=17".to_owned(), "invalid_last_event_id", "Last-Event-ID", "17"),
        ("POST", on("/stop?waitMs=-1"), "invalid_query", "waitMs", "-1"),
        ("POST", on("/stop?graceMs=soon"), "invalid_query", "graceMs", "soon"),
        ("POST", on("/kill?waitMs=x"), "invalid_query", "waitMs", "x"),
        ("DELETE", on("?force=please"), "invalid_query", "force", "please"),
        ("GET", on("/logs?stream=stdin"), "invalid_query", "stream", "stdin"),
        ("GET", on("/logs?tail=-1"), "invalid_query", "tail", "-1"),
        ("GET", on("/logs?since=x"), "invalid_query", "since", "x"),
        ("GET", on("/logs?follow=maybe"), "invalid_query", "follow", "maybe"),
        ("GET", on("/logs?end=never"), "invalid_query", "end", "never"),
        ("GET", on("/output?from=-5"), "invalid_query", "from", "-5"),
        ("GET", on("/output?from=999"), "invalid_value", "from", "999"),
        ("GET", on("/output?stream=x"), "invalid_query", "stream", "x"),
        ("GET", on("/output?flow=x"), "invalid_query", "flow", "x"),
    ];
    for (method, path, code, field, got) in table {
        let answer = send(&outlive, method, &path, None);
        assert_problem(&answer, 400, code, &path);
        assert_eq!(
            (answer.json["field"].as_str(), answer.json["got"].as_str()),
            (Some(field), Some(got)),
            "{}",
            answer.text()
        );
        assert!(answer.json["expected"].as_str().is_some_and(|text| !text.is_empty()), "{}", answer.text());
    }
    let answer = outlive.http().send("GET", &on("/logs"), &[("last-event-id", "x")], None);
    assert_problem(&answer, 400, "invalid_last_event_id", "Last-Event-ID");
    assert!(answer.text().contains("Last-Event-ID must be a positive integer"), "{}", answer.text());
    for key in [&"k".repeat(257), "\u{e9}"] {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let answer = outlive.http().send("POST", "/v1/processes", &headers, Some(b"{\"command\":\"true\"}"));
        assert_problem(&answer, 400, "invalid_idempotency_key", key);
    }
    assert_eq!(outlive.info(&id)["status"], "running", "a refused call did something");
}

#[test]
fn a_body_needs_the_right_content_type() {
    let outlive = Outlive::start();
    let body = br#"{"command":"true"}"#;
    let kinds: [&[(&str, &str)]; 4] = [
        &[],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/jsonp")],
    ];
    for path in ["/v1/processes", "/v1/processes/run", "/v1/processes/config", "/v1/config"] {
        for headers in kinds {
            let answer = outlive.http().send("POST", path, headers, Some(body));
            assert_problem(&answer, 415, "unsupported_media_type", path);
            assert_eq!(answer.json["expected"], "application/json");
            let got = headers.first().map_or("no content type", |(_, kind)| kind);
            assert_eq!(answer.json["got"], got);
        }
    }
    assert_eq!(listed(&outlive), json!([]));
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(outlive.http().send("POST", "/v1/processes", &charset, Some(body)).status, 200);
}

#[test]
fn unknown_paths_and_wrong_methods_are_said_so() {
    let outlive = Outlive::start();
    for path in [
        "/nope",
        "/v1",
        "/v1/nope",
        "/v1/processes/",
        "/v2/processes",
        "/v1/processes/proc_1/nope",
        "/v1/../etc/passwd",
    ] {
        let answer = outlive.get(path);
        assert_problem(&answer, 404, "unknown_path", path);
        assert_eq!(answer.json["title"], "Not Found");
        assert_eq!(answer.json["detail"], "endpoint not found");
    }
    for (method, path) in [
        ("PUT", "/v1/processes/config"),
        ("PUT", "/v1/processes"),
        ("DELETE", "/v1/processes"),
        ("GET", "/v1/processes/run"),
        ("POST", "/v1/processes/proc_1"),
        ("GET", "/v1/processes/proc_1/stop"),
        ("POST", "/v1/events"),
        ("BREW", "/v1/health"),
    ] {
        let answer = outlive.http().send(method, path, &[], None);
        assert_problem(&answer, 405, "method_not_allowed", &format!("{method} {path}"));
        assert!(answer.header("allow").is_some(), "405 names what is allowed: {method} {path}");
    }
    // A name that is not UTF-8 is nobody's id.
    let answer = outlive.get("/v1/processes/%ff%fe");
    assert_problem(&answer, 400, "invalid_path", "an id that is not UTF-8");
}

/// Sends a request whose body may be refused half-way; returns what came back.
fn send_raw(outlive: &Outlive, head: &str, body: &[u8]) -> String {
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // The server may answer and close before it has all.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let mut piece = [0u8; 4096];
    while let Ok(count) = stream.read(&mut piece) {
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_body_over_2_mib_is_refused() {
    let outlive = Outlive::start();
    let body = format!(r#"{{"command":"true","label":"{}"}}"#, "x".repeat(3 << 20));
    for path in ["/v1/processes", "/v1/processes/run"] {
        let common = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
        );
        let known = send_raw(&outlive, &format!("{common}content-length: {}\r\n\r\n", body.len()), body.as_bytes());
        let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), body.as_bytes(), b"\r\n0\r\n\r\n"].concat();
        let chunked = send_raw(&outlive, &format!("{common}transfer-encoding: chunked\r\n\r\n"), &chunk);
        for answer in [known, chunked] {
            assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer:?}");
            assert!(answer.to_ascii_lowercase().contains("content-type: application/problem+json"), "{answer:?}");
            assert!(answer.contains("\"body_too_large\""), "{answer:?}");
        }
    }
    assert_eq!(listed(&outlive), json!([]));
    // Input has its own, smaller limit.
    let id = outlive.shell("cat >/dev/null");
    let answer =
        outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_537), "encoding": "utf8" }));
    assert_problem(&answer, 413, "input_too_large", "input");
    let answer =
        outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_536), "encoding": "utf8" }));
    assert_eq!(answer.json, json!({ "bytesWritten": 65_536 }));
}

#[test]
fn a_plain_get_on_a_socket_says_what_it_expected() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "cat", "tty": true }));
    for socket in ["connect", "terminal/ws"] {
        let path = format!("/v1/processes/{id}/{socket}");
        let plain = outlive.get(&path);
        assert_problem(&plain, 400, "expected_websocket", socket);
        assert!(plain.json["detail"].as_str().unwrap().contains("expected upgrade: websocket, got no upgrade header"));
        assert_eq!(plain.json["expected"], "upgrade: websocket");
        let other = outlive.http().send("GET", &path, &[("upgrade", "h2c")], None);
        assert_problem(&other, 400, "expected_websocket", socket);
        assert!(other.json["detail"].as_str().unwrap().contains("expected upgrade: websocket, got upgrade: h2c"));
    }
    for query in ["from=x", "role=king", "flow=fast", "framing=json", "cols=x&rows=5", "tail=-1", "from=99999"] {
        let refused = Socket::try_connect(outlive.http(), &id, query, false).err().unwrap_or_default();
        assert!(refused.contains("400"), "{query}: {refused}");
    }
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"], json!([]));
}

#[test]
fn unknown_ids_are_404_on_every_route() {
    let outlive = Outlive::start();
    let routes = [
        ("GET", "", None),
        ("PATCH", "", Some("{}")),
        ("DELETE", "", None),
        ("DELETE", "?force=true", None),
        ("POST", "/start", None),
        ("POST", "/restart", None),
        ("POST", "/stop", None),
        ("POST", "/kill", None),
        ("POST", "/signal", Some(r#"{"signal":"TERM"}"#)),
        ("POST", "/wait", Some("{}")),
        ("POST", "/wait", Some(r#"{"for":"output","pattern":"x"}"#)),
        ("POST", "/input", Some(r#"{"data":""}"#)),
        ("POST", "/stdin/close", None),
        ("POST", "/resize", Some(r#"{"cols":80,"rows":24}"#)),
        ("POST", "/terminal/resize", Some(r#"{"cols":80,"rows":24}"#)),
        ("GET", "/logs", None),
        ("GET", "/logs?follow=true", None),
        ("GET", "/output", None),
        ("GET", "/output?follow=true", None),
        ("GET", "/connect", None),
        ("GET", "/terminal/ws", None),
        ("GET", "/attachments", None),
        ("GET", "/tree", None),
    ];
    for id in ["proc_999", "tag:nobody", "x", "%F0%9F%91%BB"] {
        for (method, rest, body) in routes {
            let path = format!("/v1/processes/{id}{rest}");
            let answer = send(&outlive, method, &path, body);
            assert_problem(&answer, 404, "not_found", &format!("{method} {path}"));
            assert_eq!(answer.json["details"]["resource"], "process");
        }
    }
    let answer = outlive.get("/v1/processes/proc_999");
    assert_eq!(answer.json["detail"], "not found: process proc_999");
    assert_eq!(answer.json["details"], json!({ "id": "proc_999", "resource": "process" }));
}

#[test]
fn a_call_in_the_wrong_state_is_409() {
    let outlive = Outlive::start();
    let pipes = outlive.start_process(json!({ "command": "sleep 1000", "shell": true, "tag": "taken" }));
    let deaf = outlive.start_process(json!({ "command": "sleep", "args": ["1000"], "stdinMode": "null" }));
    let terminal = outlive.start_process(json!({ "command": "cat", "tty": true }));
    let over = outlive.start_process(json!({ "command": "true", "tty": true }));
    outlive.wait_exit(&over);
    let reserved = outlive.start_process(json!({ "command": "cat", "start": false }));
    let size = Some(r#"{"cols":80,"rows":24}"#);
    let input = Some(r#"{"data":"eA=="}"#);
    let signal = Some(r#"{"signal":"INT"}"#);
    let table = [
        ("POST", &pipes, "/start", None, "already_running"),
        ("DELETE", &pipes, "", None, "still_running"),
        ("POST", &pipes, "/resize", size, "not_a_terminal"),
        ("POST", &pipes, "/terminal/resize", size, "not_a_terminal"),
        ("GET", &pipes, "/terminal/ws", None, "not_a_terminal"),
        ("PATCH", &terminal, "", Some(r#"{"tag":"taken"}"#), "tag_exists"),
        ("POST", &deaf, "/input", input, "no_stdin"),
        ("POST", &terminal, "/stdin/close", None, "is_terminal"),
        ("POST", &over, "/input", input, "not_running"),
        ("POST", &over, "/signal", signal, "not_running"),
        ("POST", &over, "/resize", size, "not_running"),
        ("POST", &over, "/stdin/close", None, "not_running"),
        ("POST", &reserved, "/input", input, "not_running"),
        ("POST", &reserved, "/signal", signal, "not_running"),
        ("GET", &reserved, "/output", None, "not_started"),
    ];
    for (method, id, rest, body, code) in table {
        let answer = send(&outlive, method, &format!("/v1/processes/{id}{rest}"), body);
        assert_problem(&answer, 409, code, &format!("{method} {rest} → {code}"));
        let message = answer.json["details"]["message"].as_str().unwrap_or("");
        assert_eq!(answer.json["detail"], format!("conflict: {message}"), "{}", answer.text());
    }
    let answer = outlive.post("/v1/processes", &json!({ "command": "true", "tag": "taken" }));
    assert_problem(&answer, 409, "tag_exists", "create with a taken tag");
    assert_eq!(listed(&outlive).as_array().map(Vec::len), Some(5));
}

#[test]
fn spawn_failures_are_400_with_their_code_and_leave_nothing() {
    let outlive = Outlive::start();
    let table = [
        (json!({ "command": "no-such-program-of-ours" }), "command_not_found"),
        (json!({ "command": "/nonexistent/program" }), "command_not_found"),
        (json!({ "command": "./nothing", "cwd": "/" }), "command_not_found"),
        (json!({ "command": "echo hello" }), "command_not_found"),
        (json!({ "command": "ls", "env": { "PATH": "/nonexistent" } }), "command_not_found"),
        (json!({ "command": "true", "cwd": "/nonexistent" }), "cwd_not_found"),
        (json!({ "command": "true", "cwd": "/etc/passwd" }), "cwd_not_found"),
        (json!({ "command": "no-such-program-of-ours", "cwd": "/nonexistent" }), "cwd_not_found"),
        (json!({ "command": "/etc/passwd" }), "not_executable"),
        (json!({ "command": "/etc" }), "not_executable"),
        (json!({ "command": "/etc/passwd/x" }), "command_not_found"),
        (json!({ "command": "true", "args": ["x".repeat(200_000)] }), "args_too_long"),
        (json!({ "command": "x".repeat(200_000), "shell": true }), "args_too_long"),
        (json!({ "command": "true", "env": { "A": "x".repeat(200_000) } }), "args_too_long"),
        (json!({ "command": "true", "user": "nobody-of-that-name" }), "user_unknown"),
        (json!({ "command": "true", "user": "0:no-such-group" }), "user_unknown"),
        (json!({ "command": "a\0b" }), "nul_in_argument"),
        (json!({ "command": "true", "args": ["ok", "\0"] }), "nul_in_argument"),
        (json!({ "command": "true", "cwd": "/\0" }), "nul_in_argument"),
        (json!({ "command": "true; \0", "shell": true }), "nul_in_argument"),
    ];
    let events_before = outlive.get("/v1/processes?all=true").json;
    for (spec, code) in &table {
        let shown: String = spec.to_string().chars().take(100).collect();
        assert_problem(&outlive.post("/v1/processes", spec), 400, code, &shown);
        assert_problem(&outlive.post("/v1/processes/run", spec), 400, code, &format!("run {shown}"));
        let mut tty = spec.clone();
        tty["tty"] = json!(true);
        assert_problem(&outlive.post("/v1/processes", &tty), 400, code, &format!("tty {shown}"));
    }
    // Long and unknown words are quoted, but not at length.
    for (long, status, code) in [
        (json!({ "command": "y".repeat(100_000) }), 400, "command_not_found"),
        (json!({ "command": "true", "cwd": "/y".repeat(50_000) }), 400, "cwd_not_accessible"),
        (json!({ "command": "true", "args": "y".repeat(100_000) }), 422, "invalid_body"),
    ] {
        let answer = outlive.post("/v1/processes", &long);
        assert_problem(&answer, status, code, code);
        assert!(answer.body.len() < 2_000, "{} bytes of error", answer.body.len());
    }
    assert_eq!(outlive.get("/v1/processes?all=true").json, events_before);
    // A reserved one that cannot be started stays reserved, and can be removed.
    let id = outlive.start_process(json!({ "command": "/nonexistent/program", "start": false, "tag": "later" }));
    assert_problem(&outlive.post("/v1/processes/tag:later/start", &json!({})), 400, "command_not_found", "start");
    assert_eq!(
        (outlive.info(&id)["status"].as_str(), outlive.info(&id)["generation"].as_u64()),
        (Some("created"), Some(0))
    );
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
    // Neither a tag nor a key nor a slot is lost with a start that failed.
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxConcurrentProcesses"] = json!(1);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    let headers = [("content-type", "application/json"), ("idempotency-key", "same")];
    let bad = json!({ "command": "/nonexistent/program", "tag": "t" }).to_string();
    for _ in 0..3 {
        let answer = outlive.http().send("POST", "/v1/processes", &headers, Some(bad.as_bytes()));
        assert_problem(&answer, 400, "command_not_found", "retry");
    }
    let good = json!({ "command": "cat", "tag": "t" }).to_string();
    let answer = outlive.http().send("POST", "/v1/processes", &headers, Some(good.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn the_largest_numbers_do_no_harm() {
    const MOST: u64 = u64::MAX;
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let id = outlive.start_process(json!({
        "command": "cat", "timeoutMs": MOST, "retainMs": MOST, "killAfterDetachMs": MOST,
        "restart": { "mode": "on-failure", "maxRestarts": u32::MAX, "delayMs": MOST },
    }));
    drop(Socket::connect(outlive.http(), &id, &format!("tail={MOST}"), true));
    let over = outlive.shell("echo x");
    outlive.wait_exit(&over);
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let last = format!("{epoch}-{MOST}");
    let open = outlive.http().open("GET", "/v1/events", &[("last-event-id", &last)], None).unwrap();
    assert_eq!(harness::http::Events::new(open).next().map(|event| event.name), Some("reset".into()));
    let get = |path: String| outlive.get(&path);
    assert_eq!(get(format!("/v1/processes/{over}/logs?tail={MOST}")).json["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(format!("/v1/processes/{over}/logs?since={MOST}")).json["entries"], json!([]));
    assert_problem(&get(format!("/v1/processes/{over}/output?from={MOST}")), 400, "invalid_value", "from");
    assert_eq!(get(format!("/v1/processes/{over}/output?to={MOST}")).body, b"x\n");
    let wait = |body: Value| outlive.post(&format!("/v1/processes/{over}/wait"), &body);
    assert_eq!(wait(json!({ "timeoutMs": MOST })).json["outcome"], "exited");
    assert_eq!(wait(json!({ "for": "silence", "silenceMs": MOST, "timeoutMs": MOST })).json["outcome"], "exited");
    assert_eq!(
        wait(json!({ "for": "output", "pattern": "x", "from": MOST, "timeoutMs": MOST })).json["outcome"],
        "exited"
    );
    let run = outlive.post(
        "/v1/processes/run",
        &json!({
            "command": "true", "timeoutMs": MOST, "yieldMs": MOST, "maxOutputBytes": MOST, "onTimeout": "detach",
        }),
    );
    assert_eq!(run.json["exitCode"], 0, "{}", run.text());
    let stop = outlive.http().send("POST", &format!("/v1/processes/{id}/stop?graceMs={MOST}&waitMs={MOST}"), &[], None);
    assert_eq!((stop.status, stop.json["status"].as_str()), (200, Some("exited")), "{}", stop.text());
    assert_eq!(outlive.server_pid(), server);
}

/// A small generator: the tests must be able to fail twice in the same way.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.below(most + 1);
        (0..len).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn random_bodies_never_kill_the_server() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let over = outlive.shell("echo x");
    outlive.wait_exit(&over);
    let mut random = Random(0x5eed_0123_4567_89ab);
    let paths = ["start", "signal", "wait", "input", "resize"].map(|rest| format!("/v1/processes/{over}/{rest}"));
    let paths = ["/v1/processes", "/v1/processes/run", "/v1/processes/config", "/v1/config"]
        .into_iter()
        .map(str::to_owned)
        .chain(paths.into_iter().skip(1));
    for path in paths {
        for _ in 0..60 {
            let answer = outlive.http().send("POST", &path, JSON, Some(&random.bytes(200)));
            assert!((400..500).contains(&answer.status), "{path}: {}", answer.text());
            assert_problem(&answer, answer.status, answer.code(), &path);
        }
    }
    // Almost right is where parsers break.
    let near = [
        (
            "/v1/processes/run",
            json!({ "command": "true", "args": ["a"], "timeoutMs": 900, "env": { "A": "b" }, "maxOutputBytes": 9 }),
        ),
        (
            "/v1/processes",
            json!({ "command": "true", "tag": "t", "start": false, "pty": { "cols": 9, "rows": 9 }, "limits": { "openFiles": 99 } }),
        ),
    ];
    for (path, body) in near {
        for _ in 0..150 {
            let mut bytes = body.to_string().into_bytes();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.next() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\"{}[]:,0-e\\u"[random.below(12)]),
                }
            }
            let answer = outlive.http().send("POST", path, JSON, Some(&bytes));
            assert!(answer.status < 500, "{path} {}: {}", String::from_utf8_lossy(&bytes), answer.text());
        }
    }
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
    assert_eq!(outlive.server_pid(), server);
}

#[test]
fn random_frames_never_kill_the_server_nor_the_program() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let id = outlive.start_process(
        json!({ "command": "stty raw -echo; echo up; exec cat >/dev/null", "shell": true, "tty": true }),
    );
    outlive.wait_output(&id, "up");
    let mut random = Random(0xfeed_0123_4567_89ab);
    let words = [
        r#"{"type":"input","data":"x"}"#,
        r#"{"type":"input"}"#,
        r#"{"type":"input","data":"?","encoding":"base64"}"#,
        r#"{"type":"input","data":"x","encoding":"hex"}"#,
        r#"{"type":"resize","cols":80,"rows":24}"#,
        r#"{"type":"resize","cols":-1,"rows":24}"#,
        r#"{"type":"signal","signal":"WINCH"}"#,
        r#"{"type":"signal","signal":99}"#,
        r#"{"type":"ack","offset":18446744073709551615}"#,
        r#"{"type":"ack","offset":0}"#,
        r#"{"type":"dance"}"#,
        "{}",
        "[]",
        "",
        "null",
    ];
    for socket in ["connect", "terminal/ws"] {
        for _ in 0..20 {
            let path = format!("/v1/processes/{id}/{socket}");
            let mut client = Socket::open(outlive.http(), &path, false, None).unwrap();
            for _ in 0..30 {
                let message = match random.below(5) {
                    0 => Message::Binary(random.bytes(300).into()),
                    1 => Message::Text(String::from_utf8_lossy(&random.bytes(300)).into_owned().into()),
                    2 => Message::Ping(random.bytes(100).into()),
                    3 => Message::Pong(random.bytes(100).into()),
                    _ => Message::Text(words[random.below(words.len())].into()),
                };
                if client.inner.send(message).is_err() {
                    break;
                }
            }
            // And then not even frames.
            let _ = client.inner.get_mut().write_all(&random.bytes(500));
            client.cut();
        }
    }
    // A message beyond the limit ends that connection, and nothing else.
    let mut client = Socket::connect(outlive.http(), &id, "", false);
    let _ = client.inner.send(Message::Binary(vec![b'x'; 3 << 20].into()));
    let mut last = client.next();
    while !matches!(last, harness::socket::Frame::Closed(_)) {
        last = client.next();
    }
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
    assert_eq!(outlive.server_pid(), server);
    assert_eq!(outlive.info(&id)["status"], "running");
    let metrics = outlive.get("/metrics");
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let counted = text.lines().filter(|line| line.contains("malformed")).any(|line| {
        line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).is_some_and(|number| number > 0.0)
    });
    assert!(counted, "malformed frames are counted: {text}");
}

#[test]
fn not_even_http_is_answered_or_cut_off_at_once() {
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let mut random = Random(0xabcd_0123_4567_89ab);
    for _ in 0..50 {
        let mut stream = outlive.http().connect().unwrap();
        let mut garbage = random.bytes(2_000);
        garbage.extend_from_slice(b"\r\n\r\n");
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(outlive.server_pid(), server);
}
