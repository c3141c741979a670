//! The exit policies of a session, and its defaults.

use serde_json::json;

use crate::shells::{ALL_SHELLS, Session, Shell, start_outlive};

#[test]
fn fail_refuses_commands_after_the_exit() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("exit 3");
    let info = session.info();
    assert_eq!((&info["status"], &info["exitCode"], &info["generation"]), (&json!("exited"), &json!(3), &json!(1)));
    let refused = session.try_exec(json!({}), "echo hi");
    assert_eq!((refused.status, refused.code()), (410, "session_exited"), "{}", refused.text());
    assert_eq!(session.delete().status, 204);
}

#[test]
fn fresh_starts_a_new_shell() {
    let outlive = start_outlive();
    let spec = json!({ "shell": "bash", "onExit": "fresh", "cwd": "/usr", "env": { "FROM": "start" } });
    let session = Session::with_spec(&outlive, spec);
    session.exec("X=1; cd /; FROM=changed");
    let killed = session.exec("kill -9 $$");
    assert_eq!((&killed["exitCode"], &killed["signal"]), (&json!(137), &json!("SIGKILL")));
    let next = session.exec("echo ${X-unset} $FROM; pwd");
    assert_eq!((&next["stdout"], &next["generation"]), (&json!("unset start\n/usr\n"), &json!(2)));
}

#[test]
fn restore_starts_a_new_shell_with_the_last_state() {
    let outlive = start_outlive();
    for shell in ALL_SHELLS {
        let session = Session::with_spec(&outlive, json!({ "shell": shell.name(), "onExit": "restore" }));
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
            assert_eq!(session.exec_stdout("f x; echo \"${L[@]}\""), "f:x\na b c\n", "{shell:?}");
        }
        session.exec("B=later; kill -9 $$");
        assert_eq!(session.exec_stdout("echo \"$E ${B-unset}\""), "it's unset\n", "{shell:?}: after a kill too");
    }
}

#[test]
fn a_session_has_its_own_time_limit_and_environment() {
    let outlive = start_outlive();
    let env = json!({ "PATH_TOO": "x", "HOME": null });
    let session = Session::with_spec(&outlive, json!({ "shell": "bash", "commandTimeoutMs": 300, "env": env }));
    assert_eq!(session.exec("sleep 30")["timedOut"], true);
    assert_eq!(session.exec_with(json!({ "timeoutMs": 20_000 }), "sleep 0.5")["timedOut"], false);
    assert_eq!(session.exec_stdout("echo ${HOME-unset} $PATH_TOO"), "unset x\n");
}

#[test]
fn startup_files_are_not_read() {
    let outlive = start_outlive();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rc");
    std::fs::write(&file, "LEAKED=yes\n").unwrap();
    for shell in ALL_SHELLS {
        let env = json!({ "ENV": file, "BASH_ENV": file });
        let session = Session::with_spec(&outlive, json!({ "shell": shell.name(), "env": env }));
        let expected = format!("no {}\n", file.display());
        assert_eq!(session.exec_stdout("echo ${LEAKED-no} $ENV"), expected, "{shell:?}");
    }
}
