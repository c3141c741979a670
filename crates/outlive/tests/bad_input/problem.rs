//! Asks, and checks that a refusal is what a refusal has to be.

use serde_json::Value;

use crate::harness::Outlive;
use crate::harness::http::Answer;

pub(crate) const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

#[track_caller]
pub(crate) fn assert_problem(answer: &Answer, status: u16, code: &str, what: &str) {
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

pub(crate) fn send(outlive: &Outlive, method: &str, path: &str, body: Option<&str>) -> Answer {
    let headers = if body.is_some() { JSON } else { &[] };
    outlive.http().send(method, path, headers, body.map(str::as_bytes))
}

pub(crate) fn listed(outlive: &Outlive) -> Value {
    outlive.get("/v1/processes?all=true").json["processes"].clone()
}
