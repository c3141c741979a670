//! Time limits, stops, signals, deletion, and the retention of exited processes.

use serde_json::{Value, json};

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};
use crate::{list_processes, output_text, post, set_config, wait};

#[test]
fn a_time_limit_kills_the_process() {
    let outlive = Outlive::start();
    let id = outlive
        .start_process(json!({ "command": "trap '' TERM; echo up; sleep 1000", "shell": true, "timeoutMs": 300 }));
    let info = outlive.wait_exit(&id);
    assert_eq!((&info["exitReason"], &info["signal"]), (&json!("timedOut"), &json!("SIGKILL")));
    assert_eq!(info.get("exitCode"), None);
    assert_eq!(output_text(&outlive, &id), "up\n");
}

#[test]
fn kill_after_detach_ends_a_process_after_its_last_detach() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "cat", "tty": true, "killAfterDetachMs": 300 });
    let never_attached = outlive.start_process(spec.clone());
    let id = outlive.start_process(spec);
    let first = Socket::connect(outlive.http(), &id, "", false);
    let second = Socket::connect(outlive.http(), &id, "", false);
    first.disconnect();
    // The second client is still attached, so the process outlasts the limit.
    assert_eq!(wait(&outlive, &id, json!({ "timeoutMs": 900 }))["outcome"], "timedOut");
    second.disconnect();
    assert_eq!(outlive.wait_exit(&id)["exitReason"], "detached");
    assert_eq!(outlive.info(&never_attached)["status"], "running", "a process without any attachment keeps running");
}

#[test]
fn a_stop_sends_sigterm_and_then_sigkill() {
    let outlive = Outlive::start();
    let polite = outlive.start_shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&polite, "up");
    let response = post(&outlive, &polite, "stop?waitMs=30000");
    assert_eq!(
        (&response.json["status"], &response.json["exitCode"], &response.json["exitReason"]),
        (&json!("exited"), &json!(9), &json!("stopped"))
    );
    // On stderr the shell reports its child, which got the SIGTERM too.
    assert_eq!(outlive.get(&format!("/v1/processes/{polite}/output?stream=stdout")).body, b"up\nbye\n");
    let stubborn = outlive.start_shell("trap '' TERM; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&stubborn, "up");
    let response = post(&outlive, &stubborn, "stop?waitMs=0&graceMs=300");
    assert_eq!(
        (&response.json["status"], &response.json["stopRequested"]),
        (&json!("running"), &json!(true)),
        "{}",
        response.text()
    );
    let info = outlive.wait_exit(&stubborn);
    assert_eq!((&info["signal"], &info["exitReason"]), (&json!("SIGKILL"), &json!("stopped")));
    // Stopping or killing an exited process has no effect.
    for rest in ["stop", "kill"] {
        let response = post(&outlive, &stubborn, rest);
        assert_eq!((response.status, &response.json["exitReason"]), (200, &json!("stopped")));
    }
}

#[test]
fn signals_are_sent_by_name_and_number() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("trap 'echo one' USR1; trap 'echo two' USR2; echo up; while :; do sleep 0.02; done");
    outlive.wait_output(&id, "up");
    let mut expected = "up\n".to_owned();
    for (signal, word) in [(json!("SIGUSR1"), "one"), (json!("usr2"), "two"), (json!(10), "one"), (json!("12"), "two")]
    {
        let response = outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": signal }));
        assert_eq!(response.status, 200, "{}", response.text());
        expected.push_str(word);
        expected.push('\n');
        // On stderr the shell reports its child, which got the signal too.
        let body = json!({ "for": "output", "pattern": expected, "stream": "stdout", "timeoutMs": 60_000 });
        assert_eq!(wait(&outlive, &id, body)["outcome"], "matched");
    }
    outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": "KILL" }));
    let info = outlive.wait_exit(&id);
    assert_eq!((&info["signal"], &info["exitReason"]), (&json!("SIGKILL"), &json!("exited")));
}

