//! What comes after the end of a shell, and the defaults of a session.

use serde_json::json;

use crate::shells::{ALL, Session, Shell, outlive};

#[test]
fn fail_refuses_what_comes_after() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("exit 3");
    let info = session.info();
    assert_eq!((&info["status"], &info["exitCode"], &info["generation"]), (&json!("exited"), &json!(3), &json!(1)));
    let refused = session.call(json!({}), "echo hi");
    assert_eq!((refused.status, refused.code()), (410, "session_exited"), "{}", refused.text());
    assert_eq!(session.delete().status, 204);
}

#[test]
fn fresh_begins_anew() {
    let outlive = outlive();
    let spec = json!({ "shell": "bash", "onExit": "fresh", "cwd": "/usr", "env": { "FROM": "start" } });
    let session = Session::with(&outlive, spec);
    session.exec("X=1; cd /; FROM=changed");
    let killed = session.exec("kill -9 $$");
    assert_eq!((&killed["exitCode"], &killed["signal"]), (&json!(137), &json!("SIGKILL")));
    let next = session.exec("echo ${X-unset} $FROM; pwd");
    assert_eq!((&next["stdout"], &next["generation"]), (&json!("unset start\n/usr\n"), &json!(2)));
}

#[test]
fn restore_brings_the_state_back() {
    let outlive = outlive();
    for shell in ALL {
        let session = Session::with(&outlive, json!({ "shell": shell.name(), "onExit": "restore" }));
        session.exec("A='two\nlines'; export E='it'\\''s'; alias greet='echo hello'; umask 027; cd /usr");
        let has_functions = matches!(shell, Shell::Bash | Shell::Zsh);
        if has_functions {
            session.exec("f() { echo \"f:$1\"; }; L=(a 'b c')");
        }
        session.exec("set -e");
        let ended = session.exec("false");
        assert_eq!((&ended["exitCode"], &ended["shellExited"]), (&json!(1), &json!(true)), "{shell:?}");
        let next = session.exec(
            "printf '%s|%s|' \"$A\" \"$E\"; sh -c 'echo $E'; greet; umask; pwd; case $- in *e*) echo errexit;; esac",
        );
        let umask = if shell == Shell::Zsh { "027" } else { "0027" };
        let expected = format!("two\nlines|it's|it's\nhello\n{umask}\n/usr\n");
        assert_eq!((&next["stdout"], &next["generation"]), (&json!(expected), &json!(2)), "{shell:?}: {next}");
        if has_functions {
            assert_eq!(session.out("f x; echo \"${L[@]}\""), "f:x\na b c\n", "{shell:?}");
        }
        session.exec("B=later; kill -9 $$");
        assert_eq!(session.out("echo \"$E ${B-unset}\""), "it's unset\n", "{shell:?}: also after a kill");
    }
}

#[test]
fn a_session_has_its_own_defaults() {
    let outlive = outlive();
    let env = json!({ "PATH_TOO": "x", "HOME": null });
    let session = Session::with(&outlive, json!({ "shell": "bash", "commandTimeoutMs": 300, "env": env }));
    assert_eq!(session.exec("sleep 30")["timedOut"], true);
    assert_eq!(session.exec_with(json!({ "timeoutMs": 20_000 }), "sleep 0.5")["timedOut"], false);
    assert_eq!(session.out("echo ${HOME-unset} $PATH_TOO"), "unset x\n");
}

#[test]
fn files_that_shells_read_at_their_start_are_not_read() {
    let outlive = outlive();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rc");
    std::fs::write(&file, "LEAKED=yes\n").unwrap();
    for shell in ALL {
        let env = json!({ "ENV": file, "BASH_ENV": file });
        let session = Session::with(&outlive, json!({ "shell": shell.name(), "env": env }));
        let expected = format!("no {}\n", file.display());
        assert_eq!(session.out("echo ${LEAKED-no} $ENV"), expected, "{shell:?}");
    }
}
