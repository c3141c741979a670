//! The time between two servers, and the time after the holder has died.

use std::thread;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{self, Outlive, Setup, eventually, proc};
use crate::{is_server, quick_restarts};

#[test]
fn exits_limits_and_kills_happen_while_no_server_runs() {
    let arguments = vec!["--max-restart-delay-ms".into(), "4000".into()];
    let outlive = Outlive::start_with(Setup { arguments, ..Setup::default() });
    let gate = outlive.dir.path().join("gate");
    let wait_for_gate = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let exiting =
        outlive.start_process(json!({ "command": format!("{wait_for_gate}; echo last words; exit 5"), "shell": true }));
    let limited = outlive.start_process(json!({ "command": "sleep", "args": ["1000"], "timeoutMs": 1500 }));
    let stopped =
        outlive.start_process(json!({ "command": "trap '' TERM; echo up; while :; do sleep 1; done", "shell": true }));
    outlive.wait_output(&stopped, "up");
    outlive.post(&format!("/v1/processes/{stopped}/stop?graceMs=1500&waitMs=0"), &json!({}));
    // The holder waits before it restarts a server that crashes this often.
    for _ in 0..7 {
        let pid =
            eventually("a server", || proc::children(outlive.holder_pid()).into_iter().find(|pid| is_server(*pid)));
        proc::send_signal(pid, Signal::KILL);
        eventually("the server is gone", || (!proc::is_alive(pid)).then_some(()));
    }
    std::fs::write(&gate, "").unwrap();
    let pids: Vec<i32> = [&exiting, &limited, &stopped].iter().flat_map(|id| proc::find_marked(id)).collect();
    let server_runs = || proc::children(outlive.holder_pid()).into_iter().any(is_server);
    eventually("all processes have exited", || pids.iter().all(|pid| !proc::is_alive(*pid)).then_some(()));
    assert!(!server_runs(), "a server runs already");
    let server_started = outlive.get("/v1/health").json["nowMs"].as_u64().unwrap();
    let reason = |id: &str| {
        let info = outlive.wait_exit(id);
        assert!(info["exitedAtMs"].as_u64().unwrap() < server_started);
        (info["exitReason"].as_str().unwrap().to_owned(), info["exitCode"].as_i64())
    };
    assert_eq!(reason(&exiting), ("exited".into(), Some(5)));
    assert_eq!(outlive.output(&exiting), b"last words\n");
    assert_eq!(reason(&limited), ("timedOut".into(), None));
    assert_eq!(reason(&stopped), ("stopped".into(), None));
}

#[test]
fn a_keyed_run_survives_a_crash_and_runs_once() {
    let outlive = Outlive::start_with(quick_restarts());
    let count = outlive.dir.path().join("count");
    let line = format!("echo started >> {}; sleep 0.5; echo done", count.display());
    let body = json!({ "command": line, "shell": true }).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "r")];
    thread::scope(|scope| {
        let retries = scope.spawn(|| {
            eventually("a result", || {
                outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(body.as_bytes())).ok()
            })
        });
        eventually("the command runs", || harness::read_if_exists(&count));
        outlive.kill_server();
        let response = retries.join().unwrap();
        assert_eq!((response.status, response.json["stdout"].as_str()), (200, Some("done\n")), "{}", response.text());
    });
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "started\n");
}

#[test]
fn health_is_degraded_when_the_holder_is_dead() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("echo kept");
    outlive.wait_exit(&id);
    let server = outlive.server_pid();
    proc::send_signal(outlive.holder_pid(), Signal::KILL);
    let health = eventually("degraded health", || {
        let response = outlive.get("/v1/health");
        (response.status == 503).then_some(response.json)
    });
    assert_eq!(health["status"], "degraded");
    assert_eq!(outlive.output(&id), b"kept\n");
    let response = outlive.post("/v1/processes", &json!({ "command": "true" }));
    assert_eq!((response.status, response.code()), (503, "holder_gone"));
    proc::send_signal(server, Signal::KILL);
}
