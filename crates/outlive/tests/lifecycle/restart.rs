//! Reserved processes, starts, and restarts by request and by policy.

use serde_json::{Value, json};

use crate::harness::{Outlive, eventually, proc, write_executable};
use crate::{output_text, patch, post, wait};

#[test]
fn a_reserved_process_starts_on_request() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "echo hi", "shell": true, "start": false, "tag": "later" }));
    let info = outlive.info(&id);
    assert_eq!((&info["status"], &info["generation"], info.get("pid")), (&json!("created"), &json!(0), None));
    assert_eq!(outlive.info("tag:later")["id"], id.as_str());
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/logs")).json["entries"], json!([]));
    // A wait that begins before the start ends with the exit.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| outlive.wait_exit(&id));
        let response = post(&outlive, "tag:later", "start");
        assert_eq!((response.status, &response.json["generation"]), (200, &json!(1)), "{}", response.text());
        assert_eq!(waiting.join().unwrap()["exitCode"], 0);
    });
    assert_eq!(output_text(&outlive, &id), "hi\n");
}

#[test]
fn changes_to_terminal_and_environment_apply_from_the_next_start() {
    let outlive = Outlive::start();
    let script = "test -t 1 && echo terminal $A || echo pipe $A; cat";
    let id = outlive.start_process(json!({ "command": script, "shell": true, "start": false, "env": { "A": "1" } }));
    let terminal = json!({ "pty": { "cols": 90, "rows": 30 } });
    assert_eq!(patch(&outlive, &id, &terminal).json["tty"], true);
    post(&outlive, &id, "start");
    outlive.wait_output(&id, "terminal 1");
    // A running process keeps its terminal; variables can be changed and apply from the next start.
    let refused = patch(&outlive, &id, &json!({ "pty": null }));
    assert_eq!((refused.status, refused.code()), (409, "still_running"));
    assert_eq!(patch(&outlive, &id, &json!({ "env": { "A": "2" } })).status, 200);
    post(&outlive, &id, "kill");
    outlive.wait_exit(&id);
    assert_eq!(patch(&outlive, &id, &json!({ "pty": null })).json["tty"], false);
    post(&outlive, &id, "start");
    outlive.wait_output(&id, "pipe 2");
    assert_eq!(output_text(&outlive, &id), "terminal 1\r\npipe 2\n", "the log continues");
    let invalid = patch(&outlive, &id, &json!({ "env": { "A=B": "2" } }));
    assert_eq!((invalid.status, invalid.code()), (400, "invalid_value"));
}

#[test]
fn a_restart_keeps_id_and_offsets_and_raises_the_generation() {
    let outlive = Outlive::start();
    let id =
        outlive.start_process(json!({ "command": "echo up; sleep 1000", "shell": true, "tag": "t", "label": "l" }));
    outlive.wait_output(&id, "up");
    let first = outlive.info(&id);
    let response = post(&outlive, &id, "restart");
    assert_eq!(response.status, 200, "{}", response.text());
    let second = &response.json;
    assert_eq!((&second["status"], &second["generation"], &second["id"]), (&json!("running"), &json!(2), &json!(id)));
    assert_ne!(second["pid"], first["pid"]);
    assert!(!proc::is_alive(first["pid"].as_i64().unwrap() as i32));
    assert_eq!(outlive.wait_output(&id, "up")["end"], 5, "offsets continue");
    assert_eq!(output_text(&outlive, &id), "up\nup\n");
    assert_eq!(outlive.info("tag:t")["label"], "l");
    // An exited process can be restarted or started.
    post(&outlive, &id, "kill");
    assert_eq!(outlive.wait_exit(&id)["exitReason"], "killed");
    for (rest, generation) in [("restart", 3_usize), ("start", 4)] {
        let response = post(&outlive, &id, rest);
        assert_eq!((response.status, &response.json["generation"]), (200, &json!(generation)), "{}", response.text());
        assert_eq!(response.json.get("exitReason"), None, "the last exit is cleared");
        outlive.wait_output(&id, "up\n");
        assert_eq!(output_text(&outlive, &id), "up\n".repeat(generation));
        post(&outlive, &id, "kill");
        outlive.wait_exit(&id);
    }
}

