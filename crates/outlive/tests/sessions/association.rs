//! Processes that belong to any session id, and what was run for one.

use serde_json::{Value, json};

use crate::shells::{Session, Shell, outlive};

#[test]
fn a_process_is_found_by_the_session_it_was_started_for() {
    let outlive = outlive();
    let of = |session: Option<&str>, source: &str| {
        let mut spec = json!({ "command": "true", "source": source });
        if let Some(id) = session {
            spec["sessionId"] = id.into();
        }
        outlive.start_process(spec)
    };
    let (mine, none) = (of(Some("foreign-1"), "agent"), of(None, "user"));
    let listed = outlive.get("/v1/processes?sessionId=foreign-1").json;
    assert_eq!(listed["processes"].as_array().unwrap().len(), 1);
    assert_eq!(listed["processes"][0]["id"], mine.as_str());
    let get = |id: &str, query: &str| outlive.get(&format!("/v1/processes/{id}{query}"));
    assert_eq!(get(&mine, "?sessionId=foreign-1&source=agent").status, 200);
    assert_eq!(get(&mine, "?sessionId=other").status, 404);
    assert_eq!(get(&mine, "?source=user").status, 404);
    assert_eq!(get(&none, "?sessionId=foreign-1").status, 404);
    assert_eq!(get(&none, "").json.get("sessionId"), None, "absent, not null");
    assert_eq!(get(&mine, "?source=nobody").code(), "invalid_query");
}

#[test]
fn the_context_of_a_session_is_what_was_run_in_order() {
    let outlive = outlive();
    let session = Session::with(&outlive, json!({ "id": "talk", "shell": Shell::Bash.name() }));
    session.exec_with(json!({ "source": "user" }), "echo one");
    session.exec_with(json!({ "source": "agent" }), "echo two; echo oops >&2; false");
    let line = json!({ "command": "echo three", "shell": true, "sessionId": "talk", "source": "system" });
    let id = outlive.start_process(line);
    outlive.wait_exit(&id);
    let context = |query: &str| outlive.get(&format!("/v1/context?sessionId=talk{query}")).json;
    let entries = context("")["entries"].as_array().unwrap().clone();
    let seen: Vec<(&str, &str, &str)> =
        entries.iter().map(|entry| (text(entry, "kind"), text(entry, "source"), text(entry, "command"))).collect();
    let expected = [
        ("exec", "user", "echo one"),
        ("exec", "agent", "echo two; echo oops >&2; false"),
        ("process", "system", "echo three"),
    ];
    assert_eq!(seen, expected);
    assert_eq!((text(&entries[0], "output"), &entries[1]["exitCode"]), ("one\n", &json!(1)));
    assert!(text(&entries[1], "output").contains("two\n") && text(&entries[1], "output").contains("oops\n"));
    assert_eq!(context("&source=agent")["entries"].as_array().unwrap().len(), 1);
    let long = session.exec("seq 1 100000");
    assert_eq!(long["exitCode"], 0);
    let bounded = context("&maxBytes=4096");
    let last = bounded["entries"].as_array().unwrap().last().unwrap().clone();
    assert!(text(&last, "output").ends_with("100000\n") && text(&last, "output").len() <= 4096);
    assert_eq!(last["outputTruncated"], true);
    assert_eq!(outlive.get("/v1/context").status, 400, "whose?");
    assert_eq!(outlive.get("/v1/context?sessionId=nobody").json["entries"], json!([]));
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}
