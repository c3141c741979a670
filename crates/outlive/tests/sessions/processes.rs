//! Processes that are started from a session, with a copy of its state.

use serde_json::json;

use crate::harness::{eventually, proc};
use crate::shells::{ALL_SHELLS, Session, Shell, start_outlive};

#[test]
fn a_process_inherits_functions_and_arrays() {
    let outlive = start_outlive();
    for shell in [Shell::Bash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        session.exec("f() { echo \"f:$1:$V\"; }; V='un exported'; L=(a 'b c'); (exit 3)");
        let response = outlive
            .post(&session.path("/processes"), &json!({ "command": "f x; echo \"${#L[@]}\"", "source": "agent" }));
        assert_eq!((response.status, &response.json["source"]), (200, &json!("agent")), "{}", response.text());
        let id = response.json["id"].as_str().unwrap().to_owned();
        outlive.wait_exit(&id);
        assert_eq!(String::from_utf8(outlive.output(&id)).unwrap(), "f:x:un exported\n2\n", "{shell:?}");
        assert_eq!(session.exec_stdout("echo $?"), "3\n", "{shell:?}: the start does not change the status");
    }
}

#[test]
fn a_process_survives_its_session_unless_killed_with_it() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let start = |body| {
        let response = outlive.post(&session.path("/processes"), &body);
        assert_eq!(response.status, 200, "{}", response.text());
        (response.json["id"].as_str().unwrap().to_owned(), response.json["pid"].as_i64().unwrap() as i32)
    };
    let (survivor, pid) = start(json!({ "command": "echo up; cat", "tag": "survivor" }));
    let (_, killed) = start(json!({ "command": "sleep 1000", "killWithSession": true }));
    outlive.wait_output(&survivor, "up");
    assert_eq!(session.delete().status, 204);
    assert!(proc::is_alive(pid));
    eventually("the other process is killed", || (!proc::is_alive(killed)).then_some(()));
    outlive.post(&format!("/v1/processes/{survivor}/input"), &json!({ "data": "typed\n", "encoding": "utf8" }));
    outlive.wait_output(&survivor, "typed");
}

#[test]
fn a_process_starts_in_a_deleted_directory() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let result = session.exec("cd \"$(mktemp -d)\" && rmdir \"$PWD\"");
    assert_eq!(result["cwdDeleted"], true, "{result}");
    let response = outlive.post(&session.path("/processes"), &json!({ "command": "readlink /proc/$$/cwd" }));
    let id = response.json["id"].as_str().unwrap();
    let info = outlive.wait_exit(id);
    let output = String::from_utf8(outlive.output(id)).unwrap();
    // The shell complains on stderr, before or after.
    assert!(output.lines().any(|line| line.ends_with(" (deleted)")), "{output:?} {info}");
}

// Regression: the process did not find its files when the session was deleted right after the start.
#[test]
fn a_process_starts_although_its_session_is_deleted_at_once() {
    let outlive = start_outlive();
    for _ in 0..10 {
        let session = Session::new(&outlive, Shell::Bash);
        session.exec("V=kept");
        let id = outlive.post(&session.path("/processes"), &json!({ "command": "echo $V" })).json["id"].clone();
        assert_eq!(session.delete().status, 204);
        let id = id.as_str().unwrap();
        outlive.wait_exit(id);
        assert_eq!(String::from_utf8(outlive.output(id)).unwrap(), "kept\n");
    }
}

// Regression: a long command was refused.
#[test]
fn a_long_command_is_accepted() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let command = format!("echo begin; : '{}'; echo end", "\u{e9}".repeat(10_000));
    let response = outlive.post(&session.path("/processes"), &json!({ "command": command }));
    assert_eq!(response.status, 200, "{}", response.text());
    let id = response.json["id"].as_str().unwrap();
    outlive.wait_exit(id);
    assert_eq!(outlive.output(id), b"begin\nend\n");
}

// Regression: the retry of a start was refused as a conflict.
#[test]
fn an_idempotency_key_starts_a_process_once() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let start = |command: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let body = json!({ "command": command }).to_string();
        outlive.http().send("POST", &session.path("/processes"), &headers, Some(body.as_bytes()))
    };
    let (first, again) = (start("sleep 1000"), start("sleep 1000"));
    assert_eq!((first.status, again.status), (200, 200), "{}", again.text());
    assert_eq!(first.json["id"], again.json["id"]);
    assert_eq!(start("sleep 1001").code(), "idempotency_key_reused");
}

// Regression: the variables of the session took precedence.
#[test]
fn the_environment_of_a_start_overrides_the_sessions() {
    let outlive = start_outlive();
    for shell in ALL_SHELLS {
        let session = Session::new(&outlive, shell);
        session.exec("export A=session B=session C=session");
        let body =
            json!({ "command": "echo $A ${B-unset} $C; sh -c 'echo $A'", "env": { "A": "it's mine", "B": null } });
        let id = outlive.post(&session.path("/processes"), &body).json["id"].as_str().unwrap().to_owned();
        outlive.wait_exit(&id);
        let out = String::from_utf8(outlive.output(&id)).unwrap();
        assert_eq!(out, "it's mine unset session\nit's mine\n", "{shell:?}");
    }
}
