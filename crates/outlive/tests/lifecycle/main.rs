//! The lifecycle of a process, from its start to the deletion of its record.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod child;
mod concurrent_starts;
mod exit;
#[path = "../harness/mod.rs"]
mod harness;
mod lookup;
mod restart;
mod waits;

use harness::http::Response;
use harness::{Outlive, eventually};
use serde_json::{Value, json};

#[test]
fn a_process_runs_and_its_record_stays() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("echo out; echo err >&2; exit 7");
    let info = outlive.wait_exit(&id);
    assert_eq!((info["status"].as_str(), info["exitCode"].as_i64()), (Some("exited"), Some(7)));
    let mut output = outlive.output(&id);
    output.sort_unstable();
    let mut expected = b"out\nerr\n".to_vec();
    expected.sort_unstable();
    assert_eq!(output, expected);
}

#[test]
fn stopping_outlive_kills_its_processes_and_exits_with_code_0() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("trap '' TERM; echo up; sleep 1000");
    outlive.wait_output(&id, "up");
    let pid = outlive.info(&id)["pid"].as_i64().unwrap() as i32;
    assert_eq!(outlive.stop(), 0);
    eventually("the process is gone", || (!harness::proc::is_alive(pid)).then_some(()));
}

#[test]
fn a_failed_start_leaves_no_record() {
    let outlive = Outlive::start();
    let response = outlive.post("/v1/processes", &json!({ "command": "/nonexistent/program" }));
    assert_eq!((response.status, response.code()), (400, "command_not_found"));
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
}

fn post(outlive: &Outlive, id: &str, rest: &str) -> Response {
    outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None)
}

fn patch(outlive: &Outlive, id: &str, body: &Value) -> Response {
    let headers = [("content-type", "application/json")];
    outlive.http().send("PATCH", &format!("/v1/processes/{id}"), &headers, Some(body.to_string().as_bytes()))
}

fn start_keyed(outlive: &Outlive, key: &str, spec: &Value) -> Response {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    outlive.http().send("POST", "/v1/processes", &headers, Some(spec.to_string().as_bytes()))
}

fn wait(outlive: &Outlive, id: &str, body: Value) -> Value {
    let response = outlive.post(&format!("/v1/processes/{id}/wait"), &body);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json
}

fn list_processes(outlive: &Outlive, query: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes{query}")).json["processes"].as_array().unwrap().clone()
}

fn output_text(outlive: &Outlive, id: &str) -> String {
    String::from_utf8(outlive.output(id)).unwrap()
}

fn set_config(outlive: &Outlive, path: &str, changes: Value) {
    let mut config = outlive.get(path).json;
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    let response = outlive.post(path, &config);
    assert_eq!(response.status, 200, "{}", response.text());
}
