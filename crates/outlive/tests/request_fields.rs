//! Fields of request bodies: other spellings, unknown fields, and the errors about them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::Outlive;
use harness::http::Response;
use serde_json::{Value, json};

const HEADER: &str = "x-outlive-unknown-fields";
const RUN: &str = "/v1/processes/run";
const CREATE: &str = "/v1/processes";

fn post(outlive: &Outlive, path: &str, body: &Value) -> Response {
    let response = outlive.post(path, body);
    assert!(response.status < 500, "{path} {body}: {}", response.text());
    response
}

#[test]
fn session_id_in_snake_case_is_accepted() {
    let outlive = Outlive::start();
    let created = post(&outlive, CREATE, &json!({ "command": "cat", "session_id": "mine" }));
    assert_eq!((created.status, &created.json["sessionId"]), (200, &json!("mine")), "{}", created.text());
    assert_eq!(created.header(HEADER), None);
    let body = json!({ "command": "sleep", "args": ["1000"], "yieldMs": 1, "session_id": "mine" });
    let run = post(&outlive, RUN, &body);
    let id = run.json["processId"].as_str().unwrap_or_else(|| panic!("{}", run.text())).to_owned();
    assert_eq!(outlive.info(&id)["sessionId"], "mine");
    let listed = outlive.get("/v1/processes?sessionId=mine").json["processes"].as_array().unwrap().len();
    assert_eq!(listed, 2);
}

#[test]
fn both_spellings_of_one_field_are_400() {
    let outlive = Outlive::start();
    for path in [CREATE, RUN] {
        let body = json!({ "command": "true", "sessionId": "a", "session_id": "a" });
        let response = post(&outlive, path, &body);
        assert_eq!((response.status, response.code()), (400, "duplicate_field"), "{}", response.text());
        assert_eq!(response.json["field"], "sessionId");
        let detail = response.json["detail"].as_str().unwrap();
        assert!(detail.contains("session_id") && detail.contains("only one"), "{detail}");
    }
}

#[test]
fn unknown_fields_are_ignored_and_named_in_a_header() {
    let outlive = Outlive::start();
    let created = post(
        &outlive,
        CREATE,
        &json!({ "command": "true", "start": false, "tyy": true, "pty": { "cols": 80, "rows": 24, "colour": 1 },
                 "restart": { "mode": "never", "delay": 5 }, "env": { "ANY": "1" }, "annotations": { "any": "1" } }),
    );
    assert_eq!((created.status, &created.json["status"]), (200, &json!("created")), "{}", created.text());
    // In the order in which the JSON object has them, which this client sorts.
    assert_eq!(created.header(HEADER), Some("pty.colour,restart.delay,tyy"));
    let run = post(&outlive, RUN, &json!({ "command": "echo", "args": ["hi"], "a,b\r\nx: y": 1 }));
    assert_eq!((run.status, &run.json["stdout"]), (200, &json!("hi\n")), "{}", run.text());
    assert_eq!(run.header(HEADER), Some("a%2Cb%0D%0Ax%3A%20y"));
    let streamed = post(&outlive, RUN, &json!({ "command": "true", "stream": true, "typo": 1 }));
    assert_eq!((streamed.status, streamed.header(HEADER)), (200, Some("typo")));
    // An error may be the effect of the misspelled field.
    let failed = post(&outlive, RUN, &json!({ "command": "echo hi", "shel": true }));
    assert_eq!((failed.code(), failed.header(HEADER)), ("command_not_found", Some("shel")));
    let missing = post(&outlive, RUN, &json!({ "comand": "true" }));
    assert_eq!((missing.status, missing.header(HEADER)), (422, Some("comand")));
    let known = post(&outlive, RUN, &json!({ "command": "true", "timeoutMs": 9000, "limits": { "openFiles": 100 } }));
    assert_eq!((known.status, known.header(HEADER)), (200, None), "{}", known.text());
}

#[test]
fn unknown_fields_of_a_process_in_a_session_are_named_too() {
    let outlive = Outlive::start();
    assert_eq!(post(&outlive, "/v1/sessions", &json!({ "id": "s" })).status, 200);
    let body = json!({ "command": "cat", "killWithSession": true, "killWithSesion": true });
    let started = post(&outlive, "/v1/sessions/s/processes", &body);
    assert_eq!((started.status, started.header(HEADER)), (200, Some("killWithSesion")), "{}", started.text());
    let strict = post(&outlive, "/v1/sessions/s/processes?strict=true", &body);
    assert_eq!((strict.status, &strict.json["expected"]), (400, &json!("killWithSession")), "{}", strict.text());
}

#[test]
fn unknown_fields_are_400_if_the_request_is_strict() {
    let outlive = Outlive::start();
    let table = [
        (RUN, json!({ "command": "true", "timeout_ms": 5 }), "timeout_ms", "timeoutMs"),
        (RUN, json!({ "comand": "true" }), "comand", "command"),
        (CREATE, json!({ "command": "true", "ifTagExist": "return" }), "ifTagExist", "ifTagExists"),
        (CREATE, json!({ "command": "true", "pty": { "cols": 8, "rows": 2, "row": 2 } }), "pty.row", "rows"),
        (CREATE, json!({ "command": "true", "restart": { "delay": 2 } }), "restart.delay", "delayMs"),
        (CREATE, json!({ "command": "true", "limits": { "open_files": 2 } }), "limits.open_files", "openFiles"),
    ];
    for (path, body, field, expected) in table {
        let response = post(&outlive, &format!("{path}?strict=true"), &body);
        assert_eq!((response.status, response.code()), (400, "unknown_field"), "{body}: {}", response.text());
        assert_eq!((&response.json["field"], &response.json["expected"]), (&json!(field), &json!(expected)), "{body}");
        assert_eq!(response.header(HEADER), Some(field));
    }
    let unlike = post(&outlive, &format!("{RUN}?strict=true"), &json!({ "command": "true", "zzz": 1 }));
    let expected = unlike.json["expected"].as_str().unwrap();
    assert!(expected.starts_with("one of command, args, shell"), "{expected}");
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]), "nothing was started");
    let known = json!({ "command": "true", "session_id": "a", "env": { "ANY": "1" } });
    assert_eq!(post(&outlive, &format!("{RUN}?strict=true"), &known).status, 200);
    for query in ["?strict=false", "?strict", "?other=1"] {
        let response = post(&outlive, &format!("{RUN}{query}"), &json!({ "command": "true", "typo": 1 }));
        let expected = if query == "?strict" { (400, "invalid_query") } else { (200, "") };
        assert_eq!((response.status, response.code()), expected, "{query}: {}", response.text());
    }
}

#[test]
fn deleting_a_running_process_is_a_conflict_that_names_force() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "cat" }));
    let refused = outlive.delete(&format!("/v1/processes/{id}"));
    assert_eq!((refused.status, refused.code()), (409, "still_running"), "{}", refused.text());
    assert!(refused.json["detail"].as_str().unwrap().contains("?force=true"), "{}", refused.text());
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
}
