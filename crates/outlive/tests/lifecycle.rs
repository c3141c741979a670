//! From start to removal.

mod harness;

use harness::{Outlive, eventually};
use serde_json::json;

#[test]
fn a_process_runs_and_is_remembered() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo out; echo err >&2; exit 7");
    let info = outlive.wait_exit(&id);
    assert_eq!((info["status"].as_str(), info["exitCode"].as_i64()), (Some("exited"), Some(7)));
    let mut output = outlive.output(&id);
    output.sort_unstable();
    let mut expected = b"out\nerr\n".to_vec();
    expected.sort_unstable();
    assert_eq!(output, expected);
}

#[test]
fn stopping_outlive_ends_everything_with_code_0() {
    let outlive = Outlive::start();
    let id = outlive.shell("trap '' TERM; echo up; sleep 1000");
    outlive.wait_output(&id, "up");
    let pid = outlive.info(&id)["pid"].as_i64().unwrap() as i32;
    assert_eq!(outlive.stop(), 0);
    eventually("the program is gone", || (!harness::proc::is_alive(pid)).then_some(()));
}

#[test]
fn a_failed_start_leaves_nothing_behind() {
    let outlive = Outlive::start();
    let answer = outlive.post("/v1/processes", &json!({ "command": "/nonexistent/program" }));
    assert_eq!((answer.status, answer.code()), (400, "command_not_found"));
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
}
