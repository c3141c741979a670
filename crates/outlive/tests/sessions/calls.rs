//! The calls themselves: refusals, streams, offsets, keys, bounds.

use serde_json::json;

use crate::harness::http::Events;
use crate::harness::{Outlive, Setup, eventually};
use crate::shells::{ALL, Session, Shell, outlive, quick};

#[test]
fn bad_requests_get_clear_answers() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let create = |body| outlive.post("/v1/sessions", &body);
    for (body, status, code) in [
        (json!({ "id": "../x" }), 400, "invalid_value"),
        (json!({ "id": "" }), 400, "invalid_value"),
        (json!({ "cwd": "/nonexistent" }), 400, "cwd_not_found"),
        (json!({ "shell": "/nonexistent/sh" }), 400, "shell_not_found"),
        (json!({ "shell": "/bin/cat" }), 400, "invalid_value"),
        (json!({ "user": "nobody-at-all" }), 400, "user_unknown"),
        (json!({ "onExit": "maybe" }), 422, "invalid_body"),
        (json!({ "commandTimeoutMs": 0 }), 400, "invalid_value"),
        (json!({ "nonsense": 1 }), 422, "invalid_body"),
    ] {
        let answer = create(body.clone());
        assert_eq!((answer.status, answer.code()), (status, code), "{body}: {}", answer.text());
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
        let answer = session.call(body.clone(), "echo hi");
        assert_eq!((answer.status, answer.code()), (status, code), "{body}: {}", answer.text());
    }
    assert_eq!(session.call(json!({}), "a\u{0}b").status, 400);
    assert_eq!(outlive.post("/v1/sessions/none/exec", &json!({ "command": "x" })).status, 404);
    assert_eq!(outlive.get(&session.path("/execs/none")).status, 404);
    assert_eq!(session.cancel("none").status, 404);
    assert_eq!(session.out("echo fine"), "fine\n");
}

#[test]
fn two_who_make_one_id_get_one_shell() {
    let outlive = outlive();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let tries: Vec<_> =
            (0..8).map(|_| scope.spawn(|| outlive.post("/v1/sessions", &json!({ "id": "one" })))).collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((answer.status, answer.code()), (409, "session_exists"), "{}", answer.text());
        assert_eq!(answer.json["details"]["session"]["id"], "one");
    }
}

#[test]
fn a_streamed_command_tells_as_it_goes() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let body = json!({ "command": "echo one; echo two >&2; read x; printf '\\377'", "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", &session.path("/exec"), &headers, Some(body.as_bytes())).unwrap();
    let mut events = Events::new(open);
    let start = events.next().unwrap();
    assert_eq!(start.name, "start");
    let (mut stdout, mut stderr, mut next) = (Vec::new(), Vec::new(), 0);
    let end = loop {
        let event = events.next().unwrap();
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "stdout" | "stderr" => {
                assert_eq!(data["offset"], next, "offsets are those of the record");
                next = event.id.parse().unwrap();
                let piece = data["data"].as_str().unwrap().to_owned();
                let to = if event.name == "stdout" { &mut stdout } else { &mut stderr };
                to.push((piece, data["encoding"].as_str() == Some("base64")));
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
fn the_same_key_is_the_same_command() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    let keyed = |command: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
        let body = json!({ "command": command }).to_string();
        outlive.http().send("POST", &session.path("/exec"), &headers, Some(body.as_bytes()))
    };
    let (first, again) = (keyed("N=$((N+1)); echo $N"), keyed("N=$((N+1)); echo $N"));
    assert_eq!(first.json["execId"], again.json["execId"]);
    assert_eq!(again.json["stdout"], "1\n");
    assert_eq!(keyed("something else").code(), "idempotency_key_reused");
    assert_eq!(session.out("echo $N"), "1\n");
}

#[test]
fn queue_and_sessions_are_bounded() {
    let mut setup = quick();
    for limit in ["maxSessions=2", "maxQueuedExecs=2", "maxExecsPerSession=5"] {
        setup.arguments.extend(["--limit".into(), limit.into()]);
    }
    let outlive = Outlive::with(Setup { ..setup });
    let session = Session::new(&outlive, Shell::Bash);
    let running = session.begin("sleep 30");
    eventually("it runs", || (session.info()["running"] == running.as_str()).then_some(()));
    let (one, _) = (session.begin("echo one"), session.begin("echo two"));
    let refused = session.call(json!({ "detach": true }), "echo three");
    assert_eq!((refused.status, refused.code()), (429, "session_busy"), "{}", refused.text());
    session.cancel(&running);
    assert_eq!(session.result(&one)["stdout"], "one\n");
    let late = session.begin("sleep 1");
    let waits = session.call(json!({ "queueTimeoutMs": 100 }), "echo never");
    assert_eq!((waits.status, waits.code()), (409, "queue_timeout"), "{}", waits.text());
    session.result(&late);
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
        "shells and sinks are not processes"
    );
}

#[test]
fn two_retries_at_once_ran_a_command_twice() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    let ask = || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "one")];
        // The stdin is written to the disk before the command is in the queue, where the other one overtakes.
        let body = json!({ "command": "N=$((N+1))", "stdin": "x".repeat(1 << 20) }).to_string();
        outlive.http().send("POST", &session.path("/exec"), &headers, Some(body.as_bytes()))
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for one in all {
            assert_eq!(one.join().unwrap().status, 200);
        }
    });
    assert_eq!(session.out("echo $N"), "1\n");
}

#[test]
fn a_streamed_command_that_waited_could_not_be_cancelled() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let running = session.begin("sleep 1000");
    let body = json!({ "command": "echo never", "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", &session.path("/exec"), &headers, Some(body.as_bytes())).unwrap();
    let mut events = Events::new(open);
    let start: serde_json::Value = serde_json::from_str(&events.next().unwrap().data).unwrap();
    assert_eq!(session.cancel(start["execId"].as_str().unwrap()).json["status"], "refused");
    let end = events.next().unwrap();
    assert_eq!(end.name, "error");
    assert!(end.data.contains("\"cancelled\""), "{}", end.data);
    session.cancel(&running);
}

#[test]
fn a_variable_that_cannot_be_changed_was_left_as_it_is() {
    let outlive = outlive();
    for shell in ALL {
        let session = Session::new(&outlive, shell);
        session.exec("readonly R=1; A=old; Z=old");
        for value in [json!("2"), json!(null)] {
            let result = session.exec_with(json!({ "env": { "A": "new", "R": value, "Z": "new" } }), "echo ran");
            let seen = (&result["exitCode"], &result["stdout"], &result["stderr"]);
            assert_eq!(seen, (&json!(1), &json!(""), &json!("outlive: cannot change R\n")), "{shell:?}: {result}");
        }
        assert_eq!(session.out("echo $A $R $Z; sh -c 'echo ${A-none}'"), "old 1 old\nnone\n", "{shell:?}");
    }
}
