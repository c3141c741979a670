//! Valid requests that the state of the process does not allow.

use serde_json::json;

use crate::harness::Outlive;
use crate::{assert_problem, list_processes, send};

#[test]
fn a_request_in_the_wrong_state_is_409() {
    let outlive = Outlive::start();
    let pipes = outlive.start_process(json!({ "command": "sleep 1000", "shell": true, "tag": "taken" }));
    let without_stdin = outlive.start_process(json!({ "command": "sleep", "args": ["1000"], "stdinMode": "null" }));
    let terminal = outlive.start_process(json!({ "command": "cat", "tty": true }));
    let exited = outlive.start_process(json!({ "command": "true", "tty": true }));
    outlive.wait_exit(&exited);
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
        ("POST", &without_stdin, "/input", input, "no_stdin"),
        ("POST", &terminal, "/stdin/close", None, "is_terminal"),
        ("POST", &exited, "/input", input, "not_running"),
        ("POST", &exited, "/signal", signal, "not_running"),
        ("POST", &exited, "/resize", size, "not_running"),
        ("POST", &exited, "/stdin/close", None, "not_running"),
        ("POST", &reserved, "/input", input, "not_running"),
        ("POST", &reserved, "/signal", signal, "not_running"),
        ("GET", &reserved, "/output", None, "not_started"),
    ];
    for (method, id, rest, body, code) in table {
        let response = send(&outlive, method, &format!("/v1/processes/{id}{rest}"), body);
        assert_problem(&response, 409, code, &format!("{method} {rest} → {code}"));
        let message = response.json["details"]["message"].as_str().unwrap_or("");
        assert_eq!(response.json["detail"], format!("conflict: {message}"), "{}", response.text());
    }
    let response = outlive.post("/v1/processes", &json!({ "command": "true", "tag": "taken" }));
    assert_problem(&response, 409, "tag_exists", "create with a taken tag");
    assert_eq!(list_processes(&outlive).as_array().map(Vec::len), Some(5));
}