#[test]
fn a_signal_to_the_foreground_job_reaches_neither_the_shell_nor_background_jobs() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "bash", "args": ["--norc", "--noprofile", "-i"], "tty": true }));
    let type_in = |text: &str| {
        let body = json!({ "data": text, "encoding": "utf8" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &body).status, 200);
    };
    let signal =
        |id: &str| outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": "INT", "foreground": true }));
    type_in("sleep 1000 & sh -c 'echo wai''ts; exec sleep 1000'\n");
    outlive.wait_output(&id, "waits");
    eventually("the job is interrupted", || {
        assert_eq!(signal(&id).status, 200);
        type_in("echo c''ode=$? jobs=$(jobs -p | wc -l)\n");
        let output = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
        output.contains("code=130 jobs=1").then_some(())
    });
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    assert_eq!(signal(&pipes).code(), "not_a_terminal");
}

#[test]
fn records_of_exited_processes_are_bounded() {
    let outlive = Outlive::start();
    let short = outlive.start_process(json!({ "command": "true", "retainMs": 0 }));
    eventually("the record is dropped", || {
        (outlive.get(&format!("/v1/processes/{short}")).status == 404).then_some(())
    });
    let kept = outlive.start_shell("true");
    outlive.wait_exit(&kept);
    let running = outlive.start_shell("cat");
    set_config(&outlive, "/v1/config", json!({ "maxExitedProcesses": 3 }));
    let mut last = Vec::new();
    for _ in 0..6 {
        let id = outlive.start_shell("echo x");
        outlive.wait_exit(&id);
        last.push(id);
    }
    eventually("only the newest are kept", || (list_processes(&outlive, "?status=exited").len() == 3).then_some(()));
    let ids: Vec<Value> = list_processes(&outlive, "").into_iter().map(|info| info["id"].clone()).collect();
    assert_eq!(ids, [&running, &last[3], &last[4], &last[5]].map(|id| json!(id)));
}

#[test]
fn delete_removes_exited_processes_and_refuses_running_ones() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat");
    let path = format!("/v1/processes/{id}");
    let refused = outlive.delete(&path);
    assert_eq!((refused.status, refused.code()), (409, "still_running"));
    assert_eq!(outlive.info(&id)["status"], "running");
    let follower = outlive.http().open("GET", &format!("{path}/logs?follow=true"), &[], None).unwrap();
    let mut socket = Socket::connect(outlive.http(), &id, "", true);
    post(&outlive, &id, "kill");
    outlive.wait_exit(&id);
    let response = outlive.delete(&path);
    assert_eq!((response.status, response.body.as_slice()), (204, b"".as_slice()));
    assert_eq!(outlive.get(&path).status, 404);
    assert_eq!(outlive.delete(&path).status, 404);
    // The streams of followers end.
    let mut events = crate::harness::http::EventStream::new(follower);
    while events.next().is_some() {}
    while !matches!(socket.next(), Frame::Closed(_)) {}
    let reserved = outlive.start_process(json!({ "command": "cat", "start": false }));
    assert_eq!(outlive.delete(&format!("/v1/processes/{reserved}")).status, 204);
    assert_eq!(list_processes(&outlive, "?all=true").len(), 0);
}

#[test]
fn a_delete_ends_pending_waits() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    outlive.post(&format!("/v1/processes/{id}/wait"), &json!({ "for": "output", "pattern": "never" }))
                })
            })
            .collect();
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
        for one in waiting {
            let response = one.join().unwrap();
            assert!(response.status == 404 || response.json["outcome"] == "exited", "{}", response.text());
        }
    });
}

#[test]
fn output_after_the_exit_is_recorded() {
    let outlive = Outlive::start();
    let gate = outlive.dir.path().join("gate");
    let id = outlive.start_shell(&format!("echo a; (until [ -e {} ]; do sleep 0.01; done; echo b) &", gate.display()));
    outlive.wait_exit(&id);
    std::fs::write(&gate, "").unwrap();
    eventually("the late line", || (outlive.info(&id)["outputEnd"] == 4).then_some(()));
    assert_eq!(outlive.output(&id), b"a\nb\n");
    assert_eq!(outlive.get(&format!("/v1/processes/{id}/output?from=2")).body, b"b\n");
    let mut socket = Socket::connect(outlive.http(), &id, "from=0&framing=raw", false);
    assert_eq!(socket.read_to_exit().0, b"a\nb\n");
}
