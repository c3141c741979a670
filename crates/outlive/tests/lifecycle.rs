//! From start to removal.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::http::Answer;
use harness::socket::{Frame, Socket};
use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

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

fn post(outlive: &Outlive, id: &str, rest: &str) -> Answer {
    outlive.http().send("POST", &format!("/v1/processes/{id}/{rest}"), &[], None)
}

fn patch(outlive: &Outlive, id: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    outlive.http().send("PATCH", &format!("/v1/processes/{id}"), &headers, Some(body.to_string().as_bytes()))
}

fn start_keyed(outlive: &Outlive, key: &str, spec: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    outlive.http().send("POST", "/v1/processes", &headers, Some(spec.to_string().as_bytes()))
}

fn wait(outlive: &Outlive, id: &str, body: Value) -> Value {
    let answer = outlive.post(&format!("/v1/processes/{id}/wait"), &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json
}

fn listed(outlive: &Outlive, query: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes{query}")).json["processes"].as_array().unwrap().clone()
}

fn printed(outlive: &Outlive, id: &str) -> String {
    String::from_utf8(outlive.output(id)).unwrap()
}

fn set_config(outlive: &Outlive, path: &str, changes: Value) {
    let mut config = outlive.get(path).json;
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    let answer = outlive.post(path, &config);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

// ---- reserve, start, restart ----

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
    assert_eq!(outlive.wait_output(&id, "up\nup")["end"], 5);
    assert_eq!(printed(&outlive, &id), "up\nup\n");
    assert_eq!(outlive.info("tag:t")["label"], "l");
    // Also of one that has ended, by either name.
    post(&outlive, &id, "kill");
    assert_eq!(outlive.wait_exit(&id)["exitReason"], "killed");
    for (rest, generation) in [("restart", 3), ("start", 4)] {
        let answer = post(&outlive, &id, rest);
        assert_eq!((answer.status, &answer.json["generation"]), (200, &json!(generation)), "{}", answer.text());
        assert_eq!(answer.json.get("exitReason"), None, "what was is over");
        outlive.wait_output(&id, &format!("(up\n){{{generation}}}"));
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

// ---- names ----

#[test]
fn a_patch_changes_names_and_null_removes_them() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "tty": true, "tag": "a", "label": "one", "annotations": { "x": "1", "y": "2" },
    }));
    let answer =
        patch(&outlive, &id, &json!({ "tag": "b", "annotations": { "x": null, "z": "3" }, "sizePolicy": "fixed" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let info = outlive.info("tag:b");
    assert_eq!((&info["id"], &info["label"], &info["sizePolicy"]), (&json!(id), &json!("one"), &json!("fixed")));
    assert_eq!(info["annotations"], json!({ "y": "2", "z": "3" }));
    assert_eq!(outlive.get("/v1/processes/tag:a").status, 404);
    let answer = patch(&outlive, &id, &json!({ "tag": null, "label": null, "annotations": { "y": null, "z": null } }));
    for gone in ["tag", "label", "annotations"] {
        assert_eq!(answer.json.get(gone), None, "{}", answer.text());
    }
    assert_eq!(outlive.get("/v1/processes/tag:b").status, 404);
    // The name is free for another.
    let other = outlive.start_process(json!({ "command": "cat", "tag": "b" }));
    assert_eq!(outlive.info("tag:b")["id"], other.as_str());
    assert_eq!(patch(&outlive, &id, &json!({ "tag": "b" })).code(), "tag_exists");
}

#[test]
fn a_tag_is_free_again_after_the_exit() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "true", "tag": "t" });
    let first = outlive.start_process(spec.clone());
    outlive.wait_exit(&first);
    assert_eq!(outlive.info("tag:t")["id"], first.as_str(), "as long as no other has it, the tag still finds it");
    let second = outlive.start_process(spec);
    outlive.wait_exit(&second);
    assert_ne!(first, second);
    assert_eq!(outlive.info("tag:t")["id"], second.as_str());
    assert_eq!(outlive.delete("/v1/processes/tag:t").status, 204);
    assert_eq!(outlive.get(&format!("/v1/processes/{first}")).status, 200);
}

