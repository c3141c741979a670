//! `outlive session` as people and scripts use it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::harness::{Outlive, eventually};
use crate::shells::outlive;

fn session(outlive: &Outlive, words: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["--state-dir", outlive.state_dir().to_str().unwrap(), "session"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Exit code, stdout and stderr.
fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_session_from_the_command_line() {
    let outlive = outlive();
    let ask = |words: &[&str]| told(&session(&outlive, words, ""));
    assert_eq!(ask(&["new", "work", "--shell", "bash", "--cwd", "/usr"]), (0, "work\n".into(), String::new()));
    assert_eq!(
        ask(&["exec", "work", "V=kept; cd /; echo out; echo err >&2; (exit 5)"]),
        (5, "out\n".into(), "err\n".into())
    );
    assert_eq!(ask(&["exec", "work", "-e", "E=1", "--cwd", "/usr", "echo $? $V $E; pwd"]).1, "5 kept 1\n/usr\n");
    assert_eq!(told(&session(&outlive, &["exec", "-i", "work", "cat"], "fed")).1, "fed");
    assert_eq!(ask(&["exec", "--timeout", "300ms", "work", "sleep 1000"]).0, 124);
    let (_, listed, _) = ask(&["ls"]);
    assert!(listed.lines().nth(1).is_some_and(|line| line.starts_with("work") && line.contains("idle")), "{listed}");
    assert_eq!(ask(&["exec", "work", "exit 3"]).0, 3);
    let (code, _, complaint) = ask(&["exec", "work", "true"]);
    assert_eq!(code, 125, "outlive's own failure is not the command's");
    assert!(complaint.contains("(session_exited)"), "{complaint}");
    assert_eq!(ask(&["rm", "work"]).0, 0);
    let (code, _, complaint) = ask(&["rm", "work"]);
    assert_eq!(code, 1);
    assert!(complaint.contains("outlive session ls"), "{complaint}");
}

#[test]
fn a_prompt_reads_lines_from_anywhere() {
    let outlive = outlive();
    session(&outlive, &["new", "s", "--shell", "bash"], "");
    let (code, out, err) = told(&session(&outlive, &["shell", "s"], "X=1\necho $X \\\n two\n\nfalse\n"));
    assert_eq!((code, out.as_str(), err.as_str()), (1, "1 two\n", ""));
    let (code, _, err) = told(&session(&outlive, &["shell", "s"], "exit 4\necho never\n"));
    assert_eq!((code, err.as_str()), (4, "[the shell of the session has ended]\n"));
}

#[test]
fn an_interrupt_at_the_prompt_ended_it_or_was_not_seen() {
    let outlive = outlive();
    session(&outlive, &["new", "s", "--shell", "bash", "--cwd", "/"], "");
    let dir = outlive.state_dir();
    let args = ["--state-dir", dir.to_str().unwrap(), "session", "shell", "s"];
    let program = env!("CARGO_BIN_EXE_outlive");
    let prompt = outlive.start_process(json!({ "command": program, "args": args, "tty": true }));
    let type_in = |text: &str| {
        let body = json!({ "data": text, "encoding": "utf8" });
        assert_eq!(outlive.post(&format!("/v1/processes/{prompt}/input"), &body).status, 200);
    };
    let printed = || String::from_utf8_lossy(&outlive.output(&prompt)).into_owned();
    let prompts = |count: usize| eventually("a prompt", || (printed().matches("s:/$ ").count() == count).then_some(()));
    prompts(1);
    type_in("echo given-up\u{3}");
    prompts(2);
    type_in("sleep 1000\n");
    eventually("it runs", || outlive.get("/v1/sessions/s").json["running"].as_str().map(str::to_owned));
    type_in("\u{3}");
    prompts(3);
    type_in("echo $(($? + 1))\n");
    prompts(4);
    assert!(printed().contains("\n131\r\n"), "{}", printed());
    type_in("\u{4}");
    assert_eq!(outlive.wait_exit(&prompt)["exitCode"], 0);
}
