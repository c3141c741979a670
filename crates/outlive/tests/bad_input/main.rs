//! Bad input is refused with problem+json and a stable code. It has no effect, and is never a 500 or a hang.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bodies;
mod conflicts;
#[path = "../harness/mod.rs"]
mod harness;
mod max_values;
mod paths_and_queries;
mod random_input;
mod spawn_failures;

use harness::Outlive;
use harness::http::Response;
use serde_json::Value;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

/// Asserts that a response is problem+json with this status and code.
#[track_caller]
fn assert_problem(response: &Response, status: u16, code: &str, what: &str) {
    assert_eq!((response.status, response.code()), (status, code), "{what}: {}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{what}");
    let problem = &response.json;
    assert!(
        problem["type"].as_str().is_some_and(|kind| kind.starts_with("urn:sandbox-agent:error:")),
        "{what}: {problem}"
    );
    assert_eq!(problem["status"], status, "{what}");
    for key in ["title", "detail"] {
        assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{what}: no {key} in {problem}");
    }
}

fn send(outlive: &Outlive, method: &str, path: &str, body: Option<&str>) -> Response {
    let headers = if body.is_some() { JSON } else { &[] };
    outlive.http().send(method, path, headers, body.map(str::as_bytes))
}

fn list_processes(outlive: &Outlive) -> Value {
    outlive.get("/v1/processes?all=true").json["processes"].clone()
}