#[test]
fn the_list_is_filtered_and_oldest_first() {
    let outlive = Outlive::start();
    let a = outlive.start_process(json!({ "command": "cat", "tag": "a", "source": "agent", "sessionId": "s" }));
    let b = outlive.start_process(json!({ "command": "cat", "tty": true, "owner": "system" }));
    let c = outlive.shell("true");
    outlive.wait_exit(&c);
    let d = outlive.start_process(json!({ "command": "cat", "start": false }));
    for (query, expected) in [
        ("", vec![&a, &b, &c, &d]),
        ("?status=running", vec![&a, &b]),
        ("?status=exited", vec![&c]),
        ("?status=created", vec![&d]),
        ("?tag=a", vec![&a]),
        ("?tty=true", vec![&b]),
        ("?pty=false", vec![&a, &c, &d]),
        ("?owner=system", vec![&b]),
        ("?owner=user", vec![&a, &c, &d]),
        ("?source=agent", vec![&a]),
        ("?sessionId=s", vec![&a]),
        ("?sessionId=s&tty=true", vec![]),
        ("?unknown=ignored", vec![&a, &b, &c, &d]),
    ] {
        let ids: Vec<Value> = listed(&outlive, query).into_iter().map(|info| info["id"].clone()).collect();
        let expected: Vec<Value> = expected.into_iter().map(|id| json!(id)).collect();
        assert_eq!(ids, expected, "{query}");
    }
}

// ---- many at once ----

/// Runs `work` this often at the same time, on threads that begin together.
fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    gate.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_hundred_starts_with_one_tag_give_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"], "tag": "one", "ifTagExists": "return" });
    let ids = at_once(100, |_| outlive.start_process(spec.clone()));
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(listed(&outlive, "?all=true").len(), 1);
    assert_eq!(outlive.info(&ids[0])["status"], "running");
    // Without `return` all but the owner are told.
    let mut strict = spec;
    strict.as_object_mut().unwrap().remove("ifTagExists");
    assert_eq!(outlive.post("/v1/processes", &strict).code(), "tag_exists");
}

#[test]
fn a_hundred_retries_with_one_key_give_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"] });
    let ids = at_once(100, |_| {
        let answer = start_keyed(&outlive, "key", &spec);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json["id"].clone()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(listed(&outlive, "?all=true").len(), 1);
    let other = start_keyed(&outlive, "key", &json!({ "command": "sleep", "args": ["999"] }));
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    // The key stands for the process after its end too, and across the death of a server.
    outlive.kill_server();
    assert_eq!(start_keyed(&outlive, "key", &spec).json["id"], ids[0]);
    post(&outlive, ids[0].as_str().unwrap(), "kill");
    let answer = start_keyed(&outlive, "key", &spec);
    assert_eq!((&answer.json["id"], &answer.json["status"]), (&ids[0], &json!("exited")));
}

#[test]
fn the_limit_of_processes_is_exact() {
    let outlive = Outlive::start();
    set_config(&outlive, "/v1/processes/config", json!({ "maxConcurrentProcesses": 8 }));
    let answers = at_once(50, |_| outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })));
    let started: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(started.len(), 8);
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((refused.status, refused.code()), (409, "process_limit"), "{}", refused.text());
        assert!(refused.text().contains("max concurrent process limit reached (8)"), "{}", refused.text());
    }
    assert_eq!(listed(&outlive, "?all=true").len(), 8, "a refused one left something");
    // Every end gives its place back exactly once.
    for answer in started {
        let id = answer.json["id"].as_str().unwrap();
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    }
    let again = at_once(20, |_| outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })).status);
    assert_eq!(again.iter().filter(|status| **status == 200).count(), 8);
}

// ---- deadlines ----

#[test]
fn a_time_limit_kills_and_says_so() {
    let outlive = Outlive::start();
    let id = outlive
        .start_process(json!({ "command": "trap '' TERM; echo up; sleep 1000", "shell": true, "timeoutMs": 300 }));
    let info = outlive.wait_exit(&id);
    assert_eq!((&info["exitReason"], &info["signal"]), (&json!("timedOut"), &json!("SIGKILL")));
    assert_eq!(info.get("exitCode"), None);
    assert_eq!(printed(&outlive, &id), "up\n");
}

