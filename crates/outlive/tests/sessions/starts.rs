//! Managed processes from a session.

use serde_json::json;

use crate::harness::{eventually, proc};
use crate::shells::{Session, Shell, outlive};

#[test]
fn a_process_takes_functions_arrays_and_status_along() {
    let outlive = outlive();
    for shell in [Shell::Bash, Shell::Zsh].into_iter().filter(|shell| shell.is_installed()) {
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
