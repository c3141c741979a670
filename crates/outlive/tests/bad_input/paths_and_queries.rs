//! Invalid paths, methods, ids, queries and headers.

use serde_json::json;

use crate::harness::Outlive;
use crate::harness::socket::Socket;
use crate::{assert_problem, send};

#[test]
fn an_invalid_query_value_is_refused_with_its_field() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat");
    let on = |rest: &str| format!("/v1/processes/{id}{rest}");
    let table = [
        ("GET", "/v1/processes?status=asleep".to_owned(), "invalid_query", "status", "asleep"),
        ("GET", "/v1/processes?owner=robot".to_owned(), "invalid_query", "owner", "robot"),
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
        let response = send(&outlive, method, &path, None);
        assert_problem(&response, 400, code, &path);
        assert_eq!(
            (response.json["field"].as_str(), response.json["got"].as_str()),
            (Some(field), Some(got)),
            "{}",
            response.text()
        );
        assert!(response.json["expected"].as_str().is_some_and(|text| !text.is_empty()), "{}", response.text());
    }
    let response = outlive.http().send("GET", &on("/logs"), &[("last-event-id", "x")], None);
    assert_problem(&response, 400, "invalid_last_event_id", "Last-Event-ID");
    assert!(response.text().contains("Last-Event-ID must be a positive integer"), "{}", response.text());
    for key in [&"k".repeat(257), "\u{e9}"] {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let response = outlive.http().send("POST", "/v1/processes", &headers, Some(b"{\"command\":\"true\"}"));
        assert_problem(&response, 400, "invalid_idempotency_key", key);
    }
    assert_eq!(outlive.info(&id)["status"], "running", "a refused request had an effect");
}

#[test]
fn unknown_paths_are_404_and_wrong_methods_405() {
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
        let response = outlive.get(path);
        assert_problem(&response, 404, "unknown_path", path);
        assert_eq!(response.json["title"], "Not Found");
        assert_eq!(response.json["detail"], "endpoint not found");
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
        let response = outlive.http().send(method, path, &[], None);
        assert_problem(&response, 405, "method_not_allowed", &format!("{method} {path}"));
        assert!(response.header("allow").is_some(), "405 names the allowed methods: {method} {path}");
    }
    // No id is invalid UTF-8.
    let response = outlive.get("/v1/processes/%ff%fe");
    assert_problem(&response, 400, "invalid_path", "an id that is not UTF-8");
}

#[test]
fn a_plain_get_on_a_socket_is_refused_with_the_expected_upgrade() {
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
    for id in ["proc_999", "tag:unknown", "x", "%F0%9F%91%BB"] {
        for (method, rest, body) in routes {
            let path = format!("/v1/processes/{id}{rest}");
            let response = send(&outlive, method, &path, body);
            assert_problem(&response, 404, "not_found", &format!("{method} {path}"));
            assert_eq!(response.json["details"]["resource"], "process");
        }
    }
    let response = outlive.get("/v1/processes/proc_999");
    assert_eq!(response.json["detail"], "not found: process proc_999");
    assert_eq!(response.json["details"], json!({ "id": "proc_999", "resource": "process" }));
}
