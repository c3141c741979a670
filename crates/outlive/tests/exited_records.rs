//! Records of exited processes: what each costs in memory, and that processes whose state is not in memory are used as
//! any other.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod harness;

use std::thread;

use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

/// As many as are kept by default.
const RECORDS: u64 = 10_000;
const MAX_BYTES_PER_RECORD: u64 = 1024;
const STARTERS: u64 = 8;

fn server_bytes(pid: i32) -> u64 {
    proc::memory_kib(pid, "RssAnon") * 1024
}

fn count_exited(outlive: &Outlive) -> u64 {
    let text = String::from_utf8(outlive.get("/metrics").body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix("outlive_processes_exited ")).unwrap();
    value.parse().unwrap()
}

/// Waits until the server needs at most `MAX_BYTES_PER_RECORD` per record more than `empty`.
fn wait_for_small_records(outlive: &Outlive, empty: u64, when: &str) {
    let pid = outlive.server_pid();
    let per_record = || server_bytes(pid).saturating_sub(empty) / RECORDS;
    let is_small = |bytes: &u64| *bytes <= MAX_BYTES_PER_RECORD;
    let small = eventually(&format!("small records {when}"), || Some(per_record()).filter(is_small));
    println!("{small} bytes per record {when}");
}

fn list(outlive: &Outlive) -> Vec<Value> {
    outlive.get("/v1/processes").json["processes"].as_array().unwrap().clone()
}

// Regression: a record cost 4.7 KB, so 10,000 exited processes took twice the memory of E2B's own daemon.
#[test]
fn an_exited_record_costs_at_most_a_kilobyte_of_server_memory() {
    assert_small_records(Outlive::start());
}

// Regression: the history kept the stored range of each process in memory, and the rings of most for five seconds, which
// took as much again.
#[test]
fn an_exited_record_costs_at_most_a_kilobyte_with_history() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let history = Some(scratch.path().join("history"));
    let outlive = Outlive::start_with(Setup { history, ..Setup::default() });
    assert_small_records(outlive);
}

fn assert_small_records(outlive: Outlive) {
    outlive.wait_exit(&outlive.start_shell("true"));
    let empty = server_bytes(outlive.server_pid());
    thread::scope(|scope| {
        for _ in 0..STARTERS {
            scope.spawn(|| (1..RECORDS / STARTERS).for_each(|_| drop(outlive.start_shell("echo hello"))));
        }
    });
    let newest: Vec<String> = (1..STARTERS).map(|_| outlive.start_shell("echo hello")).collect();
    eventually("the exits", || (count_exited(&outlive) == RECORDS).then_some(()));
    wait_for_small_records(&outlive, empty, "after their exits");

    outlive.kill_server();
    assert_eq!(count_exited(&outlive), RECORDS);
    wait_for_small_records(&outlive, empty, "after the death of the server");

    let all = list(&outlive);
    assert_eq!(all.len() as u64, RECORDS);
    assert!(all.windows(2).all(|pair| pair[0]["id"].as_str() < pair[1]["id"].as_str()));
    for process in all.iter().skip(1).step_by(997) {
        assert_eq!((&process["status"], &process["exitCode"]), (&json!("exited"), &json!(0)));
        assert_eq!(outlive.output(process["id"].as_str().unwrap()), b"hello\n");
    }
    assert!(newest.iter().all(|id| all.iter().any(|process| process["id"] == id.as_str())));
    wait_for_small_records(&outlive, empty, "after a list");
}

/// Waits until no log is mapped: all are archived, and with them the states of their processes have left the memory.
fn wait_until_archived(outlive: &Outlive) {
    let pid = outlive.server_pid();
    eventually("the archive", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        (!maps.contains("outlive-log")).then_some(())
    });
}

#[test]
fn an_archived_process_is_found_restarted_and_deleted_as_any_other() {
    let limits = ["--limit", "maxExitedRings=0"].map(str::to_owned);
    let outlive = Outlive::start_with(Setup { arguments: limits.into(), ..Setup::default() });
    let spec = json!({
        "command": "echo $$", "shell": true, "tag": "t", "label": "first", "annotations": { "color": "blue" },
    });
    let start = || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let body = spec.to_string();
        outlive.http().send("POST", "/v1/processes", &headers, Some(body.as_bytes())).json
    };
    let id = start()["id"].as_str().unwrap().to_owned();
    let exited = outlive.wait_exit(&id);
    let pid = String::from_utf8(outlive.output(&id)).unwrap();
    for server in ["the first server", "the next server"] {
        wait_until_archived(&outlive);
        assert_eq!(outlive.info(&id), exited, "{server}");
        assert_eq!(outlive.info("tag:t")["id"], json!(id), "{server}");
        assert_eq!(outlive.info(&format!("pid:{}", pid.trim()))["id"], json!(id), "{server}");
        assert_eq!(start()["id"], json!(id), "{server}");
        assert_eq!(list(&outlive), std::slice::from_ref(&exited), "{server}");
        assert_eq!(outlive.output(&id), pid.as_bytes(), "{server}");
        outlive.kill_server();
    }

    wait_until_archived(&outlive);
    let patched = outlive.http().send(
        "PATCH",
        &format!("/v1/processes/{id}"),
        &[("content-type", "application/json")],
        Some(br#"{"label":"second"}"#),
    );
    assert_eq!(patched.status, 200, "{}", patched.text());
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/restart"), &json!({})).status, 200);
    let again = outlive.wait_exit(&id);
    assert_eq!((&again["generation"], &again["label"]), (&json!(2), &json!("second")));
    wait_until_archived(&outlive);
    // The log continues at the offset where the archived one ended.
    let restarted = outlive.info(&id);
    assert_eq!(restarted["outputStart"], json!(pid.len()), "{restarted}");
    assert_eq!(restarted["outputEnd"], json!(pid.len() + outlive.output(&id).len()), "{restarted}");

    // The tag of an exited process is free for another one.
    let other = outlive.start_process(json!({ "command": "true", "tag": "t" }));
    assert_eq!(outlive.info("tag:t")["id"], json!(other));
    outlive.wait_exit(&other);
    wait_until_archived(&outlive);
    for id in [&id, &other] {
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
    }
    outlive.kill_server();
    assert_eq!(list(&outlive), Vec::<Value>::new());
}
