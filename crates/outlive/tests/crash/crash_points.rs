//! Crashes at chosen points of the server's code.

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually, proc};
use crate::quick_restarts;

/// Starts outlive so that its server kills itself the `count`-th time it reaches `point`.
fn start_with_crash(point: &str, count: u32) -> Outlive {
    Outlive::start_with(quick_restarts().crash_at(point, count))
}

#[test]
fn a_start_makes_one_process_if_the_server_crashes_at_any_point() {
    for point in ["spawn_requested", "spawned", "record_put:1", "record_put:2", "record_put:3"] {
        let (name, count) = point.split_once(':').unwrap_or((point, "1"));
        let outlive = start_with_crash(name, count.parse().unwrap());
        let body = json!({ "command": "sleep", "args": ["1000"], "tag": "one" }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let mut failures = 0;
        // The first request fails with the crash; a retry with the same key gets the same process.
        let response = eventually("a response", || {
            let response = outlive.http().try_send("POST", "/v1/processes", &headers, Some(body.as_bytes()));
            failures += u32::from(response.is_err());
            response.ok()
        });
        assert_eq!(response.status, 200, "{point}: {}", response.text());
        assert_eq!(failures, 1, "{point}: the server did not crash there");
        let list = outlive.get("/v1/processes?all=true").json["processes"].clone();
        assert_eq!(list.as_array().unwrap().len(), 1, "{point}: {list}");
        let id = list[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(response.json["id"], id.as_str(), "{point}");
        let alive = proc::find_marked(&id);
        assert_eq!(alive.len(), 1, "{point}: exactly one sleep runs, found {alive:?}");
    }
}

#[test]
fn a_crash_between_sigterm_and_sigkill_does_not_spare_the_tree() {
    let outlive = start_with_crash("between_term_and_kill", 1);
    let id = outlive.start_shell("trap '' TERM; echo up; while :; do sleep 1; done");
    outlive.wait_output(&id, "up");
    let response =
        outlive.http().try_send("POST", &format!("/v1/processes/{id}/stop?graceMs=300&waitMs=5000"), &[], None);
    assert!(response.is_err(), "the server did not crash there");
    let info = outlive.wait_exit(&id);
    assert_eq!((info["signal"].as_str(), info["exitReason"].as_str()), (Some("SIGKILL"), Some("stopped")));
    // The command has exited; its children got the same signal at the same time and may exit later.
    eventually("the tree is gone", || proc::find_marked(&id).is_empty().then_some(()));
}

#[test]
fn a_crash_during_the_hand_over_leads_to_another_hand_over() {
    let outlive = start_with_crash("hand_over", 30);
    let ids: Vec<String> = (0..40).map(|_| outlive.start_process(json!({ "command": "cat" }))).collect();
    outlive.kill_server();
    for id in &ids {
        assert_eq!(outlive.info(id)["status"], "running");
    }
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 2, "the second server did not crash in its hand-over");
}

#[test]
fn a_crash_in_the_middle_of_a_write_loses_nothing() {
    // The output of one megabyte is more than ten frames.
    let outlive = start_with_crash("mid_write", 10);
    let id = outlive.start_shell("i=0; while [ $i -lt 100000 ]; do echo line $i; i=$((i+1)); done");
    let mut reconnects = 0;
    let (mut offset, mut all) = (0, Vec::new());
    'exit: loop {
        let Ok(mut socket) = Socket::try_connect(outlive.http(), &id, &format!("from={offset}"), true) else {
            continue;
        };
        loop {
            match socket.next() {
                Frame::Bytes { bytes, .. } => {
                    all.extend_from_slice(&bytes);
                    offset = socket.offset;
                }
                Frame::Control(frame) if frame["type"] == "exit" => break 'exit,
                Frame::Control(frame) => panic!("{frame}"),
                Frame::Closed(_) => break,
            }
        }
        reconnects += 1;
    }
    let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}\n")).collect();
    let expected = lines.concat();
    assert!(all == expected.as_bytes(), "{} bytes instead of {}", all.len(), expected.len());
    assert_eq!(reconnects, 1);
}
