//! Cancels at inconvenient moments.

use serde_json::json;

use crate::harness::eventually;
use crate::shells::{Session, Shell, start_outlive};

// Regression: an interrupt that arrived before its command ended the shell.
#[test]
fn an_early_interrupt_does_not_end_the_shell() {
    let outlive = start_outlive();
    // busybox is left out: it can lose an interrupt in a loop of builtins, without outlive too.
    for shell in [Shell::Bash, Shell::Dash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        session.exec("KEEP=kept");
        for _ in 0..10 {
            let exec = session.exec_detached("while :; do :; done");
            let ended = session.cancel(&exec).json;
            assert_eq!(ended["shellExited"], false, "{shell:?}: {ended}");
        }
        assert_eq!(session.exec_stdout("echo $KEEP"), "kept\n", "{shell:?}");
    }
}

// Regression: the rest of the command ran after such an interrupt.
#[test]
fn an_interrupt_between_fork_and_exec_ends_the_whole_command() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("N=0");
    for _ in 0..40 {
        let running = session.exec_detached("echo up; sleep 1000; N=$((N+1))");
        let path = session.path(&format!("/execs/{running}"));
        eventually("the command runs", || (outlive.get(&path).json["outputEnd"] == 3).then_some(()));
        assert_eq!(session.cancel(&running).json["exitCode"], 130);
    }
    assert_eq!(session.exec_stdout("echo $N"), "0\n");
}

#[test]
fn an_interrupt_continues_a_stopped_shell() {
    let outlive = start_outlive();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec("KEEP=kept");
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "kill -STOP $$; while :; do :; done");
    assert_eq!((&result["exitCode"], &result["shellExited"]), (&json!(124), &json!(false)), "{result}");
    assert_eq!(session.exec_stdout("echo $KEEP"), "kept\n");
}

// Regression: outlive's own commands called the user's functions instead of the builtins.
#[test]
fn functions_named_like_builtins_do_not_break_the_session() {
    let outlive = start_outlive();
    for shell in [Shell::Bash, Shell::Zsh] {
        let session = Session::new(&outlive, shell);
        for name in ["printf", "export", "unset", "eval", "typeset", "cd", "set", "exec"] {
            session.exec(&format!("function {name} {{ echo hacked; }}"));
        }
        session.exec("A=old");
        let body = json!({ "env": { "A": "new", "B": null }, "cwd": "/usr" });
        assert_eq!(session.exec_with(body, "echo $A; pwd")["stdout"], "new\n/usr\n", "{shell:?}");
        assert!(!session.exec_stdout("echo $A; pwd").starts_with("new"), "{shell:?}");
    }
}

// Regression: a session that was deleted while its shell exited got a fresh shell.
#[test]
fn a_deleted_session_gets_no_fresh_shell() {
    let outlive = start_outlive();
    for _ in 0..10 {
        let session = Session::with_spec(&outlive, json!({ "shell": "bash", "onExit": "fresh" }));
        session.exec("exit 3");
        session.exec_detached("sleep 1000");
        assert_eq!(session.delete().status, 204);
    }
    assert_eq!(outlive.get("/v1/sessions").json["sessions"], json!([]));
}
