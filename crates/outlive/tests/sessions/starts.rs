//! Managed processes from a session.

use serde_json::json;

use crate::harness::{eventually, proc};
use crate::shells::{ALL, Session, Shell, outlive};

#[test]
fn a_process_takes_functions_arrays_and_status_along() {
    let outlive = outlive();
    for shell in [Shell::Bash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        session.exec("f() { echo \"f:$1:$V\"; }; V='un exported'; L=(a 'b c'); (exit 3)");
        let answer = outlive
            .post(&session.path("/processes"), &json!({ "command": "f x; echo \"${#L[@]}\"", "source": "agent" }));
        assert_eq!((answer.status, &answer.json["source"]), (200, &json!("agent")), "{}", answer.text());
        let id = answer.json["id"].as_str().unwrap().to_owned();
        outlive.wait_exit(&id);
        assert_eq!(String::from_utf8(outlive.output(&id)).unwrap(), "f:x:un exported\n2\n", "{shell:?}");
        assert_eq!(session.out("echo $?"), "3\n", "{shell:?}: what we do in between does not count");
    }
}

#[test]
fn a_process_outlives_its_session_unless_it_says_otherwise() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let start = |body| {
        let answer = outlive.post(&session.path("/processes"), &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        (answer.json["id"].as_str().unwrap().to_owned(), answer.json["pid"].as_i64().unwrap() as i32)
    };
    let (stays, pid) = start(json!({ "command": "echo up; cat", "tag": "stays" }));
    let (_, goes) = start(json!({ "command": "sleep 1000", "killWithSession": true }));
    outlive.wait_output(&stays, "up");
    assert_eq!(session.delete().status, 204);
    assert!(proc::is_alive(pid));
    eventually("the other one ends", || (!proc::is_alive(goes)).then_some(()));
    outlive.post(&format!("/v1/processes/{stays}/input"), &json!({ "data": "typed\n", "encoding": "utf8" }));
    outlive.wait_output(&stays, "typed");
}

#[test]
fn a_process_starts_in_a_folder_that_is_gone() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let result = session.exec("cd \"$(mktemp -d)\" && rmdir \"$PWD\"");
    assert_eq!(result["cwdDeleted"], true, "{result}");
    let answer = outlive.post(&session.path("/processes"), &json!({ "command": "readlink /proc/$$/cwd" }));
    let id = answer.json["id"].as_str().unwrap();
    outlive.wait_exit(id);
    assert!(String::from_utf8(outlive.output(id)).unwrap().ends_with(" (deleted)\n"));
}

#[test]
fn a_process_could_not_begin_when_its_session_ended_at_once() {
    let outlive = outlive();
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

#[test]
fn a_long_command_was_refused() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    let command = format!("echo begin; : '{}'; echo end", "\u{e9}".repeat(10_000));
    let answer = outlive.post(&session.path("/processes"), &json!({ "command": command }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json["id"].as_str().unwrap();
    outlive.wait_exit(id);
    assert_eq!(outlive.output(id), b"begin\nend\n");
}

#[test]
fn a_retried_start_was_a_conflict() {
    let outlive = outlive();
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

#[test]
fn the_environment_of_a_start_lost_against_the_session() {
    let outlive = outlive();
    for shell in ALL {
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
