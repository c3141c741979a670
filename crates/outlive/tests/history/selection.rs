//! Which processes are stored, and what of them.

use serde_json::json;

use crate::harness::{Outlive, Setup, eventually, read_if_exists};
use crate::{
    collect_garbage, list_all_boots, run_cli, scratch_directory, serve, serve_with, stored_files, wait_stored,
};

fn run(outlive: &Outlive, key: Option<&str>, spec: serde_json::Value) -> serde_json::Value {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let body = spec.to_string();
    let response = outlive.http().send("POST", "/v1/processes/run", &headers, Some(body.as_bytes()));
    assert_eq!((response.status, &response.json["exitCode"]), (200, &json!(0)), "{}", response.text());
    response.json
}

/// Whether history has a process with this argument after a stop.
fn stored_commands(directory: &std::path::Path) -> String {
    let outlive = serve(directory);
    let text = list_all_boots(&outlive).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(outlive.stop(), 0);
    text
}

#[test]
fn plain_runs_are_not_stored_and_keyed_and_kept_ones_are() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let plain = run(&outlive, None, json!({ "command": "echo", "args": ["plain-marker"] }));
    assert!(plain["processId"].is_null(), "{plain}");
    run(&outlive, None, json!({ "command": "sleep 0.1; echo slow-plain-marker", "shell": true }));
    run(&outlive, Some("key"), json!({ "command": "echo", "args": ["keyed-marker"] }));
    let kept = run(&outlive, None, json!({ "command": "echo", "args": ["kept-marker"], "keep": true }));
    let kept = kept["processId"].as_str().unwrap();
    assert_eq!(outlive.stop(), 0);
    assert_eq!(serve(&directory).output(kept), b"kept-marker\n");
    let stored = stored_commands(&directory);
    for (marker, is_stored) in [("plain-marker", false), ("keyed-marker", true), ("kept-marker", true)] {
        assert_eq!(stored.contains(marker), is_stored, "{marker} in {stored}");
        assert_eq!(stored_files::contain(&directory, marker), is_stored, "{marker}");
    }
}

#[test]
fn a_process_without_history_and_an_excluded_tag_leave_nothing() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let arguments = vec!["--history-exclude".into(), "secret".into(), "--history-exclude".into(), "other".into()];
    let outlive = serve_with(&directory, Setup { arguments, ..Setup::default() });
    let off = outlive.start_process(json!({ "command": "echo", "args": ["off-marker"], "history": false }));
    let excluded = outlive.start_process(json!({ "command": "echo", "args": ["excluded-marker"], "tag": "secret" }));
    let stored = outlive.start_process(json!({ "command": "echo", "args": ["stored-marker"], "tag": "public" }));
    for id in [&off, &excluded, &stored] {
        outlive.wait_exit(id);
    }
    wait_stored(&directory, "stored-marker");
    let listed = run_cli(&outlive, &["history", "ls", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let ids: Vec<_> = listed["processes"].as_array().unwrap().iter().map(|process| &process["id"]).collect();
    assert_eq!(ids, [&json!(stored)]);
    assert_eq!(outlive.output(&off), b"off-marker\n", "it is in memory as ever");
    assert_eq!(outlive.stop(), 0);
    let listed = stored_commands(&directory);
    assert!(listed.contains("stored-marker"), "{listed}");
    for marker in ["off-marker", "excluded-marker"] {
        assert!(!listed.contains(marker) && !stored_files::contain(&directory, marker), "{marker}");
    }
}

#[test]
fn environment_values_are_never_stored() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve_with(
        &directory,
        Setup { environment: vec![("INHERITED".into(), "value-marker-inherited".into())], ..Setup::default() },
    );
    let environment = json!({ "PASSWORD": "value-marker-of-a-process", "OTHER": "value-marker-two" });
    let id = outlive.start_process(json!({ "command": "echo", "args": ["done-marker"], "env": environment }));
    outlive.wait_exit(&id);
    run(&outlive, Some("k"), json!({ "command": "echo", "args": ["run-marker"], "env": environment }));
    assert_eq!(outlive.post("/v1/sessions", &json!({ "id": "s", "shell": "bash", "env": environment })).status, 200);
    let exec = json!({ "command": "echo exec-marker", "env": { "TOKEN": "value-marker-of-an-exec" } });
    assert_eq!(outlive.post("/v1/sessions/s/exec", &exec).json["exitCode"], 0);
    for marker in ["done-marker", "run-marker", "exec-marker"] {
        wait_stored(&directory, marker);
    }
    collect_garbage(&outlive);
    assert_eq!(outlive.stop(), 0);
    for path in stored_files::list(&directory) {
        assert!(!stored_files::file_contains(&path, "value-marker"), "a value is in {path:?}");
    }
}

/// How many short processes. The full number is that of the requirement.
const SHORT_PROCESSES: u64 = 1_000;

const MAX_BYTES_EACH: u64 = 600;

#[test]
fn short_processes_take_little_disk_and_no_file_each() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let done = outlive.dir.path().join("done");
    let spec = json!({ "command": "echo", "args": ["one of many"] }).to_string();
    for _ in 0..SHORT_PROCESSES {
        let headers = [("content-type", "application/json")];
        let response = outlive.http().send("POST", "/v1/processes", &headers, Some(spec.as_bytes()));
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let last = outlive.start_shell(&format!("echo last > {}", done.display()));
    eventually("the last one has run", || read_if_exists(&done));
    outlive.wait_exit(&last);
    assert_eq!(outlive.stop(), 0);
    let (files, bytes) = (stored_files::list(&directory).len(), stored_files::disk_bytes(&directory));
    println!("{SHORT_PROCESSES} processes: {bytes} bytes in {files} files, {} each", bytes / SHORT_PROCESSES);
    assert!(files < 20, "{files} files");
    // An empty history has a size of its own, which the requirement for ten times as many absorbs.
    let empty = 512 * 1024;
    assert!(bytes.saturating_sub(empty) / SHORT_PROCESSES <= MAX_BYTES_EACH, "{bytes} bytes");
    let outlive = serve(&directory);
    assert_eq!(list_all_boots(&outlive).len() as u64, SHORT_PROCESSES + 1);
}
