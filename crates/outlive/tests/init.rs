//! As the first process of a container, under nohup, in the background: an init that reaps, and terminals on which
//! job control works.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harness::{Outlive, Setup, eventually, proc};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outlive");

/// A script that starts outlive in some special way, with the arguments that it is given.
fn wrapper(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("wrapper");
    std::fs::write(&path, format!("#!/bin/sh\n{}\n", text.replace("OUTLIVE", PROGRAM))).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// outlive as PID 1 of a namespace of its own; `None` where that is not allowed.
struct Init {
    outlive: Outlive,
    /// The holder as seen from outside.
    pid: i32,
    _dir: tempfile::TempDir,
}

impl Init {
    fn start(arguments: &[&str]) -> Option<Self> {
        let allowed = std::process::Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a PID namespace needs root and unshare");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let program = wrapper(dir.path(), "exec unshare --pid --fork --kill-child --mount-proc OUTLIVE \"$@\"");
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let outlive = Outlive::with(Setup { program: Some(program), arguments, ..Setup::default() });
        assert_eq!(outlive.get("/v1/health").json["holderPid"], 1);
        let pid = proc::children(outlive.holder_pid())[0];
        Some(Self { outlive, pid, _dir: dir })
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // unshare itself passes no signal on.
        proc::signal(self.pid, rustix::process::Signal::TERM);
    }
}

#[test]
fn as_pid_1_it_reaps_orphans() {
    let Some(init) = Init::start(&[]) else { return };
    let outlive = &init.outlive;
    let mark = format!("orphan{}x", std::process::id());
    let go = outlive.dir.path().join("go");
    let orphan = format!("sh -c 'while [ ! -e {} ]; do sleep 0.05; done; : {mark}'", go.display());
    let id =
        outlive.shell(&format!("for i in 1 2 3 4 5 6 7 8 9 10; do (setsid {orphan} >/dev/null 2>&1 &); done; exit 5"));
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 5);
    let is_orphan = |pid: &i32| proc::stat(*pid).is_some_and(|(_, parent)| parent == init.pid);
    // The test has the mark in its own environment neither in arguments nor elsewhere, so these are all.
    eventually("ten orphans", || {
        (proc::with_mark(&mark).iter().filter(|pid| is_orphan(pid)).count() == 10).then_some(())
    });
    std::fs::write(&go, "").unwrap();
    eventually("none is left, not even as a zombie", || {
        let left = proc::with_mark(&mark).len() + proc::zombies_of(init.pid);
        (left == 0).then_some(())
    });
    assert_eq!(outlive.get("/v1/health").json["status"], "ok");
}

#[test]
fn as_pid_1_a_term_ends_all_within_the_grace() {
    let Some(mut init) = Init::start(&["--grace-ms", "300"]) else { return };
    let mark = format!("grace{}x", std::process::id());
    let stubborn = format!("sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done; : {mark}'");
    let id =
        init.outlive.shell(&format!("(env -i /usr/bin/setsid /bin/{stubborn} &) ; trap '' TERM; echo up; {stubborn}"));
    init.outlive.wait_output(&id, "up");
    eventually("both", || (proc::with_mark(&mark).len() >= 2).then_some(()));
    proc::signal(init.pid, rustix::process::Signal::TERM);
    let code = eventually("its end", || init.outlive.exit_code());
    assert_eq!(code, 0);
    assert_eq!(proc::with_mark(&mark), Vec::<i32>::new());
}

// ---- job control ----

fn job_control(outlive: &Outlive, how: &str) {
    let id = outlive.start_process(json!({
        "command": "bash", "args": ["--norc", "--noprofile", "-i"], "tty": true, "env": { "PS1": "ready> ", "HISTFILE": null },
    }));
    let say = |text: &str| {
        let answer = outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": text, "encoding": "utf8" }));
        assert_eq!(answer.status, 200, "{how}: {}", answer.text());
    };
    outlive.wait_output(&id, "ready> ");
    let first = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
    for warning in ["no job control", "cannot set terminal process group", "warning", "ioctl"] {
        assert!(!first.contains(warning), "{how}: {first:?}");
    }
    // What is typed is echoed, so every answer is something that was computed.
    say("sh -c 'echo in-$((1+1)); read x; echo never'\n");
    outlive.wait_output(&id, "in-2");
    say("\u{3}");
    // A shell that has just got its terminal back throws away what was typed ahead.
    outlive.wait_output(&id, "(?s)in-2\r\n.*ready> ");
    say("echo code-$?.\n");
    outlive.wait_output(&id, "(?s)code-130\\..*ready> ");
    say("sh -c 'echo in-$((2+2)); read x; echo got-$x-$((3+3))'\n");
    outlive.wait_output(&id, "in-4");
    say("\u{1a}");
    outlive.wait_output(&id, "(?s)Stopped.*ready> ");
    say("jobs | wc -l | sed s/^/jobs-/\n");
    outlive.wait_output(&id, "(?s)jobs-1\r\n.*ready> ");
    say("fg\n");
    outlive.wait_output(&id, "fg\r\n[^s]*sh -c");
    say("hello\n");
    outlive.wait_output(&id, "(?s)got-hello-6.*ready> ");
    say("exit 7\n");
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 7, "{how}");
    let all = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
    assert!(!all.contains("never\r"), "{how}: {all:?}");
    // And whatever we were started with, a child ignores nothing.
    let status = outlive.post("/v1/processes/run", &json!({ "command": "cat", "args": ["/proc/self/status"] }));
    let status = status.json["stdout"].as_str().unwrap().to_owned();
    for name in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with("0000000000000000"), "{how}: {line}");
    }
}

#[test]
fn job_control_works_on_a_terminal() {
    job_control(&Outlive::start(), "plain");
}

#[test]
fn job_control_works_under_pid_1() {
    let Some(init) = Init::start(&[]) else { return };
    job_control(&init.outlive, "PID 1");
}

#[test]
fn job_control_works_under_nohup() {
    let dir = tempfile::tempdir().unwrap();
    let program = wrapper(dir.path(), "exec nohup OUTLIVE \"$@\"");
    let outlive = Outlive::with(Setup { program: Some(program), ..Setup::default() });
    job_control(&outlive, "nohup");
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn job_control_works_when_started_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    // A shell without job control starts it with INT and QUIT ignored and without a stdin.
    let program = wrapper(dir.path(), "OUTLIVE \"$@\" &\npid=$!\ntrap 'kill -TERM $pid' TERM\nwait $pid\nwait $pid");
    let outlive = Outlive::with(Setup { program: Some(program), ..Setup::default() });
    job_control(&outlive, "&");
    assert_eq!(outlive.stop(), 0);
}

/// Between the announcement and the exec of the holder a TERM met nobody who had asked for it.
#[test]
fn a_term_right_after_the_announcement_ends_it_with_code_0() {
    for _ in 0..20 {
        assert_eq!(Outlive::start().stop(), 0);
    }
}
