//! outlive as PID 1 of a container, under nohup and in the background: it reaps orphans, and job control works on its
//! terminals.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::path::{Path, PathBuf};

use harness::{Outlive, Setup, eventually, proc, write_executable};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outlive");

/// Writes a script that starts `OUTLIVE` as `text` says, with the script's own arguments.
fn write_wrapper(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("wrapper");
    write_executable(&path, format!("#!/bin/sh\n{}\n", text.replace("OUTLIVE", PROGRAM)).as_bytes());
    path
}

/// outlive as PID 1 of a namespace of its own.
struct Init {
    outlive: Outlive,
    /// The holder's pid outside the namespace.
    pid: i32,
    _dir: tempfile::TempDir,
}

impl Init {
    /// Returns `None` where the test may not create a PID namespace.
    fn start(arguments: &[&str]) -> Option<Self> {
        let allowed = std::process::Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a PID namespace needs root and unshare");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let program = write_wrapper(dir.path(), "exec unshare --pid --fork --kill-child --mount-proc OUTLIVE \"$@\"");
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let outlive = Outlive::start_with(Setup { program: Some(program), arguments, ..Setup::default() });
        assert_eq!(outlive.get("/v1/health").json["holderPid"], 1);
        let pid = proc::children(outlive.holder_pid())[0];
        Some(Self { outlive, pid, _dir: dir })
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // unshare does not forward signals.
        proc::send_signal(self.pid, rustix::process::Signal::TERM);
    }
}

#[test]
fn pid_1_reaps_orphans() {
    let Some(init) = Init::start(&[]) else { return };
    let outlive = &init.outlive;
    let marker = format!("orphan{}x", std::process::id());
    let gate = outlive.dir.path().join("gate");
    let orphan = format!("sh -c 'while [ ! -e {} ]; do sleep 0.05; done; : {marker}'", gate.display());
    let id = outlive
        .start_shell(&format!("for i in 1 2 3 4 5 6 7 8 9 10; do (setsid {orphan} >/dev/null 2>&1 &); done; exit 5"));
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 5);
    let is_orphan = |pid: &i32| proc::state_and_parent(*pid).is_some_and(|(_, parent)| parent == init.pid);
    // Only the orphans have the marker: the test itself has it neither in its arguments nor in its environment.
    eventually("ten orphans", || {
        (proc::find_marked(&marker).iter().filter(|pid| is_orphan(pid)).count() == 10).then_some(())
    });
    std::fs::write(&gate, "").unwrap();
    eventually("none is left, not even as a zombie", || {
        let left = proc::find_marked(&marker).len() + proc::count_zombies(init.pid);
        (left == 0).then_some(())
    });
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
}

#[test]
fn sigterm_to_pid_1_ends_everything_within_the_grace_period() {
    let Some(mut init) = Init::start(&["--grace-ms", "300"]) else { return };
    let marker = format!("grace{}x", std::process::id());
    let stubborn = format!("sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done; : {marker}'");
    let id = init
        .outlive
        .start_shell(&format!("(env -i /usr/bin/setsid /bin/{stubborn} &) ; trap '' TERM; echo up; {stubborn}"));
    init.outlive.wait_output(&id, "up");
    eventually("both processes", || (proc::find_marked(&marker).len() >= 2).then_some(()));
    proc::send_signal(init.pid, rustix::process::Signal::TERM);
    let code = eventually("the exit of outlive", || init.outlive.exit_code());
    assert_eq!(code, 0);
    assert_eq!(proc::find_marked(&marker), Vec::<i32>::new());
}

// ---- job control ----

/// Interrupts, suspends and resumes jobs in an interactive bash; `how` says how outlive was started.
fn check_job_control(outlive: &Outlive, how: &str) {
    let id = outlive.start_process(json!({
        "command": "bash", "args": ["--norc", "--noprofile", "-i"], "tty": true, "env": { "PS1": "ready> ", "HISTFILE": null },
    }));
    let type_in = |text: &str| {
        let response = outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": text, "encoding": "utf8" }));
        assert_eq!(response.status, 200, "{how}: {}", response.text());
    };
    outlive.wait_output(&id, "ready> ");
    let first = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
    for warning in ["no job control", "cannot set terminal process group", "warning", "ioctl"] {
        assert!(!first.contains(warning), "{how}: {first:?}");
    }
    // The terminal echoes the input, so every pattern is a result that the shell computes.
    type_in("sh -c 'echo in-$((1+1)); read x; echo never'\n");
    outlive.wait_output(&id, "in-2");
    type_in("\u{3}");
    // A shell that takes its terminal back discards typed-ahead input, so the test waits for the prompt.
    outlive.wait_output(&id, "(?s)in-2\r\n.*ready> ");
    type_in("echo code-$?.\n");
    outlive.wait_output(&id, "(?s)code-130\\..*ready> ");
    type_in("sh -c 'echo in-$((2+2)); read x; echo got-$x-$((3+3))'\n");
    outlive.wait_output(&id, "in-4");
    type_in("\u{1a}");
    outlive.wait_output(&id, "(?s)Stopped.*ready> ");
    type_in("jobs | wc -l | sed s/^/jobs-/\n");
    outlive.wait_output(&id, "(?s)jobs-1\r\n.*ready> ");
    type_in("fg\n");
    outlive.wait_output(&id, "fg\r\n[^s]*sh -c");
    type_in("hello\n");
    outlive.wait_output(&id, "(?s)got-hello-6.*ready> ");
    type_in("exit 7\n");
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 7, "{how}");
    let all = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
    assert!(!all.contains("never\r"), "{how}: {all:?}");
    // A child ignores no signals, whatever outlive was started with.
    let status = outlive.post("/v1/processes/run", &json!({ "command": "cat", "args": ["/proc/self/status"] }));
    let status = status.json["stdout"].as_str().unwrap().to_owned();
    for name in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with("0000000000000000"), "{how}: {line}");
    }
}

#[test]
fn job_control_works_on_a_terminal() {
    check_job_control(&Outlive::start(), "plain");
}

#[test]
fn job_control_works_under_pid_1() {
    let Some(init) = Init::start(&[]) else { return };
    check_job_control(&init.outlive, "PID 1");
}

#[test]
fn job_control_works_under_nohup() {
    let dir = tempfile::tempdir().unwrap();
    let program = write_wrapper(dir.path(), "exec nohup OUTLIVE \"$@\"");
    let outlive = Outlive::start_with(Setup { program: Some(program), ..Setup::default() });
    check_job_control(&outlive, "nohup");
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn job_control_works_when_started_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    // A shell without job control starts background commands with INT and QUIT ignored and no stdin.
    let program =
        write_wrapper(dir.path(), "OUTLIVE \"$@\" &\npid=$!\ntrap 'kill -TERM $pid' TERM\nwait $pid\nwait $pid");
    let outlive = Outlive::start_with(Setup { program: Some(program), ..Setup::default() });
    check_job_control(&outlive, "&");
    assert_eq!(outlive.stop(), 0);
}

// Regression: a SIGTERM between the listening line and the exec of the holder killed outlive.
#[test]
fn sigterm_right_after_the_listening_line_exits_with_code_0() {
    for _ in 0..20 {
        assert_eq!(Outlive::start().stop(), 0);
    }
}
