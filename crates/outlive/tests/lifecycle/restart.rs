//! Reserve, start and restart, by hand and by policy.

use serde_json::{Value, json};

use crate::harness::{Outlive, eventually, proc};
use crate::{patch, post, printed, wait};

#[test]
fn a_reserved_process_starts_when_told() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "echo hi", "shell": true, "start": false, "tag": "later" }));
    let info = outlive.info(&id);
    assert_eq!((&info["status"], &info["generation"], info.get("pid")), (&json!("created"), &json!(0), None));
    assert_eq!(outlive.info("tag:later")["id"], id.as_str());
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/logs")).json["entries"], json!([]));
    // Whoever waits for it before its start is served after it.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| outlive.wait_exit(&id));
        let answer = post(&outlive, "tag:later", "start");
        assert_eq!((answer.status, &answer.json["generation"]), (200, &json!(1)), "{}", answer.text());
        assert_eq!(waiting.join().unwrap()["exitCode"], 0);
    });
    assert_eq!(printed(&outlive, &id), "hi\n");
}

#[test]
fn what_is_changed_before_a_start_holds_from_it_on() {
    let outlive = Outlive::start();
    let ask = "test -t 1 && echo terminal $A || echo pipe $A; cat";
    let id = outlive.start_process(json!({ "command": ask, "shell": true, "start": false, "env": { "A": "1" } }));
    let terminal = json!({ "pty": { "cols": 90, "rows": 30 } });
    assert_eq!(patch(&outlive, &id, &terminal).json["tty"], true);
    post(&outlive, &id, "start");
    outlive.wait_output(&id, "terminal 1");
    // It has one, and keeps it as long as it runs; variables count when it begins.
    let refused = patch(&outlive, &id, &json!({ "pty": null }));
    assert_eq!((refused.status, refused.code()), (409, "still_running"));
    assert_eq!(patch(&outlive, &id, &json!({ "env": { "A": "2" } })).status, 200);
    post(&outlive, &id, "kill");
    outlive.wait_exit(&id);
    assert_eq!(patch(&outlive, &id, &json!({ "pty": null })).json["tty"], false);
    post(&outlive, &id, "start");
    outlive.wait_output(&id, "pipe 2");
    assert_eq!(printed(&outlive, &id), "terminal 1\r\npipe 2\n", "the log goes on");
    let nonsense = patch(&outlive, &id, &json!({ "env": { "A=B": "2" } }));
    assert_eq!((nonsense.status, nonsense.code()), (400, "invalid_value"));
}

#[test]
fn a_restart_keeps_id_and_offsets_and_raises_the_generation() {
    let outlive = Outlive::start();
    let id =
        outlive.start_process(json!({ "command": "echo up; sleep 1000", "shell": true, "tag": "t", "label": "l" }));
    outlive.wait_output(&id, "up");
    let first = outlive.info(&id);
    let answer = post(&outlive, &id, "restart");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let second = &answer.json;
    assert_eq!((&second["status"], &second["generation"], &second["id"]), (&json!("running"), &json!(2), &json!(id)));
    assert_ne!(second["pid"], first["pid"]);
    assert!(!proc::is_alive(first["pid"].as_i64().unwrap() as i32));
    assert_eq!(outlive.wait_output(&id, "up")["end"], 5, "offsets go on");
    assert_eq!(printed(&outlive, &id), "up\nup\n");
    assert_eq!(outlive.info("tag:t")["label"], "l");
    // Also of one that has ended, by either name.
    post(&outlive, &id, "kill");
    assert_eq!(outlive.wait_exit(&id)["exitReason"], "killed");
    for (rest, generation) in [("restart", 3_usize), ("start", 4)] {
        let answer = post(&outlive, &id, rest);
        assert_eq!((answer.status, &answer.json["generation"]), (200, &json!(generation)), "{}", answer.text());
        assert_eq!(answer.json.get("exitReason"), None, "what was is over");
        outlive.wait_output(&id, "up\n");
        assert_eq!(printed(&outlive, &id), "up\n".repeat(generation));
        post(&outlive, &id, "kill");
        outlive.wait_exit(&id);
    }
}

#[test]
fn restart_policies_do_what_they_say() {
    let outlive = Outlive::start();
    let count = |id: &str| printed(&outlive, id).lines().count();
    let restart = |mode: &str, most: u32| json!({ "mode": mode, "maxRestarts": most, "delayMs": 10 });
    let spec = |line: &str, policy: Value| json!({ "command": line, "shell": true, "restart": policy });
    // How it comes to rest: the last exit with the generation that the policy allows.
    let rests = |id: &str, generation: u64| {
        eventually("it rests", || {
            let info = outlive.info(id);
            (info["status"] == "exited" && info["generation"] == generation).then_some(info)
        })
    };
    let always = outlive.start_process(spec("echo x", restart("always", 2)));
    rests(&always, 3);
    assert_eq!(count(&always), 3);
    let failing = outlive.start_process(spec("echo x; exit 1", restart("on-failure", 3)));
    assert_eq!(rests(&failing, 4)["exitCode"], 1);
    assert_eq!(count(&failing), 4);
    let mark = outlive.dir.path().join("failed-once");
    let line = format!("echo x; [ -e {0} ] && exit 0; touch {0}; exit 1", mark.display());
    let recovering = outlive.start_process(spec(&line, restart("on-failure", 0)));
    assert_eq!(rests(&recovering, 2)["exitCode"], 0);
    let signalled = outlive.start_process(spec("echo x; kill -SEGV $$", restart("on-failure", 1)));
    assert_eq!(rests(&signalled, 2)["signal"], "SIGSEGV");
    // Success is no failure, and none of these started again meanwhile.
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
fn a_stop_ends_the_restarting_too() {
    let outlive = Outlive::start();
    let policy = json!({ "mode": "always", "delayMs": 400 });
    for how in ["stop", "kill"] {
        let id = outlive.start_process(json!({ "command": "echo up; sleep 1000", "shell": true, "restart": policy }));
        outlive.wait_output(&id, "up");
        post(&outlive, &id, how);
        outlive.wait_exit(&id);
        let again = wait(&outlive, &id, json!({ "for": "output", "pattern": "up\nup", "timeoutMs": 1 }));
        assert_ne!(again["outcome"], "matched");
        // One that waits for its next start is stopped as well.
        let waiting = outlive.start_process(json!({ "command": "echo up", "shell": true, "restart": policy }));
        outlive.wait_exit(&waiting);
        assert_eq!(post(&outlive, &waiting, how).status, 200);
        let after = outlive.shell("sleep 1");
        outlive.wait_exit(&after);
        for id in [&id, &waiting] {
            assert_eq!(outlive.info(id)["generation"], 1, "{how} did not hold");
        }
    }
}

#[test]
fn a_restart_that_cannot_start_says_why() {
    let outlive = Outlive::start();
    let program = outlive.dir.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho up\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let id = outlive.start_process(json!({ "command": program }));
    outlive.wait_output(&id, "up");
    let saved = outlive.dir.path().join("saved");
    std::fs::rename(&program, &saved).unwrap();
    let answer = post(&outlive, &id, "restart");
    assert_eq!((answer.status, answer.code()), (400, "command_not_found"), "{}", answer.text());
    let info = outlive.info(&id);
    assert_eq!(
        (&info["status"], &info["generation"], &info["exitReason"]),
        (&json!("exited"), &json!(1), &json!("stopped"))
    );
    std::fs::rename(&saved, &program).unwrap();
    let answer = post(&outlive, &id, "restart");
    assert_eq!((answer.status, &answer.json["generation"]), (200, &json!(2)), "{}", answer.text());
}
