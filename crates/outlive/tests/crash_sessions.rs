//! The server is killed while sessions work. The shell and its state stay, what runs is complete afterwards, and what waits
//! runs exactly once.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{Outlive, Setup, eventually};
use serde_json::{Value, json};

fn setup() -> Setup {
    let arguments = ["--grace-ms", "50", "--max-restart-delay-ms", "20"].map(str::to_owned).to_vec();
    Setup { arguments, ..Setup::default() }
}

fn with_trap(point: &str, count: u32) -> Outlive {
    let folder = tempfile::tempdir().unwrap().keep();
    let environment = vec![
        ("OUTLIVE_TEST_KILL_AT".into(), format!("{point}:{count}")),
        ("OUTLIVE_TEST_KILL_ONCE".into(), folder.to_str().unwrap().into()),
    ];
    Outlive::with(Setup { environment, ..setup() })
}

fn create(outlive: &Outlive, shell: &str) {
    let answer = outlive.post("/v1/sessions", &json!({ "id": "s", "shell": shell }));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn exec(outlive: &Outlive, command: &str) -> Value {
    let answer = outlive.post("/v1/sessions/s/exec", &json!({ "command": command }));
    assert_eq!(answer.status, 200, "{command}: {}", answer.text());
    answer.json
}

fn begin(outlive: &Outlive, command: &str) -> String {
    let answer = outlive.post("/v1/sessions/s/exec", &json!({ "command": command, "detach": true }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json["execId"].as_str().unwrap().to_owned()
}

fn result(outlive: &Outlive, exec: &str) -> Value {
    // The server may die under this question too.
    eventually("an answer", || {
        let path = format!("/v1/sessions/s/execs/{exec}?wait=true&maxOutputBytes=33554432");
        let answer = outlive.http().try_send("GET", &path, &[], None).ok()?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        Some(answer.json)
    })
}

const SHELLS: [&str; 4] = ["bash", "dash", "zsh", "busybox"];

#[test]
fn a_running_command_is_complete_after_many_deaths() {
    for shell in SHELLS {
        let outlive = Outlive::with(setup());
        create(&outlive, shell);
        exec(&outlive, "V=kept; cd /usr");
        let lines = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); seq 1 2000; echo e$i >&2; sleep 0.02; done; (exit 7)";
        let running = begin(&outlive, lines);
        for _ in 0..5 {
            eventually("more output", || {
                let path = format!("/v1/sessions/s/execs/{running}");
                let answer = outlive.http().try_send("GET", &path, &[], None).ok()?;
                (answer.json["outputEnd"].as_u64()? > 0).then_some(())
            });
            outlive.kill_server();
        }
        let record = result(&outlive, &running);
        let once = (1..=2000).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
        assert!(record["stdout"] == once.repeat(60).as_str(), "{shell}: stdout is not complete");
        let stderr = (1..=60).map(|number| format!("e{number}\n")).collect::<Vec<_>>().concat();
        assert_eq!(record["stderr"], stderr.as_str(), "{shell}");
        assert_eq!((&record["exitCode"], &record["status"]), (&json!(7), &json!("finished")), "{shell}");
        assert_eq!(exec(&outlive, "echo $? $V; pwd")["stdout"], "7 kept\n/usr\n", "{shell}");
    }
}

#[test]
fn a_queue_runs_exactly_once_across_deaths() {
    for shell in SHELLS {
        let outlive = Outlive::with(setup());
        create(&outlive, shell);
        exec(&outlive, "N=0; ALL=");
        let all: Vec<String> = (0..20)
            .map(|number| begin(&outlive, &format!("N=$((N+1)); ALL=\"$ALL {number}\"; sleep 0.03; echo $N")))
            .collect();
        for _ in 0..6 {
            outlive.kill_server();
        }
        for (number, id) in all.iter().enumerate() {
            let record = result(&outlive, id);
            assert_eq!(record["stdout"], format!("{}\n", number + 1).as_str(), "{shell}: {record}");
        }
        let expected = (0..20).map(|number| format!(" {number}")).collect::<Vec<_>>().concat();
        assert_eq!(exec(&outlive, "echo \"$N$ALL\"")["stdout"], format!("20{expected}\n").as_str(), "{shell}");
    }
}

#[test]
fn a_death_at_any_point_of_a_command_runs_it_once() {
    for point in ["exec_recorded", "exec_recorded_by_holder", "exec_sent", "exec_concluded", "record_put"] {
        for count in [1, 2, 3] {
            let outlive = with_trap(point, if point == "record_put" { count + 4 } else { count });
            create(&outlive, "bash");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("ran");
            for number in 0..4 {
                let body =
                    json!({ "command": format!("echo {number} >>{}; echo out{number}", file.display()) }).to_string();
                let key = format!("key{number}");
                let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
                let answer = eventually("an answer", || {
                    let answer =
                        outlive.http().try_send("POST", "/v1/sessions/s/exec", &headers, Some(body.as_bytes()));
                    answer.ok()
                });
                assert_eq!(answer.status, 200, "{point}:{count}: {}", answer.text());
                assert_eq!(answer.json["stdout"], format!("out{number}\n").as_str(), "{point}:{count}");
            }
            let ran = std::fs::read_to_string(&file).unwrap();
            assert_eq!(ran, "0\n1\n2\n3\n", "{point}:{count}");
            assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 1, "{point}:{count}: it did not die there");
        }
    }
}

#[test]
fn limits_cancels_and_ends_work_after_a_death() {
    let outlive = Outlive::with(setup());
    create(&outlive, "bash");
    let slow = json!({ "command": "sleep 60", "detach": true, "timeoutMs": 1500 });
    let limited = outlive.post("/v1/sessions/s/exec", &slow).json["execId"].as_str().unwrap().to_owned();
    eventually("it runs", || (outlive.get("/v1/sessions/s").json["running"] == limited.as_str()).then_some(()));
    outlive.kill_server();
    assert_eq!(result(&outlive, &limited)["timedOut"], true, "the limit is kept by whoever takes over");
    let running = begin(&outlive, "sleep 61");
    eventually("it runs", || (outlive.get("/v1/sessions/s").json["running"] == running.as_str()).then_some(()));
    outlive.kill_server();
    let path = format!("/v1/sessions/s/execs/{running}/cancel");
    assert_eq!(outlive.http().send("POST", &path, &[], None).json["exitCode"], 130);
    let ending = begin(&outlive, "sleep 0.3; echo last; exit 5");
    outlive.kill_server();
    let record = result(&outlive, &ending);
    assert_eq!((&record["exitCode"], &record["shellExited"]), (&json!(5), &json!(true)), "{record}");
    assert_eq!(record["stdout"], "last\n");
    outlive.kill_server();
    assert_eq!(outlive.get("/v1/sessions/s").json["status"], "exited");
    assert_eq!(outlive.delete("/v1/sessions/s").status, 204);
}

#[test]
fn an_interrupted_command_ran_again_after_a_death() {
    for shell in SHELLS {
        let outlive = with_trap("exec_interrupted", 1);
        create(&outlive, shell);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let command = format!("echo once >>{}; sleep 1000", file.display());
        let running = begin(&outlive, &command);
        eventually("it runs", || file.exists().then_some(()));
        // Dies under the question, right after the signal.
        let path = format!("/v1/sessions/s/execs/{running}/cancel");
        let _ = outlive.http().try_send("POST", &path, &[], None);
        let record = result(&outlive, &running);
        assert_eq!((&record["exitCode"], &record["cancelled"]), (&json!(130), &json!(true)), "{shell}: {record}");
        assert_eq!(exec(&outlive, "echo here")["stdout"], "here\n", "{shell}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "once\n", "{shell}");
        assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 1, "{shell}: it did not die there");
    }
}

#[test]
fn a_retry_after_a_death_was_told_that_nothing_was_printed() {
    // The retry reads from the first moment on, when the command has not been sent to the shell again yet.
    for _ in 0..10 {
        let outlive = with_trap("exec_recorded_by_holder", 1);
        create(&outlive, "bash");
        let body = json!({ "command": "echo out" }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", "key")];
        let answer = eventually("an answer", || {
            outlive.http().try_send("POST", "/v1/sessions/s/exec", &headers, Some(body.as_bytes())).ok()
        });
        assert_eq!(answer.json["stdout"], "out\n", "{}", answer.text());
    }
}

#[test]
fn an_upgrade_takes_sessions_along() {
    let outlive = Outlive::with(setup());
    create(&outlive, "bash");
    exec(&outlive, "V=kept");
    let all: Vec<String> = (0..5).map(|number| begin(&outlive, &format!("sleep 0.2; echo {number}"))).collect();
    let before = outlive.server_pid();
    assert_eq!(outlive.http().send("POST", "/v1/upgrade", &[], None).status / 100, 2);
    eventually("another server", || (outlive.server_pid() != before).then_some(()));
    for (number, id) in all.iter().enumerate() {
        assert_eq!(result(&outlive, id)["stdout"], format!("{number}\n").as_str());
    }
    assert_eq!(exec(&outlive, "echo $V")["stdout"], "kept\n");
}
