//! What is well said but cannot be done: calls in the wrong state, programs that cannot be started.

use serde_json::json;

use crate::harness::Outlive;
use crate::problem::{assert_problem, listed, send};

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
