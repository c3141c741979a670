//! The HTTP API of sessions: refusals, streams, offsets, idempotency keys and limits.

use serde_json::json;

use crate::harness::http::EventStream;
use crate::harness::{Outlive, Setup, eventually};
use crate::shells::{ALL_SHELLS, Session, Shell, short_grace, start_outlive};

#[test]
fn bad_requests_are_refused_with_a_code() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let create = |body| outlive.post("/v1/sessions", &body);
    for (body, status, code) in [
        (json!({ "id": "../x" }), 400, "invalid_value"),
        (json!({ "id": "" }), 400, "invalid_value"),
        (json!({ "cwd": "/nonexistent" }), 400, "cwd_not_found"),
        (json!({ "shell": "/nonexistent/sh" }), 400, "shell_not_found"),
        (json!({ "shell": "/bin/cat" }), 400, "invalid_value"),
        (json!({ "user": "no-such-user" }), 400, "user_unknown"),
        (json!({ "onExit": "maybe" }), 422, "invalid_body"),
        (json!({ "commandTimeoutMs": 0 }), 400, "invalid_value"),
        (json!({ "nonsense": 1 }), 422, "invalid_body"),
    ] {
        let response = create(body.clone());
        assert_eq!((response.status, response.code()), (status, code), "{body}: {}", response.text());
    }
    assert_eq!(
        outlive.get("/v1/sessions").json["sessions"].as_array().unwrap().len(),
        1,
        "refused ones are not listed"
    );
    for (body, status, code) in [
        (json!({ "env": { "1A": "x" } }), 400, "invalid_value"),
        (json!({ "env": { "A-B": "x" } }), 400, "invalid_value"),
        (json!({ "env": { "A": "\u{0}" } }), 400, "invalid_value"),
        (json!({ "cwd": "" }), 400, "invalid_value"),
        (json!({ "timeoutMs": 0 }), 400, "invalid_value"),
        (json!({ "encoding": "latin1" }), 400, "invalid_encoding"),
        (json!({ "nonsense": true }), 422, "invalid_body"),
    ] {
        let response = session.try_exec(body.clone(), "echo hi");
        assert_eq!((response.status, response.code()), (status, code), "{body}: {}", response.text());
    }
    assert_eq!(session.try_exec(json!({}), "a\u{0}b").status, 400);
    assert_eq!(outlive.post("/v1/sessions/none/exec", &json!({ "command": "x" })).status, 404);
    assert_eq!(outlive.get(&session.path("/execs/none")).status, 404);
    assert_eq!(session.cancel("none").status, 404);
    assert_eq!(session.exec_stdout("echo fine"), "fine\n");
}

#[test]
fn concurrent_creates_with_one_id_make_one_session() {
    let outlive = start_outlive();
    let responses: Vec<_> = std::thread::scope(|scope| {
        let requests: Vec<_> =
            (0..8).map(|_| scope.spawn(|| outlive.post("/v1/sessions", &json!({ "id": "one" })))).collect();
        requests.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1);
    for response in responses.iter().filter(|response| response.status != 200) {
        assert_eq!((response.status, response.code()), (409, "session_exists"), "{}", response.text());
        assert_eq!(response.json["details"]["session"]["id"], "one");
    }
}

#[test]
fn a_streamed_command_sends_output_as_it_runs() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let body = json!({ "command": "echo one; echo two >&2; read x; printf '\\377'", "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", &session.path("/exec"), &headers, Some(body.as_bytes())).unwrap();
    let mut events = EventStream::new(open);
    let start = events.next().unwrap();
    assert_eq!(start.name, "start");
    let (mut stdout, mut stderr, mut next) = (Vec::new(), Vec::new(), 0);
    let end = loop {
        let event = events.next().unwrap();
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "stdout" | "stderr" => {
                assert_eq!(data["offset"], next, "offsets match the recorded output");
                next = event.id.parse().unwrap();
                let piece = data["data"].as_str().unwrap().to_owned();
                let pieces = if event.name == "stdout" { &mut stdout } else { &mut stderr };
                pieces.push((piece, data["encoding"].as_str() == Some("base64")));
            }
            "end" => break data,
            other => panic!("{other}"),
        }
    };
    let text: String = stderr.into_iter().map(|(piece, _)| piece).collect();
    assert_eq!(text, "two\n");
    assert!(stdout.iter().any(|(piece, encoded)| *encoded && piece.ends_with('=')), "{stdout:?}");
    assert_eq!((&end["exitCode"], &end["outputEnd"]), (&json!(0), &json!(9)));
    let exec = end["execId"].as_str().unwrap();
    let rest = outlive.get(&session.path(&format!("/execs/{exec}/output?from=2&stream=stdout")));
    assert!(rest.body.ends_with(b"\xff"), "{:?}", rest.body);
    assert_eq!((rest.header("x-outlive-offset"), rest.header("x-outlive-head")), (Some("2"), Some("9")));
    assert_eq!(outlive.get(&session.path(&format!("/execs/{exec}/output?from=99"))).status, 400);
}

