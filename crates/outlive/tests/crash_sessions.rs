//! Server crashes while sessions work. The shell keeps its state, the running command completes, and queued commands
//! run exactly once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};

fn quick_setup() -> Setup {
    let arguments = ["--grace-ms", "50", "--max-restart-delay-ms", "20"].map(str::to_owned).to_vec();
    Setup { arguments, ..Setup::default() }
}

fn create_session(outlive: &Outlive, shell: &str) {
    let response = outlive.post("/v1/sessions", &json!({ "id": "s", "shell": shell }));
    assert_eq!(response.status, 200, "{}", response.text());
}

fn exec(outlive: &Outlive, command: &str) -> Value {
    let response = outlive.post("/v1/sessions/s/exec", &json!({ "command": command }));
    assert_eq!(response.status, 200, "{command}: {}", response.text());
    response.json
}

fn exec_detached(outlive: &Outlive, command: &str) -> String {
    let response = outlive.post("/v1/sessions/s/exec", &json!({ "command": command, "detach": true }));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json["execId"].as_str().unwrap().to_owned()
}

fn wait_result(outlive: &Outlive, exec: &str) -> Value {
    // The server may crash during this request too.
    eventually("a response", || {
        let path = format!("/v1/sessions/s/execs/{exec}?wait=true&maxOutputBytes=33554432");
        let response = outlive.http().try_send("GET", &path, &[], None).ok()?;
        assert_eq!(response.status, 200, "{}", response.text());
        Some(response.json)
    })
}

const SHELLS: [&str; 4] = ["bash", "dash", "zsh", "busybox"];

#[test]
fn a_running_command_completes_across_crashes() {
    for shell in SHELLS {
        let outlive = Outlive::start_with(quick_setup());
        create_session(&outlive, shell);
        exec(&outlive, "V=kept; cd /usr");
        let lines = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); seq 1 2000; echo e$i >&2; sleep 0.02; done; (exit 7)";
        let running = exec_detached(&outlive, lines);
        for _ in 0..5 {
            eventually("more output", || {
                let path = format!("/v1/sessions/s/execs/{running}");
                let response = outlive.http().try_send("GET", &path, &[], None).ok()?;
                (response.json["outputEnd"].as_u64()? > 0).then_some(())
            });
            outlive.kill_server();
        }
        let record = wait_result(&outlive, &running);
        let once = (1..=2000).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
        assert!(record["stdout"] == once.repeat(60).as_str(), "{shell}: stdout is incomplete");
        let stderr = (1..=60).map(|number| format!("e{number}\n")).collect::<Vec<_>>().concat();
        assert_eq!(record["stderr"], stderr.as_str(), "{shell}");
        assert_eq!((&record["exitCode"], &record["status"]), (&json!(7), &json!("finished")), "{shell}");
        assert_eq!(exec(&outlive, "echo $? $V; pwd")["stdout"], "7 kept\n/usr\n", "{shell}");
    }
}

#[test]
fn queued_commands_run_once_across_crashes() {
    for shell in SHELLS {
        let outlive = Outlive::start_with(quick_setup());
        create_session(&outlive, shell);
        exec(&outlive, "N=0; ALL=");
        let all: Vec<String> = (0..20)
            .map(|number| exec_detached(&outlive, &format!("N=$((N+1)); ALL=\"$ALL {number}\"; sleep 0.03; echo $N")))
            .collect();
        for _ in 0..6 {
            outlive.kill_server();
        }
        for (number, id) in all.iter().enumerate() {
            let record = wait_result(&outlive, id);
            assert_eq!(record["stdout"], format!("{}\n", number + 1).as_str(), "{shell}: {record}");
        }
        let expected = (0..20).map(|number| format!(" {number}")).collect::<Vec<_>>().concat();
        assert_eq!(exec(&outlive, "echo \"$N$ALL\"")["stdout"], format!("20{expected}\n").as_str(), "{shell}");
    }
}

#[test]
fn a_command_runs_once_if_the_server_crashes_at_any_point() {
    for point in ["exec_saved", "exec_pipes_recorded", "exec_sent", "sink_finished", "record_put"] {
        for count in [1, 2, 3] {
            let count = if point == "record_put" { count + 4 } else { count };
            let outlive = Outlive::start_with(quick_setup().crash_at(point, count));
            create_session(&outlive, "bash");
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("ran");
            for number in 0..4 {
                let body =
                    json!({ "command": format!("echo {number} >>{}; echo out{number}", file.display()) }).to_string();
                let key = format!("key{number}");
                let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
                let response = eventually("a response", || {
                    let response =
                        outlive.http().try_send("POST", "/v1/sessions/s/exec", &headers, Some(body.as_bytes()));
                    response.ok()
                });
                assert_eq!(response.status, 200, "{point}:{count}: {}", response.text());
                assert_eq!(response.json["stdout"], format!("out{number}\n").as_str(), "{point}:{count}");
            }
            let ran = std::fs::read_to_string(&file).unwrap();
            assert_eq!(ran, "0\n1\n2\n3\n", "{point}:{count}");
            assert_eq!(
                outlive.get("/v1/health").json["serverRestarts"],
                1,
                "{point}:{count}: the server did not crash there"
            );
        }
    }
}

