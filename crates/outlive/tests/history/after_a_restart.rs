//! A new outlive with the directory of an earlier one lists what ran before, with its output.

use serde_json::json;

use crate::harness::{Outlive, Setup, eventually};
use crate::numbered_output::{MB, assert_bytes};
use crate::{
    list_all_boots, listed_once, paced_numbers, run_cli, scratch_directory, serve, serve_with, start, stored_files,
    wait_on, wait_stored,
};

#[test]
fn processes_of_a_stopped_outlive_are_listed_with_their_whole_output() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let large = outlive.start_process(paced_numbers(12 * MB));
    let small = outlive.start_process(json!({
        "command": "echo out; echo err >&2; exit 7", "shell": true, "tag": "small", "label": "a small one"
    }));
    let running = outlive.start_shell("echo still here; exec sleep 1000");
    outlive.wait_exit(&large);
    let before = outlive.wait_exit(&small);
    outlive.wait_output(&running, "still here");
    let boot = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    assert_eq!(outlive.stop(), 0);

    let outlive = serve(&directory);
    assert!(outlive.get("/v1/processes?all=true").json["processes"].as_array().unwrap().is_empty());
    assert_eq!(list_all_boots(&outlive).len(), 3);
    let after = listed_once(&outlive, &small);
    for field in ["id", "tag", "label", "command", "args", "exitCode", "exitReason", "createdAtMs", "exitedAtMs"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!((after["status"].as_str(), after["bootId"].as_str()), (Some("exited"), Some(boot.as_str())));
    assert_eq!(outlive.info(&small)["exitCode"], 7, "by its id alone");
    // A stop ends what ran, and that is known.
    let stopped = listed_once(&outlive, &running);
    assert!(["exited", "lost"].contains(&stopped["status"].as_str().unwrap()), "{stopped}");
    assert_eq!(outlive.output(&running), b"still here\n");
    let response = outlive.get(&format!("/v1/processes/{large}/output?from=0"));
    assert_eq!((response.status, response.body.len() as u64), (200, 12 * MB), "{}", response.code());
    assert_bytes(0, &response.body);
    let streams = |stream: &str| outlive.get(&format!("/v1/processes/{small}/output?stream={stream}")).body;
    assert_eq!((streams("stdout"), streams("stderr")), (b"out\n".to_vec(), b"err\n".to_vec()));
    assert_boot_selections(&outlive, &boot);
}

/// A boot is selected by its id, and by name.
fn assert_boot_selections(outlive: &Outlive, earlier: &str) {
    let fresh = outlive.start_shell("echo fresh");
    outlive.wait_exit(&fresh);
    let count = |boot: &str| {
        let response = outlive.get(&format!("/v1/processes?boot={boot}&all=true"));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json["processes"].as_array().unwrap().len()
    };
    assert_eq!((count(earlier), count("previous"), count("current"), count("all")), (3, 3, 1, 4));
    let listed = run_cli(outlive, &["ps", "--all"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.contains("small") && text.contains(&fresh), "{text}");
    let logs = run_cli(outlive, &["logs", "--boot", "previous", "small"]);
    let text = String::from_utf8_lossy(&logs.stdout);
    assert!(text.contains("out"), "{text}{}", String::from_utf8_lossy(&logs.stderr));
}

#[test]
fn a_process_running_at_the_kill_of_everything_is_lost_and_keeps_its_output() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let exited = outlive.start_shell("echo exited-\"marker\"; exit 3");
    outlive.wait_exit(&exited);
    let running = outlive.start_process(json!({
        "command": "echo running-\"marker\"; exec sleep 1000", "shell": true, "tag": "service"
    }));
    outlive.wait_output(&running, "running-marker");
    // Unlike the output, the commands contain quotes.
    wait_stored(&directory, "exited-marker");
    wait_stored(&directory, "running-marker");
    eventually("the record says that it runs", || stored_files::contain(&directory, "service").then_some(()));
    outlive.kill_everything();

    let outlive = serve(&directory);
    let lost = listed_once(&outlive, &running);
    assert_eq!((lost["status"].as_str(), lost["tag"].as_str()), (Some("lost"), Some("service")), "{lost}");
    assert_eq!(lost.get("exitCode").filter(|code| !code.is_null()), None);
    assert_eq!(outlive.output(&running), b"running-marker\n");
    assert_eq!(outlive.output(&exited), b"exited-marker\n");
    // Nothing can be done with it but reading and deleting.
    let response = outlive.post(&format!("/v1/processes/{running}/input"), &json!({ "data": "x", "encoding": "utf8" }));
    assert!((400..500).contains(&response.status), "{}", response.text());
    let fresh = outlive.start_process(json!({ "command": "sleep", "args": ["1000"], "tag": "service" }));
    assert_eq!(outlive.info("tag:service")["id"], fresh, "a tag names a process of this run");
}

