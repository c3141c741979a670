//! Stopping a command when it is least convenient.

use serde_json::json;

use crate::harness::eventually;
use crate::shells::{Session, Shell, outlive};

#[test]
fn an_interrupt_before_its_command_cost_the_shell() {
    let outlive = outlive();
    // Not in busybox, which can lose an interrupt for good in a loop of builtins, without us too.
    for shell in [Shell::Bash, Shell::Dash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        session.exec("KEEP=kept");
        for _ in 0..10 {
            let exec = session.begin("while :; do :; done");
            let ended = session.cancel(&exec).json;
            assert_eq!(ended["shellExited"], false, "{shell:?}: {ended}");
        }
        assert_eq!(session.out("echo $KEEP"), "kept\n", "{shell:?}");
    }
}

#[test]
fn an_interrupt_between_fork_and_exec_let_the_rest_of_the_command_run() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    for _ in 0..40 {
        let running = session.begin("echo up; sleep 1000; N=$((N+1))");
        let path = session.path(&format!("/execs/{running}"));
        eventually("it runs", || (outlive.get(&path).json["outputEnd"] == 3).then_some(()));
        assert_eq!(session.cancel(&running).json["exitCode"], 130);
    }
    assert_eq!(session.out("echo $N"), "0\n");
}

#[test]
fn a_shell_that_stopped_itself_is_woken_by_the_interrupt() {
    let outlive = outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("KEEP=kept");
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "kill -STOP $$; while :; do :; done");
    assert_eq!((&result["exitCode"], &result["shellExited"]), (&json!(124), &json!(false)), "{result}");
    assert_eq!(session.out("echo $KEEP"), "kept\n");
}

#[test]
fn functions_named_like_builtins_stood_in_our_way() {
    let outlive = outlive();
    for shell in [Shell::Bash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        for name in ["printf", "export", "unset", "eval", "typeset", "cd", "set", "exec"] {
            session.exec(&format!("function {name} {{ echo hacked; }}"));
        }
        session.exec("A=old");
        let body = json!({ "env": { "A": "new", "B": null }, "cwd": "/usr" });
        assert_eq!(session.exec_with(body, "echo $A; pwd")["stdout"], "new\n/usr\n", "{shell:?}");
        assert!(!session.out("echo $A; pwd").starts_with("new"), "{shell:?}");
    }
}

#[test]
fn a_deleted_session_was_given_a_fresh_shell() {
    let outlive = outlive();
    for _ in 0..10 {
        let session = Session::with(&outlive, json!({ "shell": "bash", "onExit": "fresh" }));
        session.exec("exit 3");
        session.begin("sleep 1000");
        assert_eq!(session.delete().status, 204);
    }
    assert_eq!(outlive.get("/v1/sessions").json["sessions"], json!([]));
}
