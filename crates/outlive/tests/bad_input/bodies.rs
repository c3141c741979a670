//! Bodies that are malformed, of the wrong type, out of range or too large.

use std::io::{Read, Write};

use serde_json::json;

use crate::harness::Outlive;
use crate::{assert_problem, list_processes, send};

/// Path with `ID` for a process id, body, status, code, field, part of `expected`, part of `got`.
type BadBody = (&'static str, &'static str, u16, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const BAD_BODIES: &[BadBody] = &[
    ("/v1/processes", "{", 400, "malformed_json", "", "", ""),
    ("/v1/processes", "", 400, "malformed_json", "", "", ""),
    ("/v1/processes", "{\"command\":\"true\"} x", 400, "malformed_json", "", "", ""),
    ("/v1/processes", "[]", 422, "invalid_body", "", "", ""),
    ("/v1/processes", "null", 422, "invalid_body", "", "", ""),
    ("/v1/processes", "{}", 422, "invalid_body", "command", "a value", "nothing"),
    ("/v1/processes", r#"{"command":5}"#, 422, "invalid_body", "command", "a string", "5"),
    ("/v1/processes", r#"{"command":"true","args":"x"}"#, 422, "invalid_body", "args", "a sequence", "x"),
    ("/v1/processes", r#"{"command":"true","args":["a",7]}"#, 422, "invalid_body", "args[1]", "a string", "7"),
    ("/v1/processes", r#"{"command":"true","args":null}"#, 422, "invalid_body", "args", "a sequence", "null"),
    ("/v1/processes", r#"{"command":"true","env":{"A":1}}"#, 422, "invalid_body", "env.A", "a string", "1"),
    ("/v1/processes", r#"{"command":"true","cols":70000}"#, 422, "invalid_body", "cols", "u16", "70000"),
    ("/v1/processes", r#"{"command":"true","timeoutMs":-1}"#, 422, "invalid_body", "timeoutMs", "u64", "-1"),
    ("/v1/processes", r#"{"command":"true","start":"no"}"#, 422, "invalid_body", "start", "a boolean", "no"),
    ("/v1/processes", r#"{"command":"true","ifTagExists":"maybe"}"#, 422, "invalid_body", "ifTagExists", "error", "maybe"),
    ("/v1/processes", r#"{"command":"true","restart":{"mode":"sometimes"}}"#, 422, "invalid_body", "restart.mode", "always", "sometimes"),
    ("/v1/processes", r#"{"command":"true","limits":{"openfiles":1}}"#, 422, "invalid_body", "limits.openfiles", "openFiles", "openfiles"),
    ("/v1/processes", r#"{"command":"true","sizePolicy":"huge"}"#, 422, "invalid_body", "sizePolicy", "latest", "huge"),
    ("/v1/processes", r#"{"command":"  "}"#, 400, "invalid_value", "command", "not be empty", ""),
    ("/v1/processes", r#"{"command":"true","tag":""}"#, 400, "invalid_value", "tag", "", ""),
    ("/v1/processes", r#"{"command":"true","tag":"a\nb"}"#, 400, "invalid_value", "tag", "control", ""),
    ("/v1/processes", r#"{"command":"true","env":{"A=B":"1"}}"#, 400, "invalid_value", "env", "=", "A=B"),
    ("/v1/processes", r#"{"command":"true","env":{"A":"\u0000"}}"#, 400, "invalid_value", "env", "NUL", "A"),
    ("/v1/processes", r#"{"command":"true","maxLogBytes":0}"#, 400, "invalid_value", "maxLogBytes", "1 to", "0"),
    ("/v1/processes", r#"{"command":"true","timeoutMs":0}"#, 400, "invalid_value", "timeoutMs", "greater than 0", "0"),
    ("/v1/processes", r#"{"command":"true","shell":true,"args":["x"]}"#, 400, "invalid_value", "args", "", "1"),
    ("/v1/processes/run", r#"{"command":"true","encoding":"hex"}"#, 400, "invalid_encoding", "encoding", "base64", "hex"),
    ("/v1/processes/run", r#"{"command":"true","stdin":"???","stdinEncoding":"base64"}"#, 400, "invalid_base64", "", "", ""),
    ("/v1/processes/run", r#"{"command":"true","onTimeout":"pray"}"#, 422, "invalid_body", "onTimeout", "kill", "pray"),
    ("/v1/processes/ID/input", r#"{"data":"%%%"}"#, 400, "invalid_base64", "data", "", ""),
    ("/v1/processes/ID/input", r#"{"data":"x","encoding":"hex"}"#, 400, "invalid_encoding", "encoding", "base64", "hex"),
    ("/v1/processes/ID/input", "{}", 422, "invalid_body", "data", "a value", "nothing"),
    ("/v1/processes/ID/signal", r#"{"signal":"SIGNOPE"}"#, 400, "invalid_value", "signal", "SIGINT", "SIGNOPE"),
    ("/v1/processes/ID/signal", r#"{"signal":0}"#, 400, "invalid_value", "signal", "1 to 64", "0"),
    ("/v1/processes/ID/signal", r#"{"signal":65}"#, 400, "invalid_value", "signal", "1 to 64", "65"),
    ("/v1/processes/ID/signal", r#"{"signal":{}}"#, 422, "invalid_body", "signal", "", ""),
    ("/v1/processes/ID/resize", r#"{"cols":80}"#, 422, "invalid_body", "rows", "a value", "nothing"),
    ("/v1/processes/ID/resize", r#"{"cols":80,"rows":65536}"#, 422, "invalid_body", "rows", "u16", "65536"),
    ("/v1/processes/ID/wait", r#"{"for":"godot"}"#, 400, "invalid_value", "for", "exit", "godot"),
    ("/v1/processes/ID/wait", r#"{"for":"output"}"#, 400, "missing_value", "pattern", "", "nothing"),
    ("/v1/processes/ID/wait", r#"{"for":"output","pattern":"("}"#, 400, "invalid_value", "pattern", "regular expression", ""),
    ("/v1/processes/ID/wait", r#"{"for":"output","pattern":"x","stream":"y"}"#, 400, "invalid_query", "stream", "stdout", "y"),
    ("/v1/processes/ID/wait", r#"{"for":"silence"}"#, 400, "missing_value", "silenceMs", "", "nothing"),
    ("/v1/processes/ID/wait", r#"{"for":"http"}"#, 400, "missing_value", "port", "", "nothing"),
    ("/v1/processes/ID/wait", r#"{"for":"http","port":1,"path":"x y"}"#, 400, "invalid_value", "path", "", "x y"),
    ("/v1/processes/config", r#"{"maxOutputBytes":1}"#, 422, "invalid_body", "maxConcurrentProcesses", "a value", "nothing"),
    ("/v1/config", r#"{"maxEvents":0}"#, 400, "invalid_value", "maxEvents", "greater than 0", "0"),
];

#[test]
fn an_invalid_body_is_refused_with_its_field() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat >/dev/null");
    for (path, body, status, code, field, expected, got) in BAD_BODIES {
        let path = path.replace("ID", &id);
        let what = format!("{path} {body}");
        let response = send(&outlive, "POST", &path, Some(body));
        assert_problem(&response, *status, code, &what);
        if !field.is_empty() {
            assert_eq!(response.json["field"], *field, "{what}: {}", response.text());
        }
        for (key, part) in [("expected", expected), ("got", got)] {
            let text = response.json[key].as_str().unwrap_or("");
            assert!(text.contains(part), "{what}: {key} {text:?} does not contain {part:?}");
        }
    }
    let patch = send(&outlive, "PATCH", &format!("/v1/processes/{id}"), Some(r#"{"colour":"red"}"#));
    assert_problem(&patch, 422, "invalid_body", "patch of an unknown field");
    let processes = list_processes(&outlive);
    assert_eq!(processes.as_array().map(Vec::len), Some(1), "a refused request left a record: {processes}");
}

#[test]
fn zero_limits_are_refused_with_sandbox_agents_messages() {
    let outlive = Outlive::start();
    let good = outlive.get("/v1/processes/config").json;
    for (field, message) in [
        ("maxConcurrentProcesses", "maxConcurrentProcesses must be greater than 0"),
        ("defaultRunTimeoutMs", "timeouts must be greater than 0"),
        ("maxRunTimeoutMs", "timeouts must be greater than 0"),
        ("maxOutputBytes", "byte limits must be greater than 0"),
        ("maxLogBytesPerProcess", "byte limits must be greater than 0"),
        ("maxInputBytesPerRequest", "byte limits must be greater than 0"),
    ] {
        let mut bad = good.clone();
        bad[field] = json!(0);
        let response = outlive.post("/v1/processes/config", &bad);
        assert_problem(&response, 400, "invalid_value", field);
        assert!(response.text().contains(message), "{}", response.text());
        assert_eq!(response.json["field"], field);
    }
    assert_eq!(outlive.get("/v1/processes/config").json, good, "a refused change had an effect");
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
            let response = outlive.http().send("POST", path, headers, Some(body));
            assert_problem(&response, 415, "unsupported_media_type", path);
            assert_eq!(response.json["expected"], "application/json");
            let got = headers.first().map_or("no content type", |(_, kind)| kind);
            assert_eq!(response.json["got"], got);
        }
    }
    assert_eq!(list_processes(&outlive), json!([]));
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(outlive.http().send("POST", "/v1/processes", &charset, Some(body)).status, 200);
}

/// Sends a request whose body may be refused half-way; returns the response.
fn send_raw(outlive: &Outlive, head: &str, body: &[u8]) -> String {
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // The server may respond and close before it has read the whole body.
    let _ = stream.write_all(body);
    let mut response = Vec::new();
    let mut piece = [0u8; 4096];
    while let Ok(count) = stream.read(&mut piece) {
        if count == 0 {
            break;
        }
        response.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&response).into_owned()
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
        for response in [known, chunked] {
            assert!(response.starts_with("HTTP/1.1 413 "), "{path}: {response:?}");
            assert!(response.to_ascii_lowercase().contains("content-type: application/problem+json"), "{response:?}");
            assert!(response.contains("\"body_too_large\""), "{response:?}");
        }
    }
    assert_eq!(list_processes(&outlive), json!([]));
    // Input has its own, smaller limit.
    let id = outlive.start_shell("cat >/dev/null");
    let response =
        outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_537), "encoding": "utf8" }));
    assert_problem(&response, 413, "input_too_large", "input");
    let response =
        outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_536), "encoding": "utf8" }));
    assert_eq!(response.json, json!({ "bytesWritten": 65_536 }));
}
