//! Processes that are started for a session id, and the context of a session.

use serde_json::{Value, json};

use crate::shells::{Session, Shell, start_outlive};

#[test]
fn a_process_is_found_by_its_session_id() {
    let outlive = start_outlive();
    let start = |session: Option<&str>, source: &str| {
        let mut spec = json!({ "command": "true", "source": source });
        if let Some(id) = session {
            spec["sessionId"] = id.into();
        }
        outlive.start_process(spec)
    };
    let (associated, other) = (start(Some("foreign-1"), "agent"), start(None, "user"));
    let listed = outlive.get("/v1/processes?sessionId=foreign-1").json;
    assert_eq!(listed["processes"].as_array().unwrap().len(), 1);
    assert_eq!(listed["processes"][0]["id"], associated.as_str());
    let get = |id: &str, query: &str| outlive.get(&format!("/v1/processes/{id}{query}"));
    assert_eq!(get(&associated, "?sessionId=foreign-1&source=agent").status, 200);
    assert_eq!(get(&associated, "?sessionId=other").status, 404);
    assert_eq!(get(&associated, "?source=user").status, 404);
    assert_eq!(get(&other, "?sessionId=foreign-1").status, 404);
    assert_eq!(get(&other, "").json.get("sessionId"), None, "absent, not null");
    assert_eq!(get(&associated, "?source=unknown").code(), "invalid_query");
}

#[test]
fn the_context_of_a_session_lists_commands_and_processes_in_order() {
    let outlive = start_outlive();
    let session = Session::with_spec(&outlive, json!({ "id": "talk", "shell": Shell::Bash.name() }));
    session.exec_with(json!({ "source": "user" }), "echo one");
    session.exec_with(json!({ "source": "agent" }), "echo two; echo oops >&2; false");
    let line = json!({ "command": "echo three", "shell": true, "sessionId": "talk", "source": "system" });
    let id = outlive.start_process(line);
    outlive.wait_exit(&id);
    let context = |query: &str| outlive.get(&format!("/v1/context?sessionId=talk{query}")).json;
    let entries = context("")["entries"].as_array().unwrap().clone();
    let listed: Vec<(&str, &str, &str)> =
        entries.iter().map(|entry| (text(entry, "kind"), text(entry, "source"), text(entry, "command"))).collect();
    let expected = [
        ("exec", "user", "echo one"),
        ("exec", "agent", "echo two; echo oops >&2; false"),
        ("process", "system", "echo three"),
    ];
    assert_eq!(listed, expected);
    assert_eq!((text(&entries[0], "output"), &entries[1]["exitCode"]), ("one\n", &json!(1)));
    assert!(text(&entries[1], "output").contains("two\n") && text(&entries[1], "output").contains("oops\n"));
    assert_eq!(context("&source=agent")["entries"].as_array().unwrap().len(), 1);
    let long = session.exec("seq 1 100000");
    assert_eq!(long["exitCode"], 0);
    let bounded = context("&maxBytes=4096");
    let last = bounded["entries"].as_array().unwrap().last().unwrap().clone();
    assert!(text(&last, "output").ends_with("100000\n") && text(&last, "output").len() <= 4096);
    assert_eq!(last["outputTruncated"], true);
    assert_eq!(outlive.get("/v1/context").status, 400, "the session id is required");
    assert_eq!(outlive.get("/v1/context?sessionId=unknown").json["entries"], json!([]));
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}