#[test]
fn a_process_may_end_when_nobody_has_been_attached_for_a_while() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "cat", "tty": true, "killAfterDetachMs": 300 });
    let never = outlive.start_process(spec.clone());
    let id = outlive.start_process(spec);
    let first = Socket::connect(outlive.http(), &id, "", false);
    let second = Socket::connect(outlive.http(), &id, "", false);
    first.cut();
    // One is still there, so nothing happens for longer than the limit.
    assert_eq!(wait(&outlive, &id, json!({ "timeoutMs": 900 }))["outcome"], "timedOut");
    second.cut();
    assert_eq!(outlive.wait_exit(&id)["exitReason"], "detached");
    assert_eq!(outlive.info(&never)["status"], "running", "one that nobody ever attached to stays");
}

// ---- retention and removal ----

#[test]
fn records_of_the_exited_are_kept_within_limits() {
    let outlive = Outlive::start();
    let short = outlive.start_process(json!({ "command": "true", "retainMs": 0 }));
    eventually("it is forgotten", || (outlive.get(&format!("/v1/processes/{short}")).status == 404).then_some(()));
    let kept = outlive.shell("true");
    outlive.wait_exit(&kept);
    let running = outlive.shell("cat");
    set_config(&outlive, "/v1/config", json!({ "maxExitedProcesses": 3 }));
    let mut last = Vec::new();
    for _ in 0..6 {
        let id = outlive.shell("echo x");
        outlive.wait_exit(&id);
        last.push(id);
    }
    eventually("only the newest are kept", || (listed(&outlive, "?status=exited").len() == 3).then_some(()));
    let ids: Vec<Value> = listed(&outlive, "").into_iter().map(|info| info["id"].clone()).collect();
    assert_eq!(ids, [&running, &last[3], &last[4], &last[5]].map(|id| json!(id)));
}

#[test]
fn delete_forgets_the_exited_and_refuses_the_running() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat");
    let path = format!("/v1/processes/{id}");
    let refused = outlive.delete(&path);
    assert_eq!((refused.status, refused.code()), (409, "still_running"));
    assert_eq!(outlive.info(&id)["status"], "running");
    let follower = outlive.http().open("GET", &format!("{path}/logs?follow=true"), &[], None).unwrap();
    let mut socket = Socket::connect(outlive.http(), &id, "", true);
    post(&outlive, &id, "kill");
    outlive.wait_exit(&id);
    let answer = outlive.delete(&path);
    assert_eq!((answer.status, answer.body.as_slice()), (204, b"".as_slice()));
    assert_eq!(outlive.get(&path).status, 404);
    assert_eq!(outlive.delete(&path).status, 404);
    // Followers end.
    let mut events = harness::http::Events::new(follower);
    while events.next().is_some() {}
    while !matches!(socket.next(), Frame::Closed(_)) {}
    let reserved = outlive.start_process(json!({ "command": "cat", "start": false }));
    assert_eq!(outlive.delete(&format!("/v1/processes/{reserved}")).status, 204);
    assert_eq!(listed(&outlive, "?all=true").len(), 0);
}

#[test]
fn a_waiter_is_told_when_the_process_is_deleted() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = ["nothing", "exit"]
            .into_iter()
            .map(|_| {
                scope.spawn(|| {
                    outlive.post(&format!("/v1/processes/{id}/wait"), &json!({ "for": "output", "pattern": "never" }))
                })
            })
            .collect();
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
        for one in waiting {
            let answer = one.join().unwrap();
            assert!(answer.status == 404 || answer.json["outcome"] == "exited", "{}", answer.text());
        }
    });
}

// ---- stop, kill, signal ----

#[test]
fn a_stop_is_a_term_and_then_a_kill() {
    let outlive = Outlive::start();
    let polite = outlive.shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&polite, "up");
    let answer = post(&outlive, &polite, "stop?waitMs=30000");
    assert_eq!(
        (&answer.json["status"], &answer.json["exitCode"], &answer.json["exitReason"]),
        (&json!("exited"), &json!(9), &json!("stopped"))
    );
    // The shell itself also complains on stderr about its child, which got the TERM too.
    assert_eq!(outlive.get(&format!("/v1/processes/{polite}/output?stream=stdout")).body, b"up\nbye\n");
    let stubborn = outlive.shell("trap '' TERM; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&stubborn, "up");
    let answer = post(&outlive, &stubborn, "stop?waitMs=0&graceMs=300");
    assert_eq!(
        (&answer.json["status"], &answer.json["stopRequested"]),
        (&json!("running"), &json!(true)),
        "{}",
        answer.text()
    );
    let info = outlive.wait_exit(&stubborn);
    assert_eq!((&info["signal"], &info["exitReason"]), (&json!("SIGKILL"), &json!("stopped")));
    // Again, and of one that is over: nothing happens.
    for rest in ["stop", "kill"] {
        let answer = post(&outlive, &stubborn, rest);
        assert_eq!((answer.status, &answer.json["exitReason"]), (200, &json!("stopped")));
    }
}

