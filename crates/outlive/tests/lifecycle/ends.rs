//! How a process ends, and what is kept of it.

use serde_json::{Value, json};

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};
use crate::{listed, post, printed, set_config, wait};

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
    let mut events = crate::harness::http::Events::new(follower);
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
    let mut socket = crate::harness::socket::Socket::connect(outlive.http(), &id, "from=0&framing=raw", false);
    assert_eq!(socket.read_to_exit().0, b"a\nb\n");
}
