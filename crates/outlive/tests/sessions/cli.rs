//! `outlive session` from the command line.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::harness::{Outlive, eventually};
use crate::shells::start_outlive;

fn run_session(outlive: &Outlive, args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["--state-dir", outlive.state_dir().to_str().unwrap(), "session"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns exit code, stdout and stderr.
fn unpack(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn sessions_are_created_used_listed_and_removed() {
    let outlive = start_outlive();
    let run = |args: &[&str]| unpack(&run_session(&outlive, args, ""));
    assert_eq!(run(&["new", "work", "--shell", "bash", "--cwd", "/usr"]), (0, "work\n".into(), String::new()));
    assert_eq!(
        run(&["exec", "work", "V=kept; cd /; echo out; echo err >&2; (exit 5)"]),
        (5, "out\n".into(), "err\n".into())
    );
    assert_eq!(run(&["exec", "work", "-e", "E=1", "--cwd", "/usr", "echo $? $V $E; pwd"]).1, "5 kept 1\n/usr\n");
    assert_eq!(unpack(&run_session(&outlive, &["exec", "-i", "work", "cat"], "fed")).1, "fed");
    assert_eq!(run(&["exec", "--timeout", "300ms", "work", "sleep 1000"]).0, 124);
    let (_, listed, _) = run(&["ls"]);
    assert!(listed.lines().nth(1).is_some_and(|line| line.starts_with("work") && line.contains("idle")), "{listed}");
    assert_eq!(run(&["exec", "work", "exit 3"]).0, 3);
    let (code, _, error) = run(&["exec", "work", "true"]);
    assert_eq!(code, 125, "an error of outlive has its own exit code");
    assert!(error.contains("(session_exited)"), "{error}");
    assert_eq!(run(&["rm", "work"]).0, 0);
    let (code, _, error) = run(&["rm", "work"]);
    assert_eq!(code, 1);
    assert!(error.contains("outlive session ls"), "{error}");
}

#[test]
fn a_prompt_reads_commands_from_a_pipe() {
    let outlive = start_outlive();
    run_session(&outlive, &["new", "s", "--shell", "bash"], "");
    let (code, out, err) = unpack(&run_session(&outlive, &["shell", "s"], "X=1\necho $X \\\n two\n\nfalse\n"));
    assert_eq!((code, out.as_str(), err.as_str()), (1, "1 two\n", ""));
    let (code, _, err) = unpack(&run_session(&outlive, &["shell", "s"], "exit 4\necho never\n"));
    assert_eq!((code, err.as_str()), (4, "[the shell of the session has exited]\n"));
}

// Regression: Ctrl-C at the prompt ended the CLI, or had no effect.
#[test]
fn an_interrupt_discards_the_line_or_interrupts_the_command() {
    let outlive = start_outlive();
    run_session(&outlive, &["new", "s", "--shell", "bash", "--cwd", "/"], "");
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
    eventually("the command runs", || outlive.get("/v1/sessions/s").json["running"].as_str().map(str::to_owned));
    type_in("\u{3}");
    prompts(3);
    type_in("echo $(($? + 1))\n");
    prompts(4);
    assert!(printed().contains("\n131\r\n"), "{}", printed());
    type_in("\u{4}");
    assert_eq!(outlive.wait_exit(&prompt)["exitCode"], 0);
}