#[test]
fn an_idempotency_key_runs_a_command_once() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    let exec_keyed = |command: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
        let body = json!({ "command": command }).to_string();
        outlive.http().send("POST", &session.path("/exec"), &headers, Some(body.as_bytes()))
    };
    let (first, again) = (exec_keyed("N=$((N+1)); echo $N"), exec_keyed("N=$((N+1)); echo $N"));
    assert_eq!(first.json["execId"], again.json["execId"]);
    assert_eq!(again.json["stdout"], "1\n");
    assert_eq!(exec_keyed("something else").code(), "idempotency_key_reused");
    assert_eq!(session.exec_stdout("echo $N"), "1\n");
}

#[test]
fn queue_history_and_sessions_are_bounded() {
    let mut setup = short_grace();
    for limit in ["maxSessions=2", "maxQueuedExecs=2", "maxExecsPerSession=5"] {
        setup.arguments.extend(["--limit".into(), limit.into()]);
    }
    let outlive = Outlive::start_with(Setup { ..setup });
    let session = Session::new(&outlive, Shell::Bash);
    let running = session.exec_detached("sleep 30");
    eventually("the command runs", || (session.info()["running"] == running.as_str()).then_some(()));
    let (one, _) = (session.exec_detached("echo one"), session.exec_detached("echo two"));
    let refused = session.try_exec(json!({ "detach": true }), "echo three");
    assert_eq!((refused.status, refused.code()), (429, "session_busy"), "{}", refused.text());
    session.cancel(&running);
    assert_eq!(session.wait_result(&one)["stdout"], "one\n");
    let late = session.exec_detached("sleep 1");
    let timed_out = session.try_exec(json!({ "queueTimeoutMs": 100 }), "echo never");
    assert_eq!((timed_out.status, timed_out.code()), (409, "queue_timeout"), "{}", timed_out.text());
    session.wait_result(&late);
    for _ in 0..10 {
        session.exec("true");
    }
    let known = outlive.get(&session.path("/execs")).json["execs"].as_array().unwrap().len();
    assert!(known <= 6, "{known} commands are remembered");
    let _second = Session::new(&outlive, Shell::Bash);
    let third = outlive.post("/v1/sessions", &json!({}));
    assert_eq!((third.status, third.code()), (429, "session_limit"));
    assert_eq!(
        outlive.get("/v1/processes?all=true").json["processes"],
        json!([]),
        "shells and sinks are not listed as processes"
    );
}

// Regression: two retries at the same time ran the command twice.
#[test]
fn concurrent_retries_run_a_command_once() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    let retry = || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "one")];
        // The stdin is written to disk before the command is queued, which gives the other requests time to overtake.
        let body = json!({ "command": "N=$((N+1))", "stdin": "x".repeat(1 << 20) }).to_string();
        outlive.http().send("POST", &session.path("/exec"), &headers, Some(body.as_bytes()))
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(retry)).collect();
        for one in all {
            assert_eq!(one.join().unwrap().status, 200);
        }
    });
    assert_eq!(session.exec_stdout("echo $N"), "1\n");
}

// Regression: the cancel of a streamed command had no effect while it was queued.
#[test]
fn a_queued_streamed_command_can_be_cancelled() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let running = session.exec_detached("sleep 1000");
    let body = json!({ "command": "echo never", "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", &session.path("/exec"), &headers, Some(body.as_bytes())).unwrap();
    let mut events = EventStream::new(open);
    let start: serde_json::Value = serde_json::from_str(&events.next().unwrap().data).unwrap();
    assert_eq!(session.cancel(start["execId"].as_str().unwrap()).json["status"], "refused");
    let end = events.next().unwrap();
    assert_eq!(end.name, "error");
    assert!(end.data.contains("\"cancelled\""), "{}", end.data);
    session.cancel(&running);
}

// Regression: the command ran although one of its variables could not be set.
#[test]
fn a_readonly_variable_in_env_fails_the_command() {
    let outlive = start_outlive();
    for shell in ALL_SHELLS {
        let session = Session::new(&outlive, shell);
        session.exec("readonly R=1; A=old; Z=old");
        for value in [json!("2"), json!(null)] {
            let result = session.exec_with(json!({ "env": { "A": "new", "R": value, "Z": "new" } }), "echo ran");
            let outcome = (&result["exitCode"], &result["stdout"], &result["stderr"]);
            assert_eq!(outcome, (&json!(1), &json!(""), &json!("outlive: cannot change R\n")), "{shell:?}: {result}");
        }
        assert_eq!(session.exec_stdout("echo $A $R $Z; sh -c 'echo ${A-none}'"), "old 1 old\nnone\n", "{shell:?}");
    }
}