#[test]
fn signals_go_by_name_and_number() {
    let outlive = Outlive::start();
    let id = outlive.shell("trap 'echo one' USR1; trap 'echo two' USR2; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&id, "up");
    let mut expected = "up\n".to_owned();
    for (signal, word) in [(json!("SIGUSR1"), "one"), (json!("usr2"), "two"), (json!(10), "one"), (json!("12"), "two")]
    {
        let answer = outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": signal }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        expected.push_str(word);
        expected.push('\n');
        // On stderr the shell complains about its child, which got the signal too.
        let body = json!({ "for": "output", "pattern": expected, "stream": "stdout", "timeoutMs": 60_000 });
        assert_eq!(wait(&outlive, &id, body)["outcome"], "matched");
    }
    outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": "KILL" }));
    let info = outlive.wait_exit(&id);
    assert_eq!((&info["signal"], &info["exitReason"]), (&json!("SIGKILL"), &json!("exited")));
}

// ---- wait ----

#[test]
fn a_wait_for_output_says_where() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo first line; echo port=8080 ready; echo err=7 >&2; cat");
    let found = wait(&outlive, &id, json!({ "for": "output", "pattern": "^port=(\\d+) (nope)?", "timeoutMs": 60_000 }));
    assert_eq!((&found["outcome"], &found["text"]), (&json!("matched"), &json!("port=8080 ")));
    assert_eq!((&found["offset"], &found["end"], &found["groups"]), (&json!(11), &json!(21), &json!(["8080", null])));
    let later = wait(&outlive, &id, json!({ "for": "output", "pattern": "port", "from": 12, "timeoutMs": 100 }));
    assert_eq!(later["outcome"], "timedOut");
    let other =
        wait(&outlive, &id, json!({ "for": "output", "pattern": "err=", "stream": "stdout", "timeoutMs": 100 }));
    assert_eq!(other["outcome"], "timedOut");
    let stderr =
        wait(&outlive, &id, json!({ "for": "output", "pattern": "err=(.)", "stream": "stderr", "timeoutMs": 60_000 }));
    assert_eq!(stderr["groups"], json!(["7"]));
    // A match over two writes, waited for while it comes.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| outlive.wait_output(&id, "half and half"));
        for part in ["half ", "and ", "half"] {
            outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": part, "encoding": "utf8" }));
        }
        assert_eq!(waiting.join().unwrap()["text"], "half and half");
    });
    post(&outlive, &id, "stdin/close");
    let over = wait(&outlive, &id, json!({ "for": "output", "pattern": "never", "timeoutMs": 60_000 }));
    assert_eq!((&over["outcome"], &over["process"]["exitCode"]), (&json!("exited"), &json!(0)));
    let past = wait(&outlive, &id, json!({ "for": "output", "pattern": "first" }));
    assert_eq!(past["outcome"], "matched", "what was printed before the exit is found after it");
}

#[test]
fn a_wait_for_silence_exit_and_its_time_limit() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo x; cat");
    let silent = wait(&outlive, &id, json!({ "for": "silence", "silenceMs": 150, "timeoutMs": 60_000 }));
    assert_eq!((&silent["outcome"], &silent["offset"]), (&json!("silent"), &json!(2)));
    assert_eq!(wait(&outlive, &id, json!({ "timeoutMs": 100 }))["outcome"], "timedOut");
    let noisy = outlive.shell("while :; do echo x; sleep 0.02; done");
    let never = wait(&outlive, &noisy, json!({ "for": "silence", "silenceMs": 5_000, "timeoutMs": 300 }));
    assert_eq!(never["outcome"], "timedOut");
    post(&outlive, &noisy, "kill");
    let over = wait(&outlive, &noisy, json!({ "for": "silence", "silenceMs": 60_000 }));
    assert_eq!(over["outcome"], "exited");
}

