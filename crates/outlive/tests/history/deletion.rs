//! Deleting is deleting: unreadable at once, and gone from every file of the directory after a collection.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Outlive, eventually};
use crate::{collect_garbage, run_cli, scratch_directory, serve, stored_files, wait_stored};

/// A process whose output, arguments, label and tag contain `marker`, beside output that fills several segments.
fn spec(marker: &str, megabytes: u32) -> Value {
    let script = format!(
        "i=0; while [ $i -lt {} ]; do echo \"output-{marker} $i\"; head -c 9900 /dev/urandom | base64 -w 0; echo; \
         i=$((i+1)); done",
        megabytes * 75
    );
    json!({
        "command": "sh", "args": ["-c", script, format!("argument-{marker}")],
        "label": format!("label-{marker}"), "tag": format!("tag-{marker}"),
    })
}

fn assert_nothing_stored(directory: &Path, marker: &str, id: &str) {
    for text in [format!("output-{marker}"), format!("argument-{marker}"), format!("label-{marker}"), id.to_owned()] {
        let holding: Vec<_> =
            stored_files::list(directory).into_iter().filter(|path| stored_files::file_contains(path, &text)).collect();
        assert!(holding.is_empty(), "{text} is still in {holding:?}");
    }
}

fn assert_gone(outlive: &Outlive, id: &str) {
    for path in ["", "/output", "/logs"] {
        assert_eq!(outlive.get(&format!("/v1/processes/{id}{path}")).status, 404, "{path}");
    }
}

#[test]
fn nothing_of_a_deleted_process_is_left_on_the_disk() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let removed = outlive.start_process(spec("deleted", 6));
    let kept = outlive.start_process(spec("kept", 6));
    outlive.wait_exit(&removed);
    outlive.wait_exit(&kept);
    wait_stored(&directory, "output-deleted");
    wait_stored(&directory, "label-deleted");
    let whole = outlive.output(&kept);
    let response = outlive.delete(&format!("/v1/processes/{removed}"));
    assert!((200..300).contains(&response.status), "{}", response.text());
    assert_gone(&outlive, &removed);
    collect_garbage(&outlive);
    assert_nothing_stored(&directory, "deleted", &removed);
    // Its neighbour in the same segments is whole.
    assert!(outlive.output(&kept) == whole, "the kept process lost output");
    assert_eq!(outlive.stop(), 0);
    assert_nothing_stored(&directory, "deleted", &removed);
    let outlive = serve(&directory);
    assert!(outlive.output(&kept) == whole, "the kept process lost output by the restart");
}

#[test]
fn a_process_of_an_earlier_run_is_deleted_too() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let ids: Vec<String> = ["one", "two"].iter().map(|marker| outlive.start_process(spec(marker, 2))).collect();
    for id in &ids {
        outlive.wait_exit(id);
    }
    assert_eq!(outlive.stop(), 0);
    let outlive = serve(&directory);
    let response = outlive.delete(&format!("/v1/processes/{}", ids[0]));
    assert!((200..300).contains(&response.status), "{}", response.text());
    assert_gone(&outlive, &ids[0]);
    let removed = run_cli(&outlive, &["history", "rm", &ids[1]]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_gone(&outlive, &ids[1]);
    let collected = run_cli(&outlive, &["history", "gc"]);
    assert!(collected.status.success(), "{}", String::from_utf8_lossy(&collected.stderr));
    assert_nothing_stored(&directory, "one", &ids[0]);
    assert_nothing_stored(&directory, "two", &ids[1]);
}

