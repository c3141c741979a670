//! Programs that cannot be started, and values that the kernel refuses.

use serde_json::{Value, json};

use crate::assert_problem;
use crate::harness::Outlive;

fn specs_that_cannot_start() -> Vec<(Value, &'static str)> {
    vec![
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
        (json!({ "command": "true", "user": "no-such-user" }), "user_unknown"),
        (json!({ "command": "true", "user": "0:no-such-group" }), "user_unknown"),
        (json!({ "command": "a\0b" }), "nul_in_argument"),
        (json!({ "command": "true", "args": ["ok", "\0"] }), "nul_in_argument"),
        (json!({ "command": "true", "cwd": "/\0" }), "nul_in_argument"),
        (json!({ "command": "true; \0", "shell": true }), "nul_in_argument"),
    ]
}

#[test]
fn spawn_failures_are_400_with_their_code_and_leave_no_record() {
    let outlive = Outlive::start();
    let before = outlive.get("/v1/processes?all=true").json;
    for (spec, code) in &specs_that_cannot_start() {
        let shown: String = spec.to_string().chars().take(100).collect();
        assert_problem(&outlive.post("/v1/processes", spec), 400, code, &shown);
        assert_problem(&outlive.post("/v1/processes/run", spec), 400, code, &format!("run {shown}"));
        let mut tty = spec.clone();
        tty["tty"] = json!(true);
        assert_problem(&outlive.post("/v1/processes", &tty), 400, code, &format!("tty {shown}"));
    }
    assert_eq!(outlive.get("/v1/processes?all=true").json, before);
}

#[test]
fn errors_quote_long_values_in_part() {
    let outlive = Outlive::start();
    for (spec, status, code) in [
        (json!({ "command": "y".repeat(100_000) }), 400, "command_not_found"),
        (json!({ "command": "true", "cwd": "/y".repeat(50_000) }), 400, "cwd_not_accessible"),
        (json!({ "command": "true", "args": "y".repeat(100_000) }), 422, "invalid_body"),
    ] {
        let response = outlive.post("/v1/processes", &spec);
        assert_problem(&response, status, code, code);
        assert!(response.body.len() < 2_000, "{} bytes of error", response.body.len());
    }
}

#[test]
fn a_reserved_process_that_cannot_start_stays_reserved() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "/nonexistent/program", "start": false, "tag": "later" }));
    assert_problem(&outlive.post("/v1/processes/tag:later/start", &json!({})), 400, "command_not_found", "start");
    assert_eq!(
        (outlive.info(&id)["status"].as_str(), outlive.info(&id)["generation"].as_u64()),
        (Some("created"), Some(0))
    );
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
}

#[test]
fn a_failed_start_takes_no_tag_key_or_slot() {
    let outlive = Outlive::start();
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxConcurrentProcesses"] = json!(1);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    let headers = [("content-type", "application/json"), ("idempotency-key", "same")];
    let bad = json!({ "command": "/nonexistent/program", "tag": "t" }).to_string();
    for _ in 0..3 {
        let response = outlive.http().send("POST", "/v1/processes", &headers, Some(bad.as_bytes()));
        assert_problem(&response, 400, "command_not_found", "retry");
    }
    let good = json!({ "command": "cat", "tag": "t" }).to_string();
    let response = outlive.http().send("POST", "/v1/processes", &headers, Some(good.as_bytes()));
    assert_eq!(response.status, 200, "{}", response.text());
}