#[test]
fn a_wait_for_a_port_or_an_answer_looks_at_the_tree() {
    let outlive = Outlive::start();
    // Answers 503 to the first request, then 200; a grandchild of the shell, on a port that the kernel chooses.
    let server = "import http.server, sys\n\
        class H(http.server.BaseHTTPRequestHandler):\n\
        \x20   seen = 0\n\
        \x20   def do_GET(self):\n\
        \x20       H.seen += 1\n\
        \x20       self.send_response(503 if H.seen == 1 else 200 if self.path == '/ok' else 404); self.end_headers()\n\
        \x20   def log_message(self, *a): pass\n\
        s = http.server.HTTPServer(('127.0.0.1', 0), H)\n\
        print('port', s.server_port, flush=True)\n\
        s.serve_forever()\n";
    if std::process::Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        let path = outlive.dir.path().join("server.py");
        std::fs::write(&path, server).unwrap();
        let id = outlive.shell(&format!("sh -c 'python3 {}; :'; :", path.display()));
        let listening = wait(&outlive, &id, json!({ "for": "port", "timeoutMs": 60_000 }));
        assert_eq!(listening["outcome"], "listening", "{listening}");
        let port = outlive.wait_output(&id, "port (\\d+)\n")["groups"][0].as_str().unwrap().parse::<u16>().unwrap();
        assert_eq!(listening["port"], port);
        assert!(proc::is_alive(listening["pid"].as_i64().unwrap() as i32));
        let answered = wait(&outlive, &id, json!({ "for": "http", "port": port, "path": "/ok", "timeoutMs": 60_000 }));
        assert_eq!(
            (&answered["outcome"], &answered["httpStatus"]),
            (&json!("answered"), &json!(200)),
            "503 is no answer"
        );
        let exact = wait(
            &outlive,
            &id,
            json!({ "for": "http", "port": port, "path": "/no", "status": 404, "timeoutMs": 60_000 }),
        );
        assert_eq!(exact["httpStatus"], 404);
        let ports = &outlive.get(&format!("/v1/processes/{id}/tree")).json["listeningPorts"];
        assert_eq!(ports[0]["port"], port, "{ports}");
        // A port of somebody else is none of the tree.
        let other = outlive.shell("cat");
        let foreign = wait(&outlive, &other, json!({ "for": "port", "port": port, "timeoutMs": 200 }));
        assert_eq!(foreign["outcome"], "timedOut");
    } else {
        eprintln!("skipped in part: no python3 to listen on a port");
    }
    let brief = outlive.shell("exit 3");
    let over = wait(&outlive, &brief, json!({ "for": "port", "timeoutMs": 60_000 }));
    assert_eq!((&over["outcome"], &over["process"]["exitCode"]), (&json!("exited"), &json!(3)));
}

// ---- what a child is given ----

#[test]
fn a_child_gets_the_environment_that_was_asked_for() {
    let environment = vec![
        ("KEPT".to_owned(), "1".to_owned()),
        ("DROPPED".to_owned(), "1".to_owned()),
        ("OUTLIVE_SECRET".to_owned(), "s".to_owned()),
    ];
    let outlive = Outlive::with(Setup { environment, ..Setup::default() });
    let id = outlive.start_process(json!({ "command": "env", "env": { "ADDED": "x=y", "DROPPED": null } }));
    outlive.wait_exit(&id);
    let all = printed(&outlive, &id);
    let all: Vec<&str> = all.lines().collect();
    for expected in ["KEPT=1", "ADDED=x=y", "TERM=xterm-256color", &format!("OUTLIVE_PROCESS_ID={id}")] {
        assert!(all.contains(&expected), "{expected} in {all:?}");
    }
    assert!(!all.iter().any(|line| line.starts_with("DROPPED=") || line.contains("SECRET")), "{all:?}");
}