#[test]
fn time_limits_cancels_and_exits_work_after_a_crash() {
    let outlive = Outlive::start_with(quick_setup());
    create_session(&outlive, "bash");
    let slow = json!({ "command": "sleep 60", "detach": true, "timeoutMs": 1500 });
    let limited = outlive.post("/v1/sessions/s/exec", &slow).json["execId"].as_str().unwrap().to_owned();
    eventually("the command runs", || {
        (outlive.get("/v1/sessions/s").json["running"] == limited.as_str()).then_some(())
    });
    outlive.kill_server();
    assert_eq!(wait_result(&outlive, &limited)["timedOut"], true, "the next server enforces the limit");
    let running = exec_detached(&outlive, "sleep 61");
    eventually("the command runs", || {
        (outlive.get("/v1/sessions/s").json["running"] == running.as_str()).then_some(())
    });
    outlive.kill_server();
    let path = format!("/v1/sessions/s/execs/{running}/cancel");
    assert_eq!(outlive.http().send("POST", &path, &[], None).json["exitCode"], 130);
    let ending = exec_detached(&outlive, "sleep 0.3; echo last; exit 5");
    outlive.kill_server();
    let record = wait_result(&outlive, &ending);
    assert_eq!((&record["exitCode"], &record["shellExited"]), (&json!(5), &json!(true)), "{record}");
    assert_eq!(record["stdout"], "last\n");
    outlive.kill_server();
    assert_eq!(outlive.get("/v1/sessions/s").json["status"], "exited");
    assert_eq!(outlive.delete("/v1/sessions/s").status, 204);
}

// Regression: the next server sent an interrupted command to the shell again.
#[test]
fn an_interrupted_command_does_not_run_again_after_a_crash() {
    for shell in SHELLS {
        let outlive = Outlive::start_with(quick_setup().crash_at("exec_interrupted", 1));
        create_session(&outlive, shell);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ran");
        let command = format!("echo once >>{}; sleep 1000", file.display());
        let running = exec_detached(&outlive, &command);
        eventually("the command runs", || file.exists().then_some(()));
        // The server crashes during this request, right after the signal.
        let path = format!("/v1/sessions/s/execs/{running}/cancel");
        let _ = outlive.http().try_send("POST", &path, &[], None);
        let record = wait_result(&outlive, &running);
        assert_eq!((&record["exitCode"], &record["cancelled"]), (&json!(130), &json!(true)), "{shell}: {record}");
        assert_eq!(exec(&outlive, "echo here")["stdout"], "here\n", "{shell}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "once\n", "{shell}");
        assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 1, "{shell}: the server did not crash there");
    }
}

// Regression: the retry returned an empty output.
#[test]
fn a_retry_after_a_crash_returns_the_output() {
    // The retry arrives before the next server has sent the command to the shell again.
    for _ in 0..10 {
        let outlive = Outlive::start_with(quick_setup().crash_at("exec_pipes_recorded", 1));
        create_session(&outlive, "bash");
        let body = json!({ "command": "echo out" }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", "key")];
        let response = eventually("a response", || {
            outlive.http().try_send("POST", "/v1/sessions/s/exec", &headers, Some(body.as_bytes())).ok()
        });
        assert_eq!(response.json["stdout"], "out\n", "{}", response.text());
    }
}

#[test]
fn sessions_survive_an_upgrade() {
    let outlive = Outlive::start_with(quick_setup());
    create_session(&outlive, "bash");
    exec(&outlive, "V=kept");
    let all: Vec<String> = (0..5).map(|number| exec_detached(&outlive, &format!("sleep 0.2; echo {number}"))).collect();
    let before = outlive.server_pid();
    assert_eq!(outlive.http().send("POST", "/v1/upgrade", &[], None).status / 100, 2);
    eventually("another server", || (outlive.server_pid() != before).then_some(()));
    for (number, id) in all.iter().enumerate() {
        assert_eq!(wait_result(&outlive, id)["stdout"], format!("{number}\n").as_str());
    }
    assert_eq!(exec(&outlive, "echo $V")["stdout"], "kept\n");
}