#[test]
fn a_process_that_exits_while_history_is_being_opened_is_stored() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = start(&directory, Setup::default());
    let id = outlive.start_process(json!({ "command": "exit 9", "shell": true, "label": "nine-marker" }));
    outlive.wait_exit(&id);
    assert_eq!(outlive.stop(), 0);
    for round in 0..3 {
        let outlive = serve(&directory);
        assert_eq!(listed_once(&outlive, &id)["exitCode"], 9, "round {round}");
        assert_eq!(outlive.stop(), 0);
    }
}

#[test]
fn sessions_and_their_commands_are_stored() {
    const COMMAND: &str = "echo exec-marker; (exit 4)";
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let outlive = serve(&directory);
    let session = outlive.post("/v1/sessions", &json!({ "id": "work", "shell": "bash" }));
    assert_eq!(session.status, 200, "{}", session.text());
    let exec = outlive.post("/v1/sessions/work/exec", &json!({ "command": COMMAND }));
    assert_eq!((exec.status, exec.json["exitCode"].as_i64()), (200, Some(4)), "{}", exec.text());
    assert_eq!(outlive.stop(), 0);
    let outlive = serve(&directory);
    let sessions = outlive.get("/v1/history/sessions").json;
    assert_eq!(sessions["sessions"][0]["sessionId"], "work", "{sessions}");
    let execs = outlive.get("/v1/history/sessions/work/execs").json;
    let exec = &execs["execs"][0];
    assert_eq!((&exec["command"], exec["exitCode"].as_i64()), (&json!(COMMAND), Some(4)), "{execs}");
    assert_eq!(outlive.output(exec["processId"].as_str().unwrap()), b"exec-marker\n");
}

#[test]
fn upgrades_and_server_crashes_leave_no_gap() {
    let scratch = scratch_directory();
    let outlive = serve_with(
        &scratch.path().join("history"),
        Setup { arguments: vec!["--max-restart-delay-ms".into(), "20".into()], ..Setup::default() },
    );
    let bytes = 30 * MB;
    let id = outlive.start_process(paced_numbers(bytes));
    for round in 1.. {
        let head = outlive.info(&id)["outputEnd"].as_u64().unwrap();
        if head >= bytes {
            break;
        }
        if round % 2 == 0 {
            outlive.kill_server();
        } else {
            let response = outlive.post("/v1/upgrade", &json!({}));
            assert_eq!(response.status, 200, "{}", response.text());
        }
        let next = (head + 2 * MB).min(bytes);
        eventually("more output", || (outlive.info(&id)["outputEnd"].as_u64()? >= next).then_some(()));
    }
    outlive.wait_exit(&id);
    wait_on(&outlive);
    let response = outlive.get(&format!("/v1/processes/{id}/output?from=0"));
    assert_eq!((response.status, response.body.len() as u64), (200, bytes), "{}", response.code());
    assert_bytes(0, &response.body);
}