#[test]
fn a_child_can_be_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can switch users");
        return;
    }
    let outlive = Outlive::start();
    let ask = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; test -w /root && echo root; touch /proc/$$/comm && echo own";
    for (user, ids) in [("4242", "4242\n4242\n4242\n"), ("4242:77", "4242\n77\n77\n")] {
        let id = outlive.start_process(json!({ "command": ask, "shell": true, "user": user, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(printed(&outlive, &id).replace("own\n", ""), format!("{ids}/ 4242 4242 /bin/sh\n"), "{user}");
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<&str> = passwd
        .lines()
        .find(|line| line.starts_with("nobody:"))
        .map(|line| line.split(':').collect())
        .unwrap_or_default();
    if let [name, _, uid, gid, _, home, shell, ..] = nobody[..] {
        let id = outlive.start_process(json!({ "command": "id -u; id -g; echo $HOME $USER $LOGNAME $SHELL", "shell": true, "user": name, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(printed(&outlive, &id), format!("{uid}\n{gid}\n{home} {name} {name} {shell}\n"));
    }
    // A terminal belongs to its user, who can open it again by name.
    let id = outlive.start_process(
        json!({ "command": "echo again >$(tty)", "shell": true, "user": "4242", "tty": true, "cwd": "/" }),
    );
    outlive.wait_exit(&id);
    assert_eq!(printed(&outlive, &id), "again\r\n");
}

#[test]
fn a_child_gets_the_limits_that_were_asked_for() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "args": ["/proc/self/limits"],
        "limits": { "openFiles": 77, "cpuSeconds": 55, "fileBytes": 1024 * 512, "coreBytes": 0, "addressSpaceBytes": 1_u64 << 32 },
    }));
    outlive.wait_exit(&id);
    let all = printed(&outlive, &id);
    for (name, value) in [
        ("Max open files", "77"),
        ("Max cpu time", "55"),
        ("Max file size", "524288"),
        ("Max core file size", "0"),
        ("Max address space", "4294967296"),
    ] {
        let line = all.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {all}"));
        let values: Vec<&str> = line.split_whitespace().take(2).collect();
        assert_eq!(values, [value, value], "soft and hard of {name}: {all}");
    }
    let refused = outlive.post(
        "/v1/processes/run",
        &json!({ "command": "cat", "args": ["/proc/self/status"], "noNewPrivileges": true }),
    );
    assert!(refused.json["stdout"].as_str().unwrap().contains("NoNewPrivs:\t1"), "{}", refused.text());
}

#[test]
fn a_child_inherits_nothing_of_ours() {
    let outlive = Outlive::start();
    // Others are there whose descriptors could leak.
    for _ in 0..3 {
        outlive.start_process(json!({ "command": "cat", "tty": true }));
        outlive.shell("cat");
    }
    let mine = std::process::Command::new("sh")
        .args(["-c", "umask; ulimit -n; cat /proc/self/oom_score_adj"])
        .output()
        .unwrap();
    for tty in [false, true] {
        let look = "ls -l /proc/self/fd | grep -v total | sed 's/.* \\([0-9]*\\) -> /\\1 /'; cat /proc/self/status; echo; umask; ulimit -n; cat /proc/self/oom_score_adj";
        let id = outlive.start_process(json!({ "command": look, "shell": true, "tty": tty }));
        outlive.wait_exit(&id);
        let all = printed(&outlive, &id).replace('\r', "");
        let (descriptors, rest): (Vec<&str>, Vec<&str>) =
            all.lines().partition(|line| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(' '));
        for line in &descriptors {
            let (number, target) = line.split_once(' ').unwrap();
            let expected = match number {
                // What `ls` prints goes through `sed`.
                "0" | "2" if tty => target.starts_with("/dev/pts/"),
                "0" | "1" | "2" => target.starts_with("pipe:"),
                // `ls` itself reads the folder.
                _ => target.starts_with("/proc/"),
            };
            assert!(expected, "a leaked descriptor: {line}\n{all}");
        }
        assert_eq!(descriptors.len(), 4, "{all}");
        for name in ["SigBlk", "SigIgn", "SigCgt"] {
            let line = rest.iter().find(|line| line.starts_with(name)).unwrap();
            let bits = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
            assert_eq!(bits, 0, "{line}");
        }
        let tail: Vec<&str> = rest.into_iter().skip_while(|line| !line.is_empty()).skip(1).collect();
        assert_eq!(
            tail,
            std::str::from_utf8(&mine.stdout).unwrap().lines().collect::<Vec<_>>(),
            "umask, open files and OOM score are as outside"
        );
    }
}

#[test]
fn input_arrives_and_eof_can_be_sent() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat; echo end");
    let input = |body: Value| outlive.post(&format!("/v1/processes/{id}/input"), &body);
    assert_eq!(input(json!({ "data": "YWI=" })).json, json!({ "bytesWritten": 2 }));
    assert_eq!(input(json!({ "data": "ü\n", "encoding": "text" })).json, json!({ "bytesWritten": 3 }));
    assert_eq!(input(json!({ "data": "" })).json, json!({ "bytesWritten": 0 }));
    assert_eq!(post(&outlive, &id, "stdin/close").status, 200);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    assert_eq!(printed(&outlive, &id), "abü\nend\n");
    assert!(outlive.info(&id)["lastInputAtMs"].is_u64());
}

#[test]
fn a_program_that_never_reads_delays_nobody_but_its_writer() {
    let outlive = Outlive::start();
    set_config(&outlive, "/v1/config", json!({ "inputTimeoutMs": 2_000 }));
    let id = outlive.start_process(json!({ "command": "sleep", "args": ["1000"] }));
    std::thread::scope(|scope| {
        let input = || {
            outlive
                .post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_536), "encoding": "utf8" }))
        };
        assert_eq!(input().status, 200, "the kernel takes the first");
        let writer = scope.spawn(input);
        // While it waits, everything else goes on.
        assert_eq!(outlive.info(&id)["status"], "running");
        assert_eq!(listed(&outlive, "").len(), 1);
        let answer = writer.join().unwrap();
        assert_eq!((answer.status, answer.code()), (409, "input_not_read"), "{}", answer.text());
        let writer = scope.spawn(input);
        assert_eq!(post(&outlive, &id, "kill?waitMs=30000").json["status"], "exited");
        assert_eq!(writer.join().unwrap().status, 409, "a pending write ends with the process");
    });
}