#[test]
fn restart_policies_restart_as_often_as_configured() {
    let outlive = Outlive::start();
    let count = |id: &str| output_text(&outlive, id).lines().count();
    let restart = |mode: &str, max: u32| json!({ "mode": mode, "maxRestarts": max, "delayMs": 10 });
    let spec = |line: &str, policy: Value| json!({ "command": line, "shell": true, "restart": policy });
    // Waits for the exit of the last generation that the policy allows.
    let wait_last_exit = |id: &str, generation: u64| {
        eventually("the last exit", || {
            let info = outlive.info(id);
            (info["status"] == "exited" && info["generation"] == generation).then_some(info)
        })
    };
    let always = outlive.start_process(spec("echo x", restart("always", 2)));
    wait_last_exit(&always, 3);
    assert_eq!(count(&always), 3);
    let failing = outlive.start_process(spec("echo x; exit 1", restart("on-failure", 3)));
    assert_eq!(wait_last_exit(&failing, 4)["exitCode"], 1);
    assert_eq!(count(&failing), 4);
    let marker = outlive.dir.path().join("failed-once");
    let line = format!("echo x; [ -e {0} ] && exit 0; touch {0}; exit 1", marker.display());
    let recovering = outlive.start_process(spec(&line, restart("on-failure", 0)));
    assert_eq!(wait_last_exit(&recovering, 2)["exitCode"], 0);
    let signalled = outlive.start_process(spec("echo x; kill -SEGV $$", restart("on-failure", 1)));
    assert_eq!(wait_last_exit(&signalled, 2)["signal"], "SIGSEGV");
    // A success is not a failure, and none of the others was started again meanwhile.
    let fine = outlive.start_process(spec("echo x", restart("on-failure", 0)));
    outlive.wait_exit(&fine);
    let once = outlive.start_process(spec("echo x", json!({ "mode": "never" })));
    outlive.wait_exit(&once);
    for (id, generation) in [(&always, 3), (&failing, 4), (&recovering, 2), (&fine, 1), (&once, 1)] {
        let silent = wait(&outlive, id, json!({ "for": "silence", "silenceMs": 60 }));
        assert_eq!(silent["process"]["generation"], generation, "{silent}");
    }
}

#[test]
fn a_stop_ends_automatic_restarts() {
    let outlive = Outlive::start();
    let policy = json!({ "mode": "always", "delayMs": 400 });
    for how in ["stop", "kill"] {
        let id = outlive.start_process(json!({ "command": "echo up; sleep 1000", "shell": true, "restart": policy }));
        outlive.wait_output(&id, "up");
        post(&outlive, &id, how);
        outlive.wait_exit(&id);
        let again = wait(&outlive, &id, json!({ "for": "output", "pattern": "up\nup", "timeoutMs": 1 }));
        assert_ne!(again["outcome"], "matched");
        // A process that waits for its next start is stopped as well.
        let waiting = outlive.start_process(json!({ "command": "echo up", "shell": true, "restart": policy }));
        outlive.wait_exit(&waiting);
        assert_eq!(post(&outlive, &waiting, how).status, 200);
        let after = outlive.start_shell("sleep 1");
        outlive.wait_exit(&after);
        for id in [&id, &waiting] {
            assert_eq!(outlive.info(id)["generation"], 1, "{how} did not hold");
        }
    }
}

#[test]
fn a_failed_restart_returns_the_spawn_error() {
    let outlive = Outlive::start();
    let program = outlive.dir.path().join("program");
    write_executable(&program, b"#!/bin/sh\necho up\nexec sleep 1000\n");
    let id = outlive.start_process(json!({ "command": program }));
    outlive.wait_output(&id, "up");
    let saved = outlive.dir.path().join("saved");
    std::fs::rename(&program, &saved).unwrap();
    let response = post(&outlive, &id, "restart");
    assert_eq!((response.status, response.code()), (400, "command_not_found"), "{}", response.text());
    let info = outlive.info(&id);
    assert_eq!(
        (&info["status"], &info["generation"], &info["exitReason"]),
        (&json!("exited"), &json!(1), &json!("stopped"))
    );
    std::fs::rename(&saved, &program).unwrap();
    let response = post(&outlive, &id, "restart");
    assert_eq!((response.status, &response.json["generation"]), (200, &json!(2)), "{}", response.text());
}