#[test]
fn the_history_commands_take_ids_tags_prefixes_and_sessions() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let start_session = |outlive: &Outlive| {
        assert_eq!(outlive.post("/v1/sessions", &json!({ "id": "main", "shell": "bash" })).status, 200);
        let exec = outlive.post("/v1/sessions/main/exec", &json!({ "command": "echo by-a-session" }));
        assert_eq!(exec.json["exitCode"], 0, "{}", exec.text());
    };
    let outlive = serve(&directory);
    let earlier = outlive.start_process(json!({ "command": "echo", "args": ["earlier"] }));
    let old_build = outlive.start_process(json!({ "command": "echo", "args": ["old"], "tag": "old-build" }));
    outlive.wait_exit(&earlier);
    outlive.wait_exit(&old_build);
    start_session(&outlive);
    assert_eq!(outlive.stop(), 0);
    let outlive = serve(&directory);
    let tagged = outlive.start_process(json!({ "command": "echo", "args": ["tagged"], "tag": "build" }));
    outlive.wait_exit(&tagged);
    let cli = |arguments: &[&str]| {
        let done = run_cli(&outlive, &[&["history"], arguments].concat());
        (done.status.success(), String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap())
    };

    let (shown, text) = cli(&["show", "main"]);
    assert!(shown && text.contains("exited 0") && text.contains("echo by-a-session"), "{text}");
    start_session(&outlive);
    eventually("two sessions", || (cli(&["ls"]).1.matches(" main ").count() == 2).then_some(()));
    let (removed, text) = cli(&["rm", "main"]);
    assert!(!removed && text.contains("several stored sessions are named main"), "{text}");

    let names = [("build", &tagged), ("old-build", &old_build), (&earlier[..earlier.len() - 4], &earlier)];
    for (name, id) in names {
        let (shown, text) = cli(&["show", name]);
        assert!(shown && text.contains(id.as_str()) && text.contains("gaps     none"), "{text}");
        let (removed, text) = cli(&["rm", name]);
        assert!(removed, "{text}");
        assert_gone(&outlive, id);
    }
}

#[test]
fn a_deletion_survives_the_death_of_everything() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let id = outlive.start_process(spec("crashed", 1));
    outlive.wait_exit(&id);
    wait_stored(&directory, "output-crashed");
    let response = outlive.delete(&format!("/v1/processes/{id}"));
    assert!((200..300).contains(&response.status), "{}", response.text());
    outlive.kill_everything();
    let outlive = serve(&directory);
    assert_gone(&outlive, &id);
    collect_garbage(&outlive);
    assert_nothing_stored(&directory, "crashed", &id);
}

#[test]
fn deleting_a_session_deletes_its_commands() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    assert_eq!(outlive.post("/v1/sessions", &json!({ "id": "temporary", "shell": "bash" })).status, 200);
    let exec = outlive.post("/v1/sessions/temporary/exec", &json!({ "command": "echo output-of-a-session" }));
    assert_eq!(exec.json["exitCode"], 0, "{}", exec.text());
    wait_stored(&directory, "output-of-a-session");
    let response = outlive.delete("/v1/sessions/temporary");
    assert_eq!(response.status, 204, "{}", response.text());
    collect_garbage(&outlive);
    for path in stored_files::list(&directory) {
        assert!(!stored_files::file_contains(&path, "output-of-a-session"), "{path:?}");
    }
}

// Regression: output that was about to be stored when its session was deleted was stored after it.
#[test]
fn nothing_of_a_session_that_is_deleted_at_once_is_stored() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    for number in 0..8 {
        let id = format!("brief{number}");
        assert_eq!(outlive.post("/v1/sessions", &json!({ "id": id, "shell": "bash" })).status, 200);
        let command = format!("echo output-of-a-brief-session-{number}");
        let exec = outlive.post(&format!("/v1/sessions/{id}/exec"), &json!({ "command": command }));
        assert_eq!(exec.json["exitCode"], 0, "{}", exec.text());
        assert_eq!(outlive.delete(&format!("/v1/sessions/{id}")).status, 204);
    }
    // Its output is stored later than theirs would be.
    let last = outlive.start_process(json!({ "command": "echo", "args": ["the-last-marker"] }));
    outlive.wait_exit(&last);
    wait_stored(&directory, "the-last-marker");
    collect_garbage(&outlive);
    for path in stored_files::list(&directory) {
        assert!(!stored_files::file_contains(&path, "output-of-a-brief-session"), "{path:?}");
    }
}

#[test]
fn a_session_in_use_is_not_deleted_from_the_history() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    assert_eq!(outlive.post("/v1/sessions", &json!({ "id": "used", "shell": "bash" })).status, 200);
    assert_eq!(outlive.post("/v1/sessions/used/exec", &json!({ "command": "true" })).status, 200);
    let history_id = crate::harness::eventually("the session is stored", || {
        let sessions = outlive.get("/v1/history/sessions?boot=all").json;
        sessions["sessions"][0]["historyId"].as_str().map(str::to_owned)
    });
    let response = outlive.delete(&format!("/v1/history/{history_id}"));
    assert_eq!((response.status, response.code()), (409, "session_in_use"), "{}", response.text());
}