#[test]
fn output_after_the_exit_is_not_forgotten() {
    let outlive = Outlive::start();
    let go = outlive.dir.path().join("go");
    let id = outlive.shell(&format!("echo a; (until [ -e {} ]; do sleep 0.01; done; echo b) &", go.display()));
    outlive.wait_exit(&id);
    std::fs::write(&go, "").unwrap();
    eventually("the late line", || (outlive.info(&id)["outputEnd"] == 4).then_some(()));
    assert_eq!(outlive.output(&id), b"a\nb\n");
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/output?from=2")).body, b"b\n");
    let mut socket = harness::socket::Socket::connect(outlive.http(), &id, "from=0&framing=raw", false);
    assert_eq!(socket.read_to_exit().0, b"a\nb\n");
}

#[test]
fn a_costly_pattern_stops_nobody_else() {
    let outlive = Outlive::start();
    let line = "i=0; while [ $i -lt 3000 ]; do printf abbabaabab%.0s 1 2 3 4 5 6 7 8 9 10; i=$((i+1)); done; sleep 300";
    let id = outlive.shell(line);
    eventually("the text is there", || (outlive.info(&id)["outputEnd"].as_u64() >= Some(300_000)).then_some(()));
    std::thread::scope(|scope| {
        let searches: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let body = json!({ "for": "output", "pattern": "(?-u)[ab]*a[ab]{200}[^ab]", "timeoutMs": 500 });
                    outlive.post(&format!("/v1/processes/{id}/wait"), &body)
                })
            })
            .collect();
        while searches.iter().any(|search| !search.is_finished()) {
            assert_eq!(outlive.get("/v1/health").status, 200);
        }
        for search in searches {
            assert_eq!(search.join().unwrap().json["outcome"], "timedOut");
        }
    });
}

#[test]
fn a_match_in_one_stream_has_its_place_in_the_whole_log() {
    let outlive = Outlive::start();
    let id = outlive.shell("for i in 1 2 3; do echo out$i; sleep 0.02; echo ERR >&2; sleep 0.02; done; echo TARGET");
    outlive.wait_exit(&id);
    let find = |stream: &str| {
        let body = json!({ "for": "output", "pattern": "TARGET", "stream": stream, "from": 0 });
        outlive.post(&format!("/v1/processes/{id}/wait"), &body).json
    };
    assert_eq!(find("stdout")["offset"], find("combined")["offset"]);
    assert_eq!(find("stdout")["offset"], 27);
}

#[test]
fn a_run_that_may_be_detached_is_found_again_after_a_death() {
    let outlive = Outlive::start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = json!({ "command": "sleep", "args": ["313"], "onTimeout": "detach", "timeoutMs": 60_000 });
            let headers = [("content-type", "application/json")];
            let _ = outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(body.to_string().as_bytes()));
        });
        eventually("it runs", || {
            outlive.get("/v1/processes?all=true").json["processes"]
                .get(0)
                .filter(|one| one["status"] == "running")
                .cloned()
        });
        outlive.kill_server();
    });
    let list = outlive.get("/v1/processes").json["processes"].clone();
    assert_eq!(list[0]["status"], "running", "{list}");
}
